import { useMemo, useState } from "react";
import type { Graph, RunDetail } from "../api/types";
import { CrewGraph } from "../graph/LazyGraph";
import { useResource } from "../state/useResource";
import { useRunEvents } from "../state/useRunEvents";
import { projectRun } from "../state/runProjection";
import { ErrorNotice, LoadingNotice } from "../ui/Notes";
import { Tabs } from "../ui/Tabs";
import { EventList } from "./EventList";
import { Reasons } from "./Reasons";
import { Replay } from "./Replay";
import { RunActions } from "./RunActions";
import { RunHead } from "./RunHead";
import { Timeline } from "./Timeline";
import { Transcript } from "./Transcript";
import { useRunEventFilter } from "./useRunEventFilter";

const TABS = [
  { id: "transcript", title: "Transcript" },
  { id: "timeline", title: "Timeline" },
  { id: "events", title: "Events" },
  { id: "reasons", title: "Decisions" },
];

export function RunPage({ run }: { run: string }) {
  const { value: detail, error, refresh } = useResource<RunDetail>(`/v1/runs/${encodeURIComponent(run)}`, useRunEventFilter(run));
  const live = useRunEvents(run);
  const graph = useResource<Graph>(detail ? `/v1/crews/${encodeURIComponent(detail.crew)}/graph` : null);
  const [tab, setTab] = useState("transcript");
  const [cursor, setCursor] = useState<number | null>(null);
  const past = useMemo(() => (cursor === null ? null : projectRun(live.events, cursor)), [cursor, live.events]);
  const projection = past ?? live.projection;
  const version = past ? -1 - (cursor ?? 0) : live.version;
  const isLive = past !== null || detail?.status === "running" || detail?.status === "paused";
  if (error && !detail) return <ErrorNotice error={error} retry={refresh} />;
  if (!detail) return <LoadingNotice what="the run" />;
  return (
    <article className="run">
      <RunHead detail={detail} projection={projection} isPast={past !== null} />
      <RunActions detail={detail} />
      <Replay events={live.events} version={live.version} cursor={cursor} choose={setCursor} run={run} />
      {live.error && <ErrorNotice error={live.error} />}
      <div className="run-columns">
        <section aria-label="Graph">
          {graph.value ? (
            <CrewGraph graph={graph.value} projection={projection} version={version} />
          ) : graph.error ? (
            <p className="quiet">No graph: {graph.error}</p>
          ) : (
            <LoadingNotice what="the graph" />
          )}
        </section>
        <section className="run-telling">
          <Tabs tabs={TABS} current={tab} choose={setTab} label="Run">
            {tab === "transcript" && (
              <Transcript key={past ? "past" : "now"} projection={projection} version={version} models={detail.models} isLive={isLive} />
            )}
            {tab === "timeline" && <Timeline projection={projection} version={version} />}
            {tab === "events" && <EventList events={live.events} upTo={cursor ?? live.events.length} />}
            {tab === "reasons" && <Reasons run={run} upTo={cursor === null ? null : live.events.slice(0, cursor)} />}
          </Tabs>
        </section>
      </div>
    </article>
  );
}
