import { useState } from "react";
import { post, Refused, wordsOf } from "../api/client";
import type { RunEvent } from "../api/events";
import type { RunDetail } from "../api/types";
import { go } from "../state/router";
import { clock } from "../state/words";
import { Act } from "../ui/Act";

interface Props {
  readonly events: readonly RunEvent[];
  readonly version: number;
  /** How many events are shown; null follows the run. */
  readonly cursor: number | null;
  readonly choose: (cursor: number | null) => void;
  readonly run: string;
}

/** The journal as a slider: everything on the page stands as it stood then. */
export function Replay({ events, cursor, choose, run }: Props) {
  const [error, setError] = useState("");
  const [near, setNear] = useState<readonly number[]>([]);
  const shown = cursor ?? events.length;
  const event = events[shown - 1];
  const seq = lastOwn(events, shown, run);
  const fork = async (after: number): Promise<void> => {
    try {
      const made = await post<RunDetail>(`/v1/runs/${encodeURIComponent(run)}/fork`, { after });
      go("runs", made.id);
    } catch (refused) {
      setError(wordsOf(refused));
      setNear(placesNear(refused));
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
        aria-label="One event on"
        disabled={cursor === null}
        onClick={() => choose(shown + 1 >= events.length ? null : shown + 1)}
      >
        ›
      </button>
      <span className="replay-at">
        {event ? `${shown} / ${events.length} · ${event.type} · ${clock(event.at)}` : "no events yet"}
      </span>
      <button type="button" disabled={cursor === null} onClick={() => choose(null)}>
        Newest
      </button>
      <Act needs="run" disabled={!seq} onClick={() => void fork(seq)} title={`A new run that shares everything up to event ${seq}`}>
        Fork here
      </Act>
      {error && (
        <p className="failed" role="alert">
          {error}{" "}
          {near.map((place) => (
            <Act needs="run" key={place} className="small" onClick={() => void fork(place)}>
              Fork after {place}
            </Act>
          ))}
        </p>
      )}
    </div>
  );
}

/** A run can be forked only where nothing is open; the server knows the places around. */
function placesNear(refused: unknown): readonly number[] {
  const near = refused instanceof Refused ? refused.more["near"] : undefined;
  return Array.isArray(near) ? near.filter((place): place is number => typeof place === "number") : [];
}

/** A run is forked at an event of its own; what happened in the crews below belongs to the one before it. */
function lastOwn(events: readonly RunEvent[], upTo: number, run: string): number {
  for (let n = upTo - 1; n >= 0; n -= 1) {
    const event = events[n];
    if (event?.run === run) return event.seq;
  }
  return 0;
}
