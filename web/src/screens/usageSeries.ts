import type { UsageReport, Used } from "../api/types";

/** A number for each step of time and each crew; steps without a run are 0. */
export function series(report: UsageReport, of: (used: Used) => number): { crews: string[]; data: [number[], ...number[][]] } {
  const crews = [...new Set(report.times.map((each) => each.crew))];
  const first = report.times[0]?.at ?? 0;
  const last = report.times.at(-1)?.at ?? 0;
  const times: number[] = [];
  // One step more on each side: a single bar needs room.
  for (let at = first - report.step_ms; at <= last + report.step_ms; at += report.step_ms) times.push(at / 1_000);
  const rows = crews.map(() => times.map(() => 0));
  for (const each of report.times) {
    const row = rows[crews.indexOf(each.crew)];
    if (row) row[Math.round((each.at - first) / report.step_ms) + 1] = of(each.usage);
  }
  return { crews, data: [times, ...rows] };
}
