import { useState, type ReactNode } from "react";

const AT_ONCE = 100;

/** Of a long list only the newest are on the page, until earlier ones are asked for. */
export function useNewest<Each>(all: readonly Each[]): { readonly newest: readonly Each[]; readonly earlier: ReactNode } {
  const [most, setMost] = useState(AT_ONCE);
  const left = Math.max(0, all.length - most);
  const earlier = left > 0 && (
    <button type="button" onClick={() => setMost(most + AT_ONCE)}>
      Show earlier ({left} more)
    </button>
  );
  return { newest: all.slice(left), earlier };
}
