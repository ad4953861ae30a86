import { useSyncExternalStore } from "react";

const WIDE = window.matchMedia("(min-width: 800px)");

function watch(watcher: () => void): () => void {
  WIDE.addEventListener("change", watcher);
  return () => WIDE.removeEventListener("change", watcher);
}

export function useWide(): boolean {
  return useSyncExternalStore(watch, () => WIDE.matches);
}
