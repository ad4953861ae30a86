import { useMemo } from "react";
import { isDelta } from "../api/events";
import type { EventFilter } from "../state/useResource";
import { isBelow } from "../state/runHistory";

/** Matches events of a run and its child runs. */
export function useRunEventFilter(run: string): EventFilter {
  return useMemo<EventFilter>(() => (event) => !isDelta(event) && (event.run === run || isBelow(event.run, run)), [run]);
}
