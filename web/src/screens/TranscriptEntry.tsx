import { memo } from "react";
import { CodeBlock } from "../markdown/CodeBlock";
import { Markdown } from "../markdown/Markdown";
import { sourceOf } from "../markdown/source";
import type { CallFacts, EntryKind, TranscriptEntry } from "../state/runProjection";
import { tokenText, formatTime, duration, money } from "../state/format";
import { CopyButton } from "../ui/CopyButton";
import { OneLine, PlainText } from "../ui/PlainText";
import { Reasoning } from "./Reasoning";

/** Entries that may have a heading only. */
const HEADING_ONLY_KINDS: ReadonlySet<EntryKind> = new Set(["end", "note"]);
/** Agents write Markdown; text of people is shown as typed. */
const MARKDOWN_KINDS: ReadonlySet<EntryKind> = new Set(["reply", "message", "question", "note"]);

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
        <time>{formatTime(entry.at)}</time>
        {entry.text && entry.kind !== "tool" && <CopyButton text={entry.text} what={`message of ${entry.author}`} />}
      </p>
      {entry.kind === "tool" ? <ToolCall entry={entry} isPlain={isPlain} /> : <Body entry={entry} isPlain={isPlain} />}
    </div>
  );
});

function noteOf({ kind, note, result }: TranscriptEntry): string {
  if (kind !== "tool") return note;
  return result ? `called ${note}` : `calls ${note}`;
}

function Body({ entry, isPlain }: { entry: TranscriptEntry; isPlain: boolean }) {
  if (!entry.text && HEADING_ONLY_KINDS.has(entry.kind)) return null;
  const isFormatted = MARKDOWN_KINDS.has(entry.kind) && !isPlain && entry.text;
  const unseen = (entry.marks ?? []).filter((mark) => !entry.text.includes(mark) || isPlain);
  return (
    <>
      {entry.reasoning && <Reasoning text={entry.reasoning} />}
      {isFormatted ? <RichText entry={entry} /> : <PlainText text={entry.text} />}
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

/** A reply that is JSON or a diff as a whole is shown as code. */
function RichText({ entry }: { entry: TranscriptEntry }) {
  const isSource = !entry.marks?.length && sourceOf(entry.text) !== "text" && !entry.text.includes("```");
  return isSource ? <CodeBlock text={entry.text} /> : <Markdown text={entry.text} marks={entry.marks} />;
}

function ToolCall({ entry, isPlain }: { entry: TranscriptEntry; isPlain: boolean }) {
  const { result } = entry;
  const state = !result ? "in progress" : result.isFailed ? "failed" : `${entry.note} returned`;
  return (
    <details className={result?.isFailed ? "tool is-failed" : "tool"}>
      <summary>
        <span className="tool-state">{state}</span> <OneLine text={result ? result.text : entry.text} />
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
  return isPlain || text.length > CODE_MAX || !text || sourceOf(text) === "text" ? <PlainText text={text} /> : <CodeBlock text={text} />;
}

/** Model, tokens, cost and time of a call. Unknown parts are omitted, except an unknown price. */
function factsOf(call: CallFacts, model: string): string {
  const cost = call.isUnpriced ? "cost unknown" : call.costMicros ? money(call.costMicros) : "";
  const tokens = call.tokens ? `${tokenText(call.tokens, call.cachedTokens)} tokens` : "";
  return [model, tokens, cost, duration(call.ms)].filter(Boolean).join(" · ");
}
