import { useState, type ReactNode } from "react";

const AT_ONCE = 100;

interface Window<Each> {
  readonly shown: readonly Each[];
  readonly earlier: ReactNode;
  readonly later: ReactNode;
}

/** Of a long list only a part is on the page: its end where more comes, its beginning where it is over. */
export function useWindow<Each>(all: readonly Each[], startsAtEnd: boolean): Window<Each> {
  const [isAtEnd] = useState(startsAtEnd);
  const [most, setMost] = useState(AT_ONCE);
  const left = Math.max(0, all.length - most);
  const more = left > 0 && (
    <button type="button" onClick={() => setMost(most + AT_ONCE)}>
      Show {isAtEnd ? "earlier" : "later"} ({left} more)
    </button>
  );
  return {
    shown: isAtEnd ? all.slice(left) : all.slice(0, most),
    earlier: isAtEnd && more,
    later: !isAtEnd && more,
  };
}
