import { useState } from "react";
import type { CrewDetail, Graph } from "../api/types";
import { CrewGraph } from "../graph/LazyGraph";
import { useFetched } from "../state/fetched";
import { Failed, Loading } from "../ui/Notes";
import { Tabs } from "../ui/Tabs";
import { CrewProblems } from "./CrewProblems";
import { CrewPrompts } from "./CrewPrompts";
import { CrewSignals } from "./CrewSignals";

export function CrewPage({ name }: { name: string }) {
  const path = `/v1/crews/${encodeURIComponent(name)}`;
  const { value: crew, error, again } = useFetched<CrewDetail>(path);
  const graph = useFetched<Graph>(`${path}/graph`);
  const [tab, setTab] = useState("");
  if (error) return <Failed error={error} again={again} />;
  if (!crew) return <Loading what="the crew" />;
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
      </header>
      <div className="run-columns">
        <section aria-label="Graph">
          {graph.value ? <CrewGraph graph={graph.value} /> : graph.error ? <Failed error={graph.error} /> : <Loading what="the graph" />}
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
