import type { RunDetail } from "../api/types";
import { hrefOf } from "../state/router";
import type { RunProjection } from "../state/runProjection";
import { costOf, duration, tokenText, tokensOf, formatDateTime } from "../state/format";
import { StatusBadge } from "../ui/StatusBadge";

/** In a replay the facts come from the projection; otherwise from the server. */
export function RunHead({ detail, projection, isPast }: { detail: RunDetail; projection: RunProjection; isPast: boolean }) {
  const tokens = isPast
    ? tokenText(projection.tokens, projection.cachedTokens)
    : tokenText(tokensOf(detail.usage), detail.usage.cache_read_tokens);
  const cost = costOf(isPast ? { cost_micros: projection.costMicros, unpriced_calls: projection.unpricedCalls } : detail.usage);
  const end = isPast ? projection.now : detail.updated_at;
  return (
    <header className="run-head">
      <h1>
        <bdi>{detail.crew}</bdi> <StatusBadge status={isPast ? projection.status : detail.status} />
      </h1>
      <dl className="facts">
        <Fact name="Run" value={detail.id} />
        <Fact name="Reason" value={isPast ? projection.reason : detail.reason} />
        <Fact name="Detail" value={isPast ? projection.detail : detail.detail} />
        <Fact name="Tokens" value={tokens} />
        <Fact name="Cost" value={cost} />
        <Fact name="Time" value={duration(end - detail.created_at)} />
        <Fact name="Started" value={formatDateTime(detail.created_at)} />
        {detail.parent && <LinkFact name="Called by" run={detail.parent} />}
        {detail.continues && <LinkFact name="Continues" run={detail.continues} />}
      </dl>
    </header>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  if (!value) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <bdi>{value}</bdi>
      </dd>
    </div>
  );
}

function LinkFact({ name, run }: { name: string; run: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <a href={hrefOf("runs", run)}>{run}</a>
      </dd>
    </div>
  );
}
