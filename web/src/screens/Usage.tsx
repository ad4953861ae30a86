import { lazy, Suspense, useMemo, useState } from "react";
import type { UsageReport } from "../api/types";
import { useFetched } from "../state/fetched";
import { costOf, count, plural, tokensOf } from "../state/words";
import { Choice } from "../ui/Choice";
import { Empty, Failed, Loading } from "../ui/Notes";
import type { Measure } from "./UsageChart";
import { UsageTable } from "./UsageTable";

const UsageChart = lazy(() => import("./UsageChart").then(({ UsageChart }) => ({ default: UsageChart })));
const DAY_MS = 86_400_000;
const PERIODS = { "1": "the last day", "7": "the last week", "30": "the last month", "": "ever" };

export function Usage() {
  const [days, setDays] = useState("7");
  const [what, setWhat] = useState<Measure>("cost");
  const [by, setBy] = useState<"crew" | "agent">("crew");
  const since = useMemo(() => (days ? Date.now() - Number(days) * DAY_MS : 0), [days]);
  const { value, error, again } = useFetched<UsageReport>(`/v1/usage?${new URLSearchParams({ since: String(since), by })}`);
  return (
    <>
      <div className="head">
        <h1>Usage</h1>
        <Choice label="Period" value={days} choose={setDays} options={PERIODS} />
        <Choice label="Show" value={what} choose={setWhat} options={{ cost: "cost", tokens: "tokens" }} />
        <Choice label="By" value={by} choose={setBy} options={{ crew: "crew", agent: "agent" }} />
        <button type="button" onClick={again}>
          Refresh
        </button>
      </div>
      {error && <Failed error={error} again={again} />}
      {!value && !error && <Loading what="what runs have cost" />}
      {value && !value.runs && <Empty title="No run was started in that time.">Choose a longer time, or start one.</Empty>}
      {value && value.runs > 0 && (
        <>
          <p className="usage-sum">
            {plural(value.runs, "run")}, {plural(value.usage.calls, "call")}, {count(tokensOf(value.usage))} tokens,{" "}
            <b>{costOf(value.usage)}</b>
          </p>
          <Suspense fallback={<Loading what="the chart" />}>
            <UsageChart report={value} what={what} by={by} />
          </Suspense>
          <UsageTable report={value} />
        </>
      )}
    </>
  );
}
