/** The current screen: the fragment of the address, so that one file serves every screen. */
import { useSyncExternalStore } from "react";

function watchHash(watcher: () => void): () => void {
  window.addEventListener("hashchange", watcher);
  return () => window.removeEventListener("hashchange", watcher);
}

/** The parts of `#/runs/abc`, decoded. */
export function useRoute(): readonly string[] {
  const hash = useSyncExternalStore(watchHash, () => location.hash);
  return hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodePart);
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function hrefOf(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function navigate(...parts: readonly string[]): void {
  location.hash = hrefOf(...parts);
}
