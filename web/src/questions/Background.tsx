import { useEffect, useState } from "react";
import { get, wordsOf } from "../api/client";
import type { RunEvent } from "../api/events";
import type { Question, RunDetail } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { storyOf, type TranscriptEntry } from "../state/story";
import { Said } from "../ui/Said";

interface EventPage {
  readonly events: readonly RunEvent[];
}

interface Told {
  readonly input: string;
  readonly last: readonly TranscriptEntry[];
}

const LOOKED_AT = 60;
const SHOWN = 4;
const TELLING = new Set(["reply", "message", "answer", "tool"]);

/** What the run was given, and what was said last: without it nobody can decide. */
export function Background({ question }: { question: Question }) {
  const [told, setTold] = useState<Told | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const stopping = new AbortController();
    load(question, stopping.signal).then(setTold, (refused: unknown) => {
      if (!stopping.signal.aborted) setError(wordsOf(refused));
    });
    return () => stopping.abort();
  }, [question.run, question.token]);
  return (
    <details className="background" open>
      <summary>Input and last messages</summary>
      {error && <p className="quiet">They could not be loaded: {error}</p>}
      {told && (
        <>
          <p className="background-head">Input</p>
          <Said text={told.input} empty="No input" />
          {told.last.map((entry) => (
            <div key={entry.key}>
              <p className="background-head">
                <bdi>{entry.author}</bdi> {entry.note && <bdi className="quiet">{entry.note}</bdi>}
              </p>
              {entry.kind === "reply" ? <Markdown text={entry.text} marks={entry.marks} /> : <Said text={entry.result?.text ?? entry.text} />}
            </div>
          ))}
        </>
      )}
    </details>
  );
}

async function load({ run }: Question, signal: AbortSignal): Promise<Told> {
  const path = `/v1/runs/${encodeURIComponent(run)}`;
  const { seq } = await get<RunDetail>(path, signal);
  const [first, last] = await Promise.all([
    get<EventPage>(`${path}/events?limit=1`, signal),
    get<EventPage>(`${path}/events?after=${Math.max(0, seq - LOOKED_AT)}&limit=${LOOKED_AT}`, signal),
  ]);
  const input = first.events[0]?.["input"];
  const entries = storyOf(last.events).transcript.filter((entry) => TELLING.has(entry.kind));
  return { input: typeof input === "string" ? input : "", last: entries.slice(-SHOWN) };
}
