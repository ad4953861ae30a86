import { memo } from "react";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { sourceOf } from "../markdown/source";
import type { CallFacts, EntryKind, TranscriptEntry } from "../state/story";
import { clock, count, duration, money } from "../state/words";
import { CopyButton } from "../ui/CopyButton";
import { Brief, Said } from "../ui/Said";

/** Their heading may be all that there is to say. */
const WORDLESS: ReadonlySet<EntryKind> = new Set(["end", "note"]);
/** What agents write is Markdown; what people write is what they typed. */
const FORMATTED: ReadonlySet<EntryKind> = new Set(["reply", "message", "question", "note"]);

interface Props {
  readonly entry: TranscriptEntry;
  readonly model: string;
  readonly isPlain: boolean;
}

export const Entry = memo(function Entry({ entry, model, isPlain }: Props) {
  return (
    <div className={`entry entry-${entry.kind}`}>
      <p className="entry-head">
        {entry.path.length > 0 && <bdi className="path">{entry.path.join(" › ")} ›</bdi>}
        <bdi className="author">{entry.author}</bdi>
        {entry.note && <bdi className="quiet">{noteOf(entry)}</bdi>}
        {entry.call && <span className="quiet facts-line">{factsOf(entry.call, model)}</span>}
        <time>{clock(entry.at)}</time>
        {entry.text && entry.kind !== "tool" && <CopyButton text={entry.text} what={`message of ${entry.author}`} />}
      </p>
      {entry.kind === "tool" ? <Tool entry={entry} isPlain={isPlain} /> : <Body entry={entry} isPlain={isPlain} />}
    </div>
  );
});

function noteOf({ kind, note, result }: TranscriptEntry): string {
  if (kind !== "tool") return note;
  return result ? `called ${note}` : `calls ${note}`;
}

function Body({ entry, isPlain }: { entry: TranscriptEntry; isPlain: boolean }) {
  if (!entry.text && WORDLESS.has(entry.kind)) return null;
  const isFormatted = FORMATTED.has(entry.kind) && !isPlain && entry.text;
  const unseen = (entry.marks ?? []).filter((mark) => !entry.text.includes(mark) || isPlain);
  return (
    <>
      {isFormatted ? <Formatted entry={entry} /> : <Said text={entry.text} />}
      {unseen.length > 0 && (
        <p className="marks">
          {unseen.map((mark) => (
            <bdi key={mark} className="mark">
              {mark}
            </bdi>
          ))}
        </p>
      )}
    </>
  );
}

/** A reply that is JSON or a difference as a whole is shown as that. */
function Formatted({ entry }: { entry: TranscriptEntry }) {
  const isSource = !entry.marks?.length && sourceOf(entry.text) !== "text" && !entry.text.includes("```");
  return isSource ? <CodeBlock text={entry.text} /> : <Markdown text={entry.text} marks={entry.marks} />;
}

function Tool({ entry, isPlain }: { entry: TranscriptEntry; isPlain: boolean }) {
  const { result } = entry;
  const state = !result ? "in progress" : result.isFailed ? "failed" : `${entry.note} returned`;
  return (
    <details className={result?.isFailed ? "tool is-failed" : "tool"}>
      <summary>
        <span className="tool-state">{state}</span> <Brief text={result ? result.text : entry.text} />
        {result && <span className="quiet"> {duration(result.ms)}</span>}
      </summary>
      <p className="background-head">Arguments</p>
      <Source text={entry.text} isPlain={isPlain} />
      {result && (
        <>
          <p className="background-head">{result.isFailed ? "Error" : "Result"}</p>
          <Source text={result.text} isPlain={isPlain} />
        </>
      )}
    </details>
  );
}

const CODE_MAX = 20_000;

function Source({ text, isPlain }: { text: string; isPlain: boolean }) {
  return isPlain || text.length > CODE_MAX || !text || sourceOf(text) === "text" ? <Said text={text} /> : <CodeBlock text={text} />;
}

/** Model, tokens, cost and time of a call; what is not known is left out, an unknown price is said. */
function factsOf(call: CallFacts, model: string): string {
  const cost = call.isUnpriced ? "cost unknown" : call.costMicros ? money(call.costMicros) : "";
  const tokens = call.tokens ? `${count(call.tokens)} tokens` : "";
  return [model, tokens, cost, duration(call.ms)].filter(Boolean).join(" · ");
}
