import { useState } from "react";
import type { CrewDetail, Graph } from "../api/types";
import { CrewGraph } from "../graph/LazyGraph";
import { useResource } from "../state/useResource";
import { minute, plural } from "../state/format";
import { ErrorNotice, LoadingNotice } from "../ui/Notes";
import { Tabs } from "../ui/Tabs";
import { CrewProblems } from "./CrewProblems";
import { CrewPrompts } from "./CrewPrompts";
import { CrewSignals } from "./CrewSignals";

export function CrewPage({ name }: { name: string }) {
  const path = `/v1/crews/${encodeURIComponent(name)}`;
  const { value: crew, error, refresh } = useResource<CrewDetail>(path);
  const graph = useResource<Graph>(`${path}/graph`);
  const [tab, setTab] = useState("");
  if (error) return <ErrorNotice error={error} retry={refresh} />;
  if (!crew) return <LoadingNotice what="the crew" />;
  const tabs = [
    { id: "problems", title: `Problems (${crew.problems})` },
    { id: "prompts", title: "Prompts" },
    { id: "signals", title: "Signals" },
  ];
  const current = tab || (crew.sound ? "prompts" : "problems");
  return (
    <article className="run">
      <header className="run-head">
        <h1>
          <bdi>{crew.name}</bdi>{" "}
          <span className={crew.sound ? "badge badge-completed" : "badge badge-failed"}>
            {crew.sound ? "✓ sound" : "✕ has errors"}
          </span>
        </h1>
        {crew.description && (
          <p>
            <bdi>{crew.description}</bdi>
          </p>
        )}
        <p className="quiet">
          {crew.revision && `Revision ${crew.revision}. `}
          {loadedText(crew)}
        </p>
        {crew.newer_problems > 0 && (
          <p role="note">The changed file has {plural(crew.newer_problems, "problem")} and is not served.</p>
        )}
      </header>
      <div className="run-columns">
        <section aria-label="Graph">
          {graph.value ? <CrewGraph graph={graph.value} /> : graph.error ? <ErrorNotice error={graph.error} /> : <LoadingNotice what="the graph" />}
        </section>
        <section className="run-telling">
          <Tabs tabs={tabs} current={current} choose={setTab} label="The crew">
            {current === "problems" && <CrewProblems name={name} />}
            {current === "prompts" && <CrewPrompts crew={crew} />}
            {current === "signals" && <CrewSignals crew={crew} />}
          </Tabs>
        </section>
      </div>
    </article>
  );
}

/** When the crew was loaded, and how changes are picked up. */
function loadedText({ loaded_at, reloaded, watched }: CrewDetail): string {
  const loaded = reloaded ? `Loaded at ${minute(loaded_at)}` : `Loaded at server start (${minute(loaded_at)})`;
  return `${loaded}; ${watched ? "changes are picked up automatically" : "restart to pick up changes, or send SIGHUP"}`;
}
