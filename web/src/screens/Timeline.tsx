import { useMemo } from "react";
import type { Span, SpanKind, Story } from "../state/story";
import { duration } from "../state/words";
import { Empty } from "../ui/Notes";

const BARS_MAX = 1_000;
const LEGEND: readonly (readonly [SpanKind, string])[] = [
  ["model", "model"],
  ["tool", "tool"],
  ["child", "crew"],
  ["wait", "waits for a person"],
];

/** A lane for each agent and each crew below; bars are calls of models and tools, children and waits. */
export function Timeline({ story, version }: { story: Story; version: number }) {
  const lanes = useMemo(() => byLane(story), [story, version]);
  if (!story.spans.length) return <Empty title="Nothing has taken any time yet." />;
  const whole = Math.max(1, story.now - story.begin);
  const left = story.spans.length - BARS_MAX;
  return (
    <div className="timeline" tabIndex={0} role="group" aria-label="Timeline">
      <p className="legend">
        {LEGEND.map(([kind, words]) => (
          <span key={kind}>
            <i className={`bar-${kind}`} /> {words}
          </span>
        ))}
        <span className="quiet">{duration(whole)} in all{left > 0 && `; the first ${left} bars are left out`}</span>
      </p>
      {lanes.map(([lane, spans]) => (
        <div className="lane" key={lane}>
          <bdi className="lane-name" title={lane}>
            {lane}
          </bdi>
          <div className="lane-bars">
            {spans.map((span) => (
              <Bar key={span.key} span={span} begin={story.begin} now={story.now} />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

function byLane(story: Story): [string, Span[]][] {
  const found = new Map<string, Span[]>(story.lanes.map((lane) => [lane, []]));
  for (const span of story.spans.slice(-BARS_MAX)) found.get(span.lane)?.push(span);
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
