import { memo } from "react";
import type { Run } from "../api/types";
import { hrefOf } from "../state/router";
import { costOf, count, duration, tokensOf, formatDateTime } from "../state/format";
import { StatusBadge } from "../ui/StatusBadge";

export function RunRowHead() {
  return (
    <div className="run-row run-row-head" aria-hidden="true">
      <span>status</span>
      <span>crew</span>
      <span>agent</span>
      <span>reason</span>
      <span>tokens</span>
      <span>cost</span>
      <span>time</span>
      <span>started</span>
    </div>
  );
}

export const RunRow = memo(function RunRow({ run }: { run: Run }) {
  return (
    <a className="run-row" href={hrefOf("runs", run.id)} data-run={run.id}>
      <StatusBadge status={run.status} />
      <bdi className="run-crew">{run.crew}</bdi>
      <bdi className="run-agent">{run.agent}</bdi>
      <bdi className="run-reason">{run.reason}</bdi>
      <span className="number">{count(tokensOf(run.usage))}</span>
      <span className="number">{costOf(run.usage)}</span>
      <span className="number">{duration(run.updated_at - run.created_at)}</span>
      <time dateTime={new Date(run.created_at).toISOString()}>{formatDateTime(run.created_at)}</time>
    </a>
  );
}, isSame);

/** The list is loaded often, and most rows do not change. */
function isSame(before: { run: Run }, after: { run: Run }): boolean {
  return before.run.id === after.run.id && before.run.seq === after.run.seq && before.run.status === after.run.status;
}
