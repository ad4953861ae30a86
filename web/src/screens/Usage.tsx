import { lazy, Suspense, useMemo, useState } from "react";
import type { UsageReport } from "../api/types";
import { useResource } from "../state/useResource";
import { cachedShare, costOf, count, plural, savedOf, tokensOf } from "../state/format";
import { Choice } from "../ui/Choice";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";
import type { Measure } from "./UsageChart";
import { UsageTable } from "./UsageTable";

const UsageChart = lazy(() => import("./UsageChart").then(({ UsageChart }) => ({ default: UsageChart })));
const DAY_MS = 86_400_000;
const PERIODS = { "1": "the last day", "7": "the last week", "30": "the last month", "": "all time" };

export function Usage() {
  const [days, setDays] = useState("7");
  const [what, setWhat] = useState<Measure>("cost");
  const [by, setBy] = useState<"crew" | "agent">("crew");
  const since = useMemo(() => (days ? Date.now() - Number(days) * DAY_MS : 0), [days]);
  const { value, error, refresh } = useResource<UsageReport>(`/v1/usage?${new URLSearchParams({ since: String(since), by })}`);
  return (
    <>
      <div className="head">
        <h1>Usage</h1>
        <Choice label="Period" value={days} choose={setDays} options={PERIODS} />
        <Choice label="Show" value={what} choose={setWhat} options={{ cost: "cost", tokens: "tokens" }} />
        <Choice label="By" value={by} choose={setBy} options={{ crew: "crew", agent: "agent" }} />
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </div>
      {error && <ErrorNotice error={error} retry={refresh} />}
      {!value && !error && <LoadingNotice what="usage" />}
      {value && !value.runs && <EmptyNotice title="No runs in this period">Choose a longer period, or start a run.</EmptyNotice>}
      {value && value.runs > 0 && (
        <>
          <p className="usage-sum">
            {plural(value.runs, "run")}, {plural(value.usage.calls, "call")}, {count(tokensOf(value.usage))} tokens,{" "}
            <b>{costOf(value.usage)}</b>
            {value.usage.cache_read_tokens + value.usage.cache_write_tokens > 0 && (
              <>
                ; {cachedShare(value.usage)} of the input cached, saved {savedOf(value.usage, value.savings)}
              </>
            )}
          </p>
          {what === "cost" && value.usage.unpriced_calls > 0 && (
            <p className="quiet">The chart leaves out {plural(value.usage.unpriced_calls, "call")} of unknown price.</p>
          )}
          <Suspense fallback={<LoadingNotice what="the chart" />}>
            <UsageChart report={value} what={what} by={by} />
          </Suspense>
          <UsageTable report={value} />
        </>
      )}
    </>
  );
}
