import { useEffect, useRef } from "react";
import UPlot from "uplot";
import type { UsageReport, UsageTotals } from "../api/types";
import { useStore } from "../state/store";
import { colorScheme } from "../state/theme";
import { count, money, tokensOf } from "../state/format";
import { seriesOf, stackRows } from "./usageSeries";

const COLOURS = ["#2f9e7f", "#6c6ce0", "#d0900f", "#3f86d0", "#d0473e", "#9a6bb8", "#7d8a86"];
const HEIGHT = 260;
const DAY_MS = 86_400_000;

export type Measure = "cost" | "tokens";

/** Stacked bars, one series per crew or agent. The table below has the same numbers. */
export function UsageChart({ report, what, by }: { report: UsageReport; what: Measure; by: string }) {
  const box = useRef<HTMLDivElement>(null);
  const shade = useStore(colorScheme);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = drawChart(element, report, what);
    const observer = new ResizeObserver(() => chart.setSize({ width: contentWidth(element), height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [report, what, shade]);
  return <div className="chart" ref={box} role="img" aria-label={`${what} over time by ${by}; the table below has the numbers`} />;
}

function drawChart(element: HTMLElement, report: UsageReport, what: Measure): UPlot {
  const { names, times, rows } = seriesOf(report, what === "cost" ? costMicrosOf : tokensOf);
  const words = what === "cost" ? money : count;
  const { color, borderTopColor } = getComputedStyle(element);
  const axis = { stroke: color, grid: { stroke: borderTopColor, width: 1 }, ticks: { stroke: borderTopColor } };
  const paths = UPlot.paths.bars?.({ size: [0.6, 60] });
  const options: UPlot.Options = {
    width: contentWidth(element),
    height: HEIGHT,
    tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
    axes: [{ ...axis, ...timeAxis(report.step_ms) }, { ...axis, size: 70, values: (_, marks) => marks.map(words) }],
    scales: { y: { range: (_, __, max) => [0, max * 1.1 || 1] } },
    series: [
      { label: "time (UTC)", value: (_, at) => (at === null ? "" : new Date(at * 1_000).toISOString().slice(0, 16).replace("T", " ")) },
      ...names.map((label, n) => ({
        label,
        fill: COLOURS[n % COLOURS.length] ?? color,
        stroke: COLOURS[n % COLOURS.length] ?? color,
        points: { show: false },
        // The bar includes all below it; the legend shows the series' own number.
        value: (_: UPlot, __: number, ___: number, at: number | null) => (at === null ? "" : words(rows[n]?.[at] ?? 0)),
        ...(paths ? { paths } : {}),
      })),
    ],
  };
  return new UPlot(options, [[...times], ...stackRows(rows)], element);
}

/** Axis marks at the start of each step: hours of the day, or days. */
function timeAxis(stepMs: number): Partial<UPlot.Axis> {
  const isDays = stepMs >= DAY_MS;
  return {
    space: 70,
    incrs: (isDays ? [1, 2, 7, 14, 28, 91, 364] : [1, 2, 3, 6, 12, 24]).map((steps) => (steps * stepMs) / 1_000),
    values: (_, marks) => marks.map((at) => new Date(at * 1_000).toISOString().slice(isDays ? 5 : 11, isDays ? 10 : 16)),
  };
}

function contentWidth(element: HTMLElement): number {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

function costMicrosOf(used: UsageTotals): number {
  return used.cost_micros;
}
