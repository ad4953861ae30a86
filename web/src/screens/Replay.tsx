import { useState } from "react";
import { post, ApiError, errorMessage } from "../api/client";
import type { RunEvent } from "../api/events";
import type { RunDetail } from "../api/types";
import { navigate } from "../state/router";
import { formatTime } from "../state/format";
import { ScopedButton } from "../ui/ScopedButton";

interface Props {
  readonly events: readonly RunEvent[];
  readonly version: number;
  /** The number of events shown; null follows the run. */
  readonly cursor: number | null;
  readonly choose: (cursor: number | null) => void;
  readonly run: string;
}

/** A slider over the journal: the page shows the run at that event. */
export function Replay({ events, cursor, choose, run }: Props) {
  const [error, setError] = useState("");
  const [near, setNear] = useState<readonly number[]>([]);
  const shown = cursor ?? events.length;
  const event = events[shown - 1];
  const seq = lastOwnSeq(events, shown, run);
  const fork = async (after: number): Promise<void> => {
    try {
      const made = await post<RunDetail>(`/v1/runs/${encodeURIComponent(run)}/fork`, { after });
      navigate("runs", made.id);
    } catch (refused) {
      setError(errorMessage(refused));
      setNear(nearbyForkPoints(refused));
    }
  };
  return (
    <div className="replay">
      <label htmlFor="replay">Replay</label>
      <button type="button" aria-label="One event back" disabled={shown <= 1} onClick={() => choose(shown - 1)}>
        ‹
      </button>
      <input
        id="replay"
        type="range"
        min={Math.min(1, events.length)}
        max={events.length}
        value={shown}
        aria-valuetext={event ? `event ${shown} of ${events.length}: ${event.type}` : "no events"}
        onChange={({ target }) => choose(target.valueAsNumber >= events.length ? null : target.valueAsNumber)}
      />
      <button
        type="button"
        aria-label="One event forward"
        disabled={cursor === null}
        onClick={() => choose(shown + 1 >= events.length ? null : shown + 1)}
      >
        ›
      </button>
      <span className="replay-at">
        {event ? `${shown} / ${events.length} · ${event.type} · ${formatTime(event.at)}` : "no events yet"}
      </span>
      <button type="button" disabled={cursor === null} onClick={() => choose(null)}>
        Newest
      </button>
      <ScopedButton needs="run" disabled={!seq} onClick={() => void fork(seq)} title={`A new run that shares everything up to event ${seq}`}>
        Fork here
      </ScopedButton>
      {error && (
        <p className="failed" role="alert">
          {error}{" "}
          {near.map((place) => (
            <ScopedButton needs="run" key={place} className="small" onClick={() => void fork(place)}>
              Fork after {place}
            </ScopedButton>
          ))}
        </p>
      )}
    </div>
  );
}

/** A run can be forked only where nothing is open; the server names the nearest events. */
function nearbyForkPoints(refused: unknown): readonly number[] {
  const near = refused instanceof ApiError ? refused.more["near"] : undefined;
  return Array.isArray(near) ? near.filter((place): place is number => typeof place === "number") : [];
}

/** A fork is made at an event of the run itself; events of child runs belong to the one before them. */
function lastOwnSeq(events: readonly RunEvent[], upTo: number, run: string): number {
  for (let n = upTo - 1; n >= 0; n -= 1) {
    const event = events[n];
    if (event?.run === run) return event.seq;
  }
  return 0;
}
