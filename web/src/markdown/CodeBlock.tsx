import { CopyButton } from "../ui/CopyButton";
import { diffKind, prettyJson, sourceOf } from "./source";

/** More lines are shown without colours: each line is an element. */
const LINES_MAX = 1_000;

export function CodeBlock({ text, language = "" }: { text: string; language?: string }) {
  const source = sourceOf(text, language);
  const shown = (source === "json" && prettyJson(text)) || text;
  const name = language || (source === "text" ? "" : source);
  return (
    <div className="code-block">
      <p className="code-head">
        <bdi>{name}</bdi>
        <CopyButton text={text} what={name === "diff" ? "diff" : "code"} />
      </p>
      <pre className={`source source-${source}`} tabIndex={0} role="group" aria-label={name || "code"}>
        <bdi dir="auto">{source === "diff" ? <Difference text={shown} /> : shown}</bdi>
      </pre>
    </div>
  );
}

const SPOKEN_PREFIXES = { add: "added: ", remove: "removed: ", hunk: "", same: "" } as const;

function Difference({ text }: { text: string }) {
  const lines = text.split("\n");
  if (lines.length > LINES_MAX) return text;
  return lines.map((line, n) => {
    const kind = diffKind(line);
    return (
      <span key={n} className={`line line-${kind}`}>
        {SPOKEN_PREFIXES[kind] && <span className="off-screen">{SPOKEN_PREFIXES[kind]}</span>}
        {line}
        {"\n"}
      </span>
    );
  });
}
