import { useMemo, useState } from "react";
import type { Graph, RunDetail } from "../api/types";
import { CrewGraph } from "../graph/LazyGraph";
import { useFetched } from "../state/fetched";
import { useFollowed } from "../state/followed";
import { storyOf } from "../state/story";
import { Failed, Loading } from "../ui/Notes";
import { Tabs } from "../ui/Tabs";
import { EventList } from "./EventList";
import { Reasons } from "./Reasons";
import { Replay } from "./Replay";
import { RunActions } from "./RunActions";
import { RunHead } from "./RunHead";
import { Timeline } from "./Timeline";
import { Transcript } from "./Transcript";
import { useConcerns } from "./useConcerns";

const TABS = [
  { id: "transcript", title: "Transcript" },
  { id: "timeline", title: "Timeline" },
  { id: "events", title: "Events" },
  { id: "reasons", title: "Decisions" },
];

export function RunPage({ run }: { run: string }) {
  const { value: detail, error, again } = useFetched<RunDetail>(`/v1/runs/${encodeURIComponent(run)}`, useConcerns(run));
  const followed = useFollowed(run);
  const graph = useFetched<Graph>(detail ? `/v1/crews/${encodeURIComponent(detail.crew)}/graph` : null);
  const [tab, setTab] = useState("transcript");
  const [cursor, setCursor] = useState<number | null>(null);
  const past = useMemo(() => (cursor === null ? null : storyOf(followed.events, cursor)), [cursor, followed.events]);
  const story = past ?? followed.story;
  const version = past ? -1 - (cursor ?? 0) : followed.version;
  const isLive = past !== null || detail?.status === "running" || detail?.status === "paused";
  if (error && !detail) return <Failed error={error} again={again} />;
  if (!detail) return <Loading what="the run" />;
  return (
    <article className="run">
      <RunHead detail={detail} story={story} isPast={past !== null} />
      <RunActions detail={detail} />
      <Replay events={followed.events} version={followed.version} cursor={cursor} choose={setCursor} run={run} />
      {followed.error && <Failed error={followed.error} />}
      <div className="run-columns">
        <section aria-label="Graph">
          {graph.value ? (
            <CrewGraph graph={graph.value} story={story} version={version} />
          ) : graph.error ? (
            <p className="quiet">There is no graph: {graph.error}</p>
          ) : (
            <Loading what="the graph" />
          )}
        </section>
        <section className="run-telling">
          <Tabs tabs={TABS} current={tab} choose={setTab} label="What the run tells">
            {tab === "transcript" && (
              <Transcript key={past ? "past" : "now"} story={story} version={version} models={detail.models} isLive={isLive} />
            )}
            {tab === "timeline" && <Timeline story={story} version={version} />}
            {tab === "events" && <EventList events={followed.events} upTo={cursor ?? followed.events.length} />}
            {tab === "reasons" && <Reasons run={run} upTo={cursor === null ? null : followed.events.slice(0, cursor)} />}
          </Tabs>
        </section>
      </div>
    </article>
  );
}
