import { useCallback, useEffect, useRef, useState, type RefCallback } from "react";

interface StickToEnd {
  readonly box: RefCallback<HTMLDivElement>;
  /** Whether the end is kept in view. */
  readonly isFollowing: () => boolean;
}

const NEAR = 40;
/** How long after each input a scroll counts as the user's. A scrollbar reports only the press. */
const SCROLL_CAUSES_MS = { wheel: 1_000, touchmove: 1_000, keydown: 1_000, pointerdown: 10_000 } as const;

/** Keeps a box at its end while it grows, until the user scrolls up; back at the end, it follows again. */
export function useStickToEnd(startsAtEnd: boolean): StickToEnd {
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const isAtEnd = useRef(startsAtEnd);
  useEffect(() => {
    const inner = box?.firstElementChild;
    if (!box || !inner) return;
    let last = box.scrollTop;
    let byHandUntil = 0;
    const follow = (): void => {
      if (isAtEnd.current) box.scrollTop = box.scrollHeight;
    };
    const onScroll = (): void => {
      const isNear = box.scrollTop + box.clientHeight >= box.scrollHeight - NEAR;
      const isByHand = performance.now() < byHandUntil; // added and removed content scrolls the box too
      if (isNear && startsAtEnd) isAtEnd.current = true;
      else if (isByHand && box.scrollTop < last) isAtEnd.current = false;
      last = box.scrollTop;
    };
    const onCause = (event: Event): void => {
      byHandUntil = performance.now() + SCROLL_CAUSES_MS[event.type as keyof typeof SCROLL_CAUSES_MS];
    };
    const sizes = new ResizeObserver(follow);
    sizes.observe(inner);
    sizes.observe(box);
    box.addEventListener("scroll", onScroll, { passive: true });
    for (const cause of Object.keys(SCROLL_CAUSES_MS)) box.addEventListener(cause, onCause, { passive: true });
    return () => {
      sizes.disconnect();
      box.removeEventListener("scroll", onScroll);
      for (const cause of Object.keys(SCROLL_CAUSES_MS)) box.removeEventListener(cause, onCause);
    };
  }, [box, startsAtEnd]);
  return { box: setBox, isFollowing: useCallback(() => isAtEnd.current, []) };
}
