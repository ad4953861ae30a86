import { useEffect, useRef } from "react";
import UPlot from "uplot";
import type { UsageReport, Used } from "../api/types";
import { useStore } from "../state/store";
import { shades } from "../state/theme";
import { count, money, tokensOf } from "../state/words";
import { seriesOf, stacked } from "./usageSeries";

const COLOURS = ["#2f9e7f", "#6c6ce0", "#d0900f", "#3f86d0", "#d0473e", "#9a6bb8", "#7d8a86"];
const HEIGHT = 260;
const DAY_MS = 86_400_000;

export type Measure = "cost" | "tokens";

/** Bars on each other, one for each crew or agent. What is drawn stands in the table below as well. */
export function UsageChart({ report, what, by }: { report: UsageReport; what: Measure; by: string }) {
  const box = useRef<HTMLDivElement>(null);
  const shade = useStore(shades);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = drawn(element, report, what);
    const observer = new ResizeObserver(() => chart.setSize({ width: inner(element), height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [report, what, shade]);
  return <div className="chart" ref={box} role="img" aria-label={`${what} over time by ${by}; the table below has the numbers`} />;
}

function drawn(element: HTMLElement, report: UsageReport, what: Measure): UPlot {
  const { names, times, rows } = seriesOf(report, what === "cost" ? costOf : tokensOf);
  const words = what === "cost" ? money : count;
  const { color, borderTopColor } = getComputedStyle(element);
  const axis = { stroke: color, grid: { stroke: borderTopColor, width: 1 }, ticks: { stroke: borderTopColor } };
  const paths = UPlot.paths.bars?.({ size: [0.6, 60] });
  const options: UPlot.Options = {
    width: inner(element),
    height: HEIGHT,
    tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
    axes: [{ ...axis, ...steps(report.step_ms) }, { ...axis, size: 70, values: (_, marks) => marks.map(words) }],
    scales: { y: { range: (_, __, max) => [0, max * 1.1 || 1] } },
    series: [
      { label: "time (UTC)", value: (_, at) => (at === null ? "" : new Date(at * 1_000).toISOString().slice(0, 16).replace("T", " ")) },
      ...names.map((label, n) => ({
        label,
        fill: COLOURS[n % COLOURS.length] ?? color,
        stroke: COLOURS[n % COLOURS.length] ?? color,
        points: { show: false },
        // The bar is as high as all below it, the legend has its own number.
        value: (_: UPlot, __: number, ___: number, at: number | null) => (at === null ? "" : words(rows[n]?.[at] ?? 0)),
        ...(paths ? { paths } : {}),
      })),
    ],
  };
  return new UPlot(options, [[...times], ...stacked(rows)], element);
}

/** Marks stand where a step begins: hours of the day, or days. */
function steps(stepMs: number): Partial<UPlot.Axis> {
  const isDays = stepMs >= DAY_MS;
  return {
    space: 70,
    incrs: (isDays ? [1, 2, 7, 14, 28, 91, 364] : [1, 2, 3, 6, 12, 24]).map((steps) => (steps * stepMs) / 1_000),
    values: (_, marks) => marks.map((at) => new Date(at * 1_000).toISOString().slice(isDays ? 5 : 11, isDays ? 10 : 16)),
  };
}

function inner(element: HTMLElement): number {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

function costOf(used: Used): number {
  return used.cost_micros;
}
