import { useEffect, useRef } from "react";
import UPlot from "uplot";
import type { UsageReport, Used } from "../api/types";
import { series } from "./usageSeries";

const COLOURS = ["#2f9e7f", "#5b5bd6", "#c9820a", "#2f6fb5", "#b3261e", "#7a5195", "#5c6a66"];
const HEIGHT = 260;

/** A line for each crew. What is drawn stands in the table below as well. */
export function UsageChart({ report, what }: { report: UsageReport; what: "cost" | "tokens" }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const { crews, data } = series(report, what === "cost" ? dollars : tokens);
    const ink = getComputedStyle(element).getPropertyValue("--quiet");
    const line = getComputedStyle(element).getPropertyValue("--line");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const bars = UPlot.paths.bars?.({ size: [0.6, 60] });
    const options: UPlot.Options = {
      width: element.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
      axes: [axis, { ...axis, size: 70, values: (_, marks) => marks.map((mark) => (what === "cost" ? `$${+mark.toFixed(5)}` : mark.toLocaleString("en"))) }],
      scales: { y: { range: (_, __, max) => [0, max * 1.1 || 1] } },
      series: [
        {},
        ...crews.map((crew, n) => {
          const colour = COLOURS[n % COLOURS.length] ?? "#2f9e7f";
          return { label: crew, stroke: colour, fill: `${colour}55`, width: 1.5, points: { show: false }, ...(bars ? { paths: bars } : {}) };
        }),
      ],
    };
    const chart = new UPlot(options, data, element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [report, what]);
  return <div className="chart" ref={box} role="img" aria-label={`${what} over time by crew; the table below has the numbers`} />;
}

function dollars(used: Used): number {
  return used.cost_micros / 1_000_000;
}

function tokens(used: Used): number {
  return used.input_tokens + used.output_tokens;
}
