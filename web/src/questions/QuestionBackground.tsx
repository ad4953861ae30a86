import { useEffect, useState } from "react";
import { get, errorMessage } from "../api/client";
import type { RunEvent } from "../api/events";
import type { Question, RunDetail } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { projectRun, type TranscriptEntry } from "../state/runProjection";
import { PlainText } from "../ui/PlainText";

interface EventPage {
  readonly events: readonly RunEvent[];
}

interface RunContext {
  readonly input: string;
  readonly last: readonly TranscriptEntry[];
}

const EVENTS_READ = 60;
const ENTRIES_SHOWN = 4;
const SHOWN_KINDS = new Set(["reply", "message", "answer", "tool"]);

/** The input of the run and its last messages, which a decision needs. */
export function QuestionBackground({ question }: { question: Question }) {
  const [context, setContext] = useState<RunContext | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const stopping = new AbortController();
    loadRunContext(question, stopping.signal).then(setContext, (refused: unknown) => {
      if (!stopping.signal.aborted) setError(errorMessage(refused));
    });
    return () => stopping.abort();
  }, [question.run, question.token]);
  return (
    <details className="background" open>
      <summary>Input and last messages</summary>
      {error && <p className="quiet">Could not load them: {error}</p>}
      {context && (
        <>
          <p className="background-head">Input</p>
          <PlainText text={context.input} empty="No input" />
          {context.last.map((entry) => (
            <div key={entry.key}>
              <p className="background-head">
                <bdi>{entry.author}</bdi> {entry.note && <bdi className="quiet">{entry.note}</bdi>}
              </p>
              {entry.kind === "reply" ? <Markdown text={entry.text} marks={entry.marks} /> : <PlainText text={entry.result?.text ?? entry.text} />}
            </div>
          ))}
        </>
      )}
    </details>
  );
}

async function loadRunContext({ run }: Question, signal: AbortSignal): Promise<RunContext> {
  const path = `/v1/runs/${encodeURIComponent(run)}`;
  const { seq } = await get<RunDetail>(path, signal);
  const [first, last] = await Promise.all([
    get<EventPage>(`${path}/events?limit=1`, signal),
    get<EventPage>(`${path}/events?after=${Math.max(0, seq - EVENTS_READ)}&limit=${EVENTS_READ}`, signal),
  ]);
  const input = first.events[0]?.["input"];
  const entries = projectRun(last.events).transcript.filter((entry) => SHOWN_KINDS.has(entry.kind));
  return { input: typeof input === "string" ? input : "", last: entries.slice(-ENTRIES_SHOWN) };
}
