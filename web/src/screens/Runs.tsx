import { useState } from "react";
import { get, errorMessage } from "../api/client";
import { STATUSES, type CrewList, type Run, type RunPage } from "../api/types";
import { anyEvent, useResource } from "../state/useResource";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";
import { VirtualList } from "../ui/VirtualList";
import { RunRow, RunRowHead } from "./RunRow";
import { StartRun } from "./StartRun";

const ROW = 58;

export function Runs() {
  const [status, setStatus] = useState("");
  const [crew, setCrew] = useState("");
  const query = new URLSearchParams({ limit: "200", ...(status && { status }), ...(crew && { crew }) });
  const { value, error, refresh } = useResource<RunPage>(`/v1/runs?${query}`, anyEvent);
  const crews = useResource<CrewList>("/v1/crews").value?.crews ?? [];
  return (
    <>
      <div className="head">
        <h1>Runs</h1>
        <StartRun crews={crews} />
      </div>
      <div className="filters">
        <label>
          Status{" "}
          <select value={status} onChange={(event) => setStatus(event.target.value)}>
            <option value="">all</option>
            {STATUSES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Crew{" "}
          <select value={crew} onChange={(event) => setCrew(event.target.value)}>
            <option value="">all</option>
            {crews.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </select>
        </label>
      </div>
      {error && <ErrorNotice error={error} retry={refresh} />}
      {!value && !error && <LoadingNotice what="runs" />}
      {value && <RunList key={query.toString()} page={value} query={query} isFiltered={Boolean(status || crew)} />}
    </>
  );
}

/** The newest page stays live; older pages are added on request. */
function RunList({ page, query, isFiltered }: { page: RunPage; query: URLSearchParams; isFiltered: boolean }) {
  const [older, setOlder] = useState<{ runs: readonly Run[]; next: string | null } | null>(null);
  const [error, setError] = useState("");
  const newest = new Set(page.runs.map((run) => run.id));
  const runs = [...page.runs, ...(older?.runs.filter((run) => !newest.has(run.id)) ?? [])];
  const next = older ? older.next : page.next;
  const more = async (): Promise<void> => {
    try {
      const found = await get<RunPage>(`/v1/runs?${query}&cursor=${encodeURIComponent(next ?? "")}`);
      setOlder({ runs: [...(older?.runs ?? page.runs), ...found.runs], next: found.next });
      setError("");
    } catch (refused) {
      setError(errorMessage(refused));
    }
  };
  if (!runs.length)
    return (
      <EmptyNotice title={isFiltered ? "No runs match these filters." : "No runs yet"}>
        {isFiltered ? "Choose another status or crew." : "Start one above, or run interlock run CREW INPUT with the same data folder."}
      </EmptyNotice>
    );
  return (
    <>
      <div className="run-list">
        <RunRowHead />
        <VirtualList
          count={runs.length}
          rowHeight={ROW}
          label="Runs, the newest first"
          row={(n) => {
            const run = runs[n];
            return run && <RunRow key={run.id} run={run} />;
          }}
        />
      </div>
      {error && <ErrorNotice error={error} />}
      {next && (
        <button type="button" onClick={() => void more()}>
          Older runs
        </button>
      )}
    </>
  );
}
