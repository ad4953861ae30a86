import { useState } from "react";
import type { BroadcastPage } from "../api/types";
import { anyEvent, useResource } from "../state/useResource";
import { formatTime } from "../state/format";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";
import { OneLine } from "../ui/PlainText";
import { VirtualList } from "../ui/VirtualList";
import { formatData } from "./broadcastData";

const ROW = 30;
// Other processes emit too, without an event of a run here.
const POLL_MS = 2_000;

export function BroadcastFeed() {
  const [pattern, setPattern] = useState("");
  const query = new URLSearchParams({ limit: "1000", ...(pattern.trim() && { pattern: pattern.trim() }) });
  const { value, error, refresh } = useResource<BroadcastPage>(`/v1/engine/signals/events?${query}`, anyEvent, POLL_MS);
  const events = value?.events ?? [];
  return (
    <section aria-label="Feed">
      <div className="filters">
        <label>
          Pattern <input value={pattern} placeholder="build:*:done" onChange={(event) => setPattern(event.target.value)} />
        </label>
        <span className="quiet">
          <code>*</code> matches one segment
        </span>
      </div>
      {error && <ErrorNotice error={error} retry={refresh} />}
      {!value && !error && <LoadingNotice what="broadcasts" />}
      {value && !events.length && (
        <EmptyNotice title={pattern ? "No broadcasts match this pattern." : "No broadcasts yet"}>
          Agents emit them with the tool emit_broadcast, programs with interlock broadcast emit, you with the form above.
        </EmptyNotice>
      )}
      {events.length > 0 && (
        <div className="feed">
          <VirtualList
            count={events.length}
            rowHeight={ROW}
            label="Broadcasts, the newest last"
            sticks
            row={(n) => {
              const each = events[n];
              return (
                each && (
                  <div className="event-row feed-row" key={each.id}>
                    <time>{formatTime(each.createdAt)}</time>
                    <b>
                      <OneLine text={each.type} />
                    </b>
                    <OneLine text={`${each.source.type} ${each.source.id ?? ""} ${formatData(each)}`} />
                  </div>
                )
              );
            }}
          />
        </div>
      )}
    </section>
  );
}
