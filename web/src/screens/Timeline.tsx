import { useMemo } from "react";
import type { Span, SpanKind, RunProjection } from "../state/runProjection";
import { duration } from "../state/format";
import { EmptyNotice } from "../ui/Notes";

const BARS_MAX = 1_000;
const LEGEND: readonly (readonly [SpanKind, string])[] = [
  ["model", "model"],
  ["tool", "tool"],
  ["child", "crew"],
  ["wait", "waits for a person"],
];

/** A lane for each agent and sub-crew; bars are model calls, tool calls, child runs and waits. */
export function Timeline({ projection, version }: { projection: RunProjection; version: number }) {
  const lanes = useMemo(() => byLane(projection), [projection, version]);
  if (!projection.spans.length) return <EmptyNotice title="No calls yet" />;
  const whole = Math.max(1, projection.now - projection.begin);
  const left = projection.spans.length - BARS_MAX;
  return (
    <div className="timeline" tabIndex={0} role="group" aria-label="Timeline">
      <p className="legend">
        {LEGEND.map(([kind, words]) => (
          <span key={kind}>
            <i className={`bar-${kind}`} /> {words}
          </span>
        ))}
        <span className="quiet">{duration(whole)} total{left > 0 && `; the first ${left} bars are not shown`}</span>
      </p>
      {lanes.map(([lane, spans]) => (
        <div className="lane" key={lane}>
          <bdi className="lane-name" title={lane}>
            {lane}
          </bdi>
          <div className="lane-bars">
            {spans.map((span) => (
              <Bar key={span.key} span={span} begin={projection.begin} now={projection.now} />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

function byLane(projection: RunProjection): [string, Span[]][] {
  const found = new Map<string, Span[]>(projection.lanes.map((lane) => [lane, []]));
  for (const span of projection.spans.slice(-BARS_MAX)) found.get(span.lane)?.push(span);
  return [...found];
}

function Bar({ span, begin, now }: { span: Span; begin: number; now: number }) {
  const whole = Math.max(1, now - begin);
  const end = span.to ?? now;
  const place = { left: `${((span.from - begin) / whole) * 100}%`, width: `${((end - span.from) / whole) * 100}%` };
  const words = `${span.label}: ${span.to === null ? "since" : "took"} ${duration(end - span.from)} ${span.outcome}`;
  const look = `bar bar-${span.kind} ${span.to === null ? "is-open" : ""} ${span.outcome === "failed" ? "is-failed" : ""}`;
  return <span className={look} style={place} title={words} role="img" aria-label={words} />;
}
