import type { CrewList } from "../api/types";
import { useResource } from "../state/useResource";
import { hrefOf } from "../state/router";
import { plural } from "../state/format";
import { ErrorNotice, LoadingNotice } from "../ui/Notes";

export function Crews() {
  const { value, error, refresh } = useResource<CrewList>("/v1/crews");
  return (
    <>
      <div className="head">
        <h1>Crews</h1>
      </div>
      {error && <ErrorNotice error={error} retry={refresh} />}
      {!value && !error && <LoadingNotice what="crews" />}
      <ul className="cards">
        {value?.crews.map((crew) => (
          <li key={crew.name}>
            <a className="card" href={hrefOf("crews", crew.name)}>
              <h2>
                <bdi>{crew.name}</bdi>
              </h2>
              <span className={crew.sound ? "badge badge-completed" : "badge badge-failed"}>
                {crew.sound ? "✓ sound" : "✕ has errors"}
              </span>
              <p>
                <bdi>{crew.description || "No description"}</bdi>
              </p>
              <p className="quiet">
                {plural(crew.agents.length, "agent")}, {plural(crew.problems, "problem")}; starts with <bdi>{crew.entry_point}</bdi>
              </p>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
