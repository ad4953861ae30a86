import { useState, type ReactNode } from "react";

const PAGE_SIZE = 100;

/** Shows only the newest entries of a long list, and a button for earlier ones. */
export function useNewest<Each>(all: readonly Each[]): { readonly newest: readonly Each[]; readonly earlier: ReactNode } {
  const [most, setMost] = useState(PAGE_SIZE);
  const left = Math.max(0, all.length - most);
  const earlier = left > 0 && (
    <button type="button" onClick={() => setMost(most + PAGE_SIZE)}>
      Show earlier ({left} more)
    </button>
  );
  return { newest: all.slice(left), earlier };
}
