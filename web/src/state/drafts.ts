/** What the user typed, by question or form, until they sign out: closing a drawer or leaving a screen loses nothing. */
import { useState } from "react";

const DRAFTS_MAX = 200;
const drafts = new Map<string, unknown>();

/** Clears all drafts: the next user of this browser must not read them. */
export function forgetDrafts(): void {
  drafts.clear();
}

export function useDraft<Shape>(key: string, first: () => Shape): readonly [Shape, (value: Shape) => void] {
  const [draft, setDraft] = useState<Shape>(() => (drafts.has(key) ? (drafts.get(key) as Shape) : first()));
  const keep = (value: Shape): void => {
    drafts.delete(key);
    drafts.set(key, value);
    const oldest = drafts.keys().next().value;
    if (drafts.size > DRAFTS_MAX && oldest !== undefined) drafts.delete(oldest);
    setDraft(value);
  };
  return [draft, keep];
}
