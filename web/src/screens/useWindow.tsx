import { useRef, useState, type ReactNode } from "react";

const PAGE_SIZE = 100;

interface Window<Each> {
  readonly shown: readonly Each[];
  readonly earlier: ReactNode;
  readonly later: ReactNode;
}

/** Shows a part of a long list: the end if more may come, else the beginning. While the reader is not at the end,
 * nothing is removed from the beginning: the text being read must not move. */
export function useWindow<Each>(all: readonly Each[], isAtEnd: boolean, isFollowing: () => boolean): Window<Each> {
  const [most, setMost] = useState(PAGE_SIZE);
  const first = useRef(0);
  const newest = Math.max(0, all.length - most);
  first.current = isFollowing() ? newest : Math.min(first.current, newest);
  const left = isAtEnd ? first.current : Math.max(0, all.length - most);
  const more = left > 0 && (
    <button type="button" onClick={() => setMost((isAtEnd ? all.length - first.current : most) + PAGE_SIZE)}>
      Show {isAtEnd ? "earlier" : "later"} ({left} more)
    </button>
  );
  return {
    shown: isAtEnd ? all.slice(first.current) : all.slice(0, most),
    earlier: isAtEnd && more,
    later: !isAtEnd && more,
  };
}
