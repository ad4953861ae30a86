import { useMemo, useState } from "react";
import type { AgentModel } from "../api/types";
import type { PartialReply, RunProjection, TranscriptEntry } from "../state/runProjection";
import { Choice } from "../ui/Choice";
import { EmptyNotice } from "../ui/Notes";
import { PlainText } from "../ui/PlainText";
import { Entry } from "./TranscriptEntry";
import { Reasoning } from "./Reasoning";
import { useStickToEnd } from "./useStickToEnd";
import { useWindow } from "./useWindow";

interface Props {
  readonly projection: RunProjection;
  readonly version: number;
  readonly models: readonly AgentModel[];
  /** Whether more entries may come: then the end is shown, else the beginning. */
  readonly isLive: boolean;
}

const ALL_AGENTS = "";

export function Transcript({ projection, version, models, isLive }: Props) {
  const [agent, setAgent] = useState(ALL_AGENTS);
  const [isPlain, setPlain] = useState(false);
  const lanes = useMemo(() => lanesOf(projection.transcript), [projection, version]);
  const entries = agent ? projection.transcript.filter((entry) => laneOf(entry) === agent) : projection.transcript;
  const [startsAtEnd] = useState(isLive); // a run that ends while open keeps its scroll position
  const { box, isFollowing } = useStickToEnd(startsAtEnd);
  const { shown, earlier, later } = useWindow(entries, startsAtEnd, isFollowing);
  const names = useMemo(() => new Map(models.map((each) => [[...each.path, each.agent].join(" › "), each.model])), [models]);
  if (!projection.transcript.length && !projection.partialReplies.size) return <EmptyNotice title="No messages yet" />;
  return (
    <div className="transcript-frame">
      <div className="filters">
        <Choice label="Agent" value={agent} choose={setAgent} options={{ [ALL_AGENTS]: "all", ...lanes }} />
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
          {!later && [...projection.partialReplies].map(([place, reply]) => <TypingEntry key={place} place={place} reply={reply} agent={agent} />)}
        </div>
      </div>
    </div>
  );
}

function TypingEntry({ place, reply, agent }: { place: string; reply: PartialReply; agent: string }) {
  const [level = "", name = ""] = place.split("\u0000");
  if (agent && agent !== (level ? `${level} › ${name}` : name)) return null;
  return (
    <div className="entry entry-saying">
      <p className="entry-head">
        <bdi className="author">{name}</bdi> {reply.text ? "is typing…" : "is thinking…"}
      </p>
      {reply.reasoning && <Reasoning text={reply.reasoning} />}
      <PlainText text={reply.text} />
    </div>
  );
}

function laneOf({ path, author }: TranscriptEntry): string {
  return [...path, author].join(" › ");
}

/** The authors of entries, by the name that is shown. */
function lanesOf(entries: readonly TranscriptEntry[]): Readonly<Record<string, string>> {
  const lanes = [...new Set(entries.filter((entry) => entry.kind !== "note").map(laneOf))].filter(Boolean);
  return Object.fromEntries(lanes.map((lane) => [lane, lane]));
}
