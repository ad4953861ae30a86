import { expect, test } from "vitest";
import type { UsageReport, UsageTotals } from "../api/types";
import { SERIES_MAX, seriesOf, stackRows } from "./usageSeries";

function used(calls: number): UsageTotals {
  return { calls, input_tokens: 0, output_tokens: 0, cost_micros: 0, unpriced_calls: 0 } as UsageTotals;
}

function report(...times: readonly (readonly [at: number, crew: string, agent: string, calls: number])[]): UsageReport {
  const all = times.map(([at, crew, agent, calls]) => ({ at, crew, agent, usage: used(calls) }));
  return { runs: 1, usage: used(0), savings: { saved_micros: 0, unknown_calls: 0 }, crews: [], unread: [], step_ms: 1_000, times: all };
}

const calls = ({ calls: all }: UsageTotals): number => all;

test("there is a number for every step, with room on both sides", () => {
  expect(seriesOf(report([5_000, "a", "", 1], [7_000, "a", "", 2]), calls)).toEqual({
    names: ["a"],
    times: [4, 5, 6, 7, 8],
    rows: [[0, 1, 0, 2, 0]],
  });
});

test("agents of different crews are separate, and the largest comes first", () => {
  const { names, rows } = seriesOf(report([0, "a", "x", 1], [0, "b", "x", 5]), calls);
  expect(names).toEqual(["b › x", "a › x"]);
  expect(rows).toEqual([
    [0, 5, 0],
    [0, 1, 0],
  ]);
});

test("the rest beyond the colours is one series, and nothing is lost", () => {
  const many = Array.from({ length: 20 }, (_, n) => [0, "a", `agent${n}`, n + 1] as const);
  const { names, rows } = seriesOf(report(...many), calls);
  expect(names).toHaveLength(SERIES_MAX);
  expect(names.at(-1)).toBe("all others");
  expect(rows.flat().reduce((all, each) => all + each)).toBe(210);
});

test("bars stack", () => {
  expect(stackRows([[1, 2], [10, 20], [100, 200]])).toEqual([[111, 222], [110, 220], [100, 200]]);
});
