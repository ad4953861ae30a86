import { useState } from "react";
import type { BroadcastPage } from "../api/types";
import { anything, useFetched } from "../state/fetched";
import { clock } from "../state/words";
import { Empty, Failed, Loading } from "../ui/Notes";
import { Brief } from "../ui/Said";
import { VirtualList } from "../ui/VirtualList";
import { shownData } from "./parsedData";

const ROW = 30;
// Other processes announce too, and no run of ours tells of it.
const LOOK_MS = 2_000;

export function BroadcastFeed() {
  const [pattern, setPattern] = useState("");
  const query = new URLSearchParams({ limit: "1000", ...(pattern.trim() && { pattern: pattern.trim() }) });
  const { value, error, again } = useFetched<BroadcastPage>(`/v1/engine/signals/events?${query}`, anything, LOOK_MS);
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
      {error && <Failed error={error} again={again} />}
      {!value && !error && <Loading what="broadcasts" />}
      {value && !events.length && (
        <Empty title={pattern ? "Nothing that was announced is like that." : "Nothing was announced yet."}>
          Agents announce with the tool emit_broadcast, programs with interlock broadcast emit, you with the form above.
        </Empty>
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
                    <time>{clock(each.createdAt)}</time>
                    <b>
                      <Brief text={each.type} />
                    </b>
                    <Brief text={`${each.source.type} ${each.source.id ?? ""} ${shownData(each)}`} />
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
