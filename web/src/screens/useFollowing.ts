import { useCallback, useEffect, useRef, useState, type RefCallback } from "react";

interface Following {
  readonly box: RefCallback<HTMLDivElement>;
  /** Whether the end is shown, and kept in view. */
  readonly isFollowing: () => boolean;
}

const NEAR = 40;
/** For so long after it a key, a wheel or a press is why the box scrolls. A scrollbar tells only of the press. */
const CAUSES = { wheel: 1_000, touchmove: 1_000, keydown: 1_000, pointerdown: 10_000 } as const;

/** Keeps a box at its end while it grows, until somebody scrolls up; at its end again, it follows again. */
export function useFollowing(startsAtEnd: boolean): Following {
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
      const isByHand = performance.now() < byHandUntil; // what is added or taken away moves it as well
      if (isNear && startsAtEnd) isAtEnd.current = true;
      else if (isByHand && box.scrollTop < last) isAtEnd.current = false;
      last = box.scrollTop;
    };
    const onCause = (event: Event): void => {
      byHandUntil = performance.now() + CAUSES[event.type as keyof typeof CAUSES];
    };
    const sizes = new ResizeObserver(follow);
    sizes.observe(inner);
    sizes.observe(box);
    box.addEventListener("scroll", onScroll, { passive: true });
    for (const cause of Object.keys(CAUSES)) box.addEventListener(cause, onCause, { passive: true });
    return () => {
      sizes.disconnect();
      box.removeEventListener("scroll", onScroll);
      for (const cause of Object.keys(CAUSES)) box.removeEventListener(cause, onCause);
    };
  }, [box, startsAtEnd]);
  return { box: setBox, isFollowing: useCallback(() => isAtEnd.current, []) };
}
