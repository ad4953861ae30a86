import { useEffect, useState } from "react";

/** The time, now and then. */
export function useNow(everyMs = 5_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const beat = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(beat);
  }, [everyMs]);
  return now;
}
