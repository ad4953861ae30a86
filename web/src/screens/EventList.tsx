import { useState } from "react";
import type { RunEvent } from "../api/events";
import { formatTime } from "../state/format";
import { OneLine, PlainText } from "../ui/PlainText";
import { VirtualList, type Option } from "../ui/VirtualList";

const ROW = 30;
const COMMON_FIELDS = new Set(["run", "seq", "at", "type", "path"]);

export function EventList({ events, upTo }: { events: readonly RunEvent[]; upTo: number }) {
  const [chosen, setChosen] = useState<RunEvent | null>(null);
  return (
    <div className="events">
      <VirtualList
        count={upTo}
        rowHeight={ROW}
        label={`${upTo} events`}
        sticks
        choose={(n) => setChosen(events[n] ?? null)}
        row={(n, option) => {
          const event = events[n];
          return event && <Row key={`${event.run}.${event.seq}`} {...{ event, option }} isChosen={event === chosen} choose={setChosen} />;
        }}
      />
      {chosen && (
        <div className="event-whole">
          <button type="button" className="small" onClick={() => setChosen(null)}>
            Close
          </button>
          <PlainText text={JSON.stringify(chosen, null, 2)} />
        </div>
      )}
    </div>
  );
}

interface RowProps {
  readonly event: RunEvent;
  readonly option: Option;
  readonly isChosen: boolean;
  readonly choose: (event: RunEvent) => void;
}

function Row({ event, option, isChosen, choose }: RowProps) {
  return (
    <div {...option} className="event-row" aria-selected={isChosen} onClick={() => choose(event)}>
      <span className="number">{event.seq}</span>
      <time>{formatTime(event.at)}</time>
      <b>{event.type}</b>
      <OneLine text={fieldSummary(event)} />
    </div>
  );
}

function fieldSummary(event: RunEvent): string {
  const below = event.path?.length ? `${event.path.join(" › ")} · ` : "";
  const fields = Object.entries(event).filter(([name, value]) => !COMMON_FIELDS.has(name) && hasContent(value));
  return below + fields.map(([name, value]) => `${name}=${typeof value === "string" ? value.slice(0, 80) : JSON.stringify(value).slice(0, 80)}`).join("  ");
}

function hasContent(value: unknown): boolean {
  return value !== "" && value !== null && value !== 0 && value !== false && !(Array.isArray(value) && !value.length);
}
