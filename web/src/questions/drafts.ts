/** What somebody typed, by question, for as long as the page is open: closing the drawer loses nothing. */
import { useState } from "react";

const KEPT_MAX = 200;
const drafts = new Map<string, unknown>();

export function useDraft<Shape>(key: string, first: () => Shape): readonly [Shape, (value: Shape) => void] {
  const [draft, setDraft] = useState<Shape>(() => (drafts.has(key) ? (drafts.get(key) as Shape) : first()));
  const keep = (value: Shape): void => {
    drafts.delete(key);
    drafts.set(key, value);
    const oldest = drafts.keys().next().value;
    if (drafts.size > KEPT_MAX && oldest !== undefined) drafts.delete(oldest);
    setDraft(value);
  };
  return [draft, keep];
}
