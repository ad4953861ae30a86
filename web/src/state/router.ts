/** Where the page stands: the fragment of its address, so that one file serves every screen. */
import { useSyncExternalStore } from "react";

function watch(watcher: () => void): () => void {
  window.addEventListener("hashchange", watcher);
  return () => window.removeEventListener("hashchange", watcher);
}

/** The parts of `#/runs/abc`, decoded. */
export function usePlace(): readonly string[] {
  const hash = useSyncExternalStore(watch, () => location.hash);
  return hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function placeOf(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function go(...parts: readonly string[]): void {
  location.hash = placeOf(...parts);
}
