import { memo, useEffect, useRef } from "react";
import type { EntryKind, Story, TranscriptEntry } from "../state/story";
import { clock } from "../state/words";
import { Empty } from "../ui/Notes";
import { Said } from "../ui/Said";
import { useNewest } from "../ui/useNewest";

/** Their heading may be all that there is to say. */
const WORDLESS: ReadonlySet<EntryKind> = new Set(["end", "note"]);

/** Who said what. */
export function Transcript({ story, version }: { story: Story; version: number }) {
  const { newest, earlier } = useNewest(story.transcript);
  const end = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const box = end.current?.parentElement;
    if (box && isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [version]);
  if (!story.transcript.length) return <Empty title="Nobody has said anything yet." />;
  return (
    <div
      className="transcript"
      tabIndex={0}
      role="log"
      aria-label="Transcript"
      onScroll={({ currentTarget: at }) => {
        isAtEnd.current = at.scrollTop + at.clientHeight >= at.scrollHeight - 40;
      }}
    >
      {earlier}
      {newest.map((entry) => (
        <Entry key={entry.key} entry={entry} />
      ))}
      {[...story.saying].map(([place, text]) => (
        <div key={place} className="entry entry-saying">
          <p className="entry-head">
            <bdi className="author">{place.split("\u0000")[1]}</bdi> is saying
          </p>
          <Said text={text} />
        </div>
      ))}
      <div ref={end} />
    </div>
  );
}

const Entry = memo(function Entry({ entry }: { entry: TranscriptEntry }) {
  return (
    <div className={`entry entry-${entry.kind}`}>
      <p className="entry-head">
        {entry.path.length > 0 && <bdi className="path">{entry.path.join(" › ")} ›</bdi>}
        <bdi className="author">{entry.author}</bdi>
        {entry.note && <bdi className="quiet">{entry.note}</bdi>}
        <time>{clock(entry.at)}</time>
      </p>
      {(entry.text || !WORDLESS.has(entry.kind)) && <Said text={entry.text} />}
    </div>
  );
});
