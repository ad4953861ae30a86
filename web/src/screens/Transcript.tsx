import { useMemo, useState } from "react";
import type { AgentModel } from "../api/types";
import type { Story, TranscriptEntry } from "../state/story";
import { Choice } from "../ui/Choice";
import { Empty } from "../ui/Notes";
import { Said } from "../ui/Said";
import { Entry } from "./TranscriptEntry";
import { useFollowing } from "./useFollowing";
import { useWindow } from "./useWindow";

interface Props {
  readonly story: Story;
  readonly version: number;
  readonly models: readonly AgentModel[];
  /** Whether more may come: then it is shown from its end, else from its beginning. */
  readonly isLive: boolean;
}

const EVERYBODY = "";

/** Who said what. */
export function Transcript({ story, version, models, isLive }: Props) {
  const [agent, setAgent] = useState(EVERYBODY);
  const [isPlain, setPlain] = useState(false);
  const lanes = useMemo(() => lanesOf(story.transcript), [story, version]);
  const entries = agent ? story.transcript.filter((entry) => laneOf(entry) === agent) : story.transcript;
  const [startsAtEnd] = useState(isLive); // a run that ends while it is watched stays where it is
  const { box, isFollowing } = useFollowing(startsAtEnd);
  const { shown, earlier, later } = useWindow(entries, startsAtEnd, isFollowing);
  const names = useMemo(() => new Map(models.map((each) => [[...each.path, each.agent].join(" › "), each.model])), [models]);
  if (!story.transcript.length && !story.saying.size) return <Empty title="No messages yet" />;
  return (
    <div className="transcript-frame">
      <div className="filters">
        <Choice label="Agent" value={agent} choose={setAgent} options={{ [EVERYBODY]: "everyone", ...lanes }} />
        <label>
          <input type="checkbox" checked={isPlain} onChange={(event) => setPlain(event.target.checked)} /> Plain text
        </label>
      </div>
      <div className="transcript" tabIndex={0} role="log" aria-label="Transcript" ref={box}>
        <div>
          {earlier}
          {shown.map((entry) => (
            <Entry key={entry.key} entry={entry} model={entry.call?.model || names.get(laneOf(entry)) || ""} isPlain={isPlain} />
          ))}
          {later}
          {!later && [...story.saying].map(([place, text]) => <Typing key={place} place={place} text={text} agent={agent} />)}
        </div>
      </div>
    </div>
  );
}

function Typing({ place, text, agent }: { place: string; text: string; agent: string }) {
  const [level = "", name = ""] = place.split("\u0000");
  if (agent && agent !== (level ? `${level} › ${name}` : name)) return null;
  return (
    <div className="entry entry-saying">
      <p className="entry-head">
        <bdi className="author">{name}</bdi> is typing…
      </p>
      <Said text={text} />
    </div>
  );
}

function laneOf({ path, author }: TranscriptEntry): string {
  return [...path, author].join(" › ");
}

/** Whoever said something, under the name that is shown. */
function lanesOf(entries: readonly TranscriptEntry[]): Readonly<Record<string, string>> {
  const lanes = [...new Set(entries.filter((entry) => entry.kind !== "note").map(laneOf))].filter(Boolean);
  return Object.fromEntries(lanes.map((lane) => [lane, lane]));
}
