/** The series of the usage chart. Pure. */
import type { UsageReport, UsageTotals } from "../api/types";

export interface Series {
  readonly names: readonly string[];
  /** In seconds. */
  readonly times: readonly number[];
  /** By name, then by time; times without a run are 0. */
  readonly rows: readonly (readonly number[])[];
}

/** More colours than this cannot be told apart. */
export const SERIES_MAX = 7;
const OTHERS = "all others";

/** A number per time step and crew or agent, the largest first; the smallest are combined. */
export function seriesOf(report: UsageReport, of: (used: UsageTotals) => number): Series {
  const first = report.times[0]?.at ?? 0;
  const last = report.times.at(-1)?.at ?? 0;
  // One step more on each side: a single bar needs room.
  const begin = first - report.step_ms;
  const length = Math.round((last - first) / report.step_ms) + 3;
  const found = new Map<string, number[]>();
  for (const each of report.times) {
    const name = each.agent ? `${each.crew} › ${each.agent}` : each.crew;
    const row = found.get(name) ?? zeros(length);
    const at = Math.round((each.at - begin) / report.step_ms);
    row[at] = (row[at] ?? 0) + of(each.usage);
    found.set(name, row);
  }
  const sorted = [...found].sort(([, one], [, other]) => sum(other) - sum(one));
  const [shown, rest] = sorted.length > SERIES_MAX ? [sorted.slice(0, SERIES_MAX - 1), sorted.slice(SERIES_MAX - 1)] : [sorted, []];
  if (rest.length) shown.push([OTHERS, rest.map(([, row]) => row).reduce(addRows)]);
  return {
    names: shown.map(([name]) => name),
    times: zeros(length).map((_, n) => (begin + n * report.step_ms) / 1_000),
    rows: shown.map(([, row]) => row),
  };
}

/** Adds to each row all rows after it: drawn in this order, the bars stack. */
export function stackRows(rows: readonly (readonly number[])[]): number[][] {
  const found: number[][] = [];
  for (const row of [...rows].reverse()) found.unshift(found[0] ? addRows(row, found[0]) : [...row]);
  return found;
}

function zeros(length: number): number[] {
  return Array.from({ length }, () => 0);
}

function addRows(one: readonly number[], other: readonly number[]): number[] {
  return one.map((value, n) => value + (other[n] ?? 0));
}

function sum(row: readonly number[]): number {
  return row.reduce((all, each) => all + each, 0);
}
