import { useMemo } from "react";
import { isDelta } from "../api/events";
import type { Concerns } from "../state/fetched";
import { isBelow } from "../state/following";

/** Whatever happens in a run or below it. */
export function useConcerns(run: string): Concerns {
  return useMemo<Concerns>(() => (told) => !isDelta(told) && (told.run === run || isBelow(told.run, run)), [run]);
}
