import { useMemo, useState } from "react";
import type { UsageReport, Used } from "../api/types";
import { useFetched } from "../state/fetched";
import { count, money, plural } from "../state/words";
import { Empty, Failed, Loading } from "../ui/Notes";
import { UsageChart } from "./UsageChart";

const DAY_MS = 86_400_000;
const PERIODS = [
  ["1", "the last day"],
  ["7", "the last week"],
  ["30", "the last month"],
  ["", "ever"],
] as const;

export function Usage() {
  const [days, setDays] = useState("7");
  const [what, setWhat] = useState<"cost" | "tokens">("cost");
  const since = useMemo(() => (days ? Date.now() - Number(days) * DAY_MS : 0), [days]);
  const { value, error, again } = useFetched<UsageReport>(`/v1/usage?since=${since}`);
  return (
    <>
      <div className="head">
        <h1>Usage</h1>
        <label>
          Of runs started in{" "}
          <select value={days} onChange={(event) => setDays(event.target.value)}>
            {PERIODS.map(([id, words]) => (
              <option key={id} value={id}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label>
          Show{" "}
          <select value={what} onChange={(event) => setWhat(event.target.value as "cost" | "tokens")}>
            <option>cost</option>
            <option>tokens</option>
          </select>
        </label>
        <button type="button" onClick={again}>
          Count again
        </button>
      </div>
      {error && <Failed error={error} again={again} />}
      {!value && !error && <Loading what="what runs have cost" />}
      {value && !value.runs && <Empty title="No run was started in that time.">Choose a longer time, or start one.</Empty>}
      {value && value.runs > 0 && (
        <>
          <p className="usage-sum">
            {plural(value.runs, "run")}, {plural(value.usage.calls, "call")}, {count(tokens(value.usage))} tokens,{" "}
            <b>{money(value.usage.cost_micros)}</b>
          </p>
          <UsageChart report={value} what={what} />
          <UsageTable report={value} />
        </>
      )}
    </>
  );
}

function tokens(used: Used): number {
  return used.input_tokens + used.output_tokens;
}

function UsageTable({ report }: { report: UsageReport }) {
  return (
    <table className="usage">
      <thead>
        <tr>
          <th>crew</th>
          <th>agent</th>
          <th className="number">calls</th>
          <th className="number">tokens in</th>
          <th className="number">tokens out</th>
          <th className="number">cost</th>
        </tr>
      </thead>
      <tbody>
        {report.crews.flatMap((crew) => [
          <Row key={crew.crew} crew={crew.crew} agent={plural(crew.runs, "run")} used={crew.usage} isWhole />,
          ...crew.agents.map((each) => <Row key={`${crew.crew} ${each.agent}`} crew="" agent={each.agent} used={each.usage} />),
        ])}
      </tbody>
    </table>
  );
}

function Row({ crew, agent, used, isWhole = false }: { crew: string; agent: string; used: Used; isWhole?: boolean }) {
  return (
    <tr className={isWhole ? "usage-crew" : ""}>
      <td>
        <bdi>{crew}</bdi>
      </td>
      <td>
        <bdi>{agent}</bdi>
      </td>
      <td className="number">{count(used.calls)}</td>
      <td className="number">{count(used.input_tokens)}</td>
      <td className="number">{count(used.output_tokens)}</td>
      <td className="number">{money(used.cost_micros)}</td>
    </tr>
  );
}
