import { useEffect, useRef, useState, type RefCallback } from "react";

const NEAR = 40;

/** Keeps a box at its end while it grows, until somebody scrolls up; at its end again, it follows again. */
export function useFollowing(startsAtEnd: boolean): RefCallback<HTMLDivElement> {
  const [scrolled, setScrolled] = useState<HTMLDivElement | null>(null);
  const isAtEnd = useRef(startsAtEnd);
  useEffect(() => {
    const inner = scrolled?.firstElementChild;
    if (!scrolled || !inner) return;
    let last = scrolled.scrollTop;
    const follow = (): void => {
      if (!isAtEnd.current) return;
      scrolled.scrollTop = scrolled.scrollHeight;
      last = scrolled.scrollTop;
    };
    const onScroll = (): void => {
      const isNear = scrolled.scrollTop + scrolled.clientHeight >= scrolled.scrollHeight - NEAR;
      if (isNear) isAtEnd.current = true;
      else if (scrolled.scrollTop < last) isAtEnd.current = false;
      last = scrolled.scrollTop;
    };
    const sizes = new ResizeObserver(follow);
    sizes.observe(inner);
    sizes.observe(scrolled);
    scrolled.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      scrolled.removeEventListener("scroll", onScroll);
    };
  }, [scrolled]);
  return setScrolled;
}
