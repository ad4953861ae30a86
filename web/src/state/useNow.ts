import { useEffect, useState } from "react";

/** The current time, updated at an interval. */
export function useNow(everyMs = 5_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const beat = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(beat);
  }, [everyMs]);
  return now;
}
