import { useRef, useState, type ReactNode } from "react";

const AT_ONCE = 100;

interface Window<Each> {
  readonly shown: readonly Each[];
  readonly earlier: ReactNode;
  readonly later: ReactNode;
}

/** Of a long list only a part is on the page: its end where more comes, its beginning where it is over. While the reader
 * is not at the end, nothing is taken away from the beginning: what is read must not move. */
export function useWindow<Each>(all: readonly Each[], isAtEnd: boolean, isFollowing: () => boolean): Window<Each> {
  const [most, setMost] = useState(AT_ONCE);
  const first = useRef(0);
  const newest = Math.max(0, all.length - most);
  first.current = isFollowing() ? newest : Math.min(first.current, newest);
  const left = isAtEnd ? first.current : Math.max(0, all.length - most);
  const more = left > 0 && (
    <button type="button" onClick={() => setMost((isAtEnd ? all.length - first.current : most) + AT_ONCE)}>
      Show {isAtEnd ? "earlier" : "later"} ({left} more)
    </button>
  );
  return {
    shown: isAtEnd ? all.slice(first.current) : all.slice(0, most),
    earlier: isAtEnd && more,
    later: !isAtEnd && more,
  };
}
