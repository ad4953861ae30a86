import type { RunDetail } from "../api/types";
import { placeOf } from "../state/router";
import type { Story } from "../state/story";
import { costOf, count, duration, tokensOf, when } from "../state/words";
import { StatusBadge } from "../ui/StatusBadge";

/** In the past the story tells how the run stood; now the server knows it best. */
export function RunHead({ detail, story, isPast }: { detail: RunDetail; story: Story; isPast: boolean }) {
  const tokens = isPast ? story.tokens : tokensOf(detail.usage);
  const cost = costOf(isPast ? { cost_micros: story.costMicros, unpriced_calls: story.unpricedCalls } : detail.usage);
  const end = isPast ? story.now : detail.updated_at;
  return (
    <header className="run-head">
      <h1>
        <bdi>{detail.crew}</bdi> <StatusBadge status={isPast ? story.status : detail.status} />
      </h1>
      <dl className="facts">
        <Fact name="Run" value={detail.id} />
        <Fact name="Reason" value={isPast ? story.reason : detail.reason} />
        <Fact name="Detail" value={isPast ? story.detail : detail.detail} />
        <Fact name="Tokens" value={count(tokens)} />
        <Fact name="Cost" value={cost} />
        <Fact name="Time" value={duration(end - detail.created_at)} />
        <Fact name="Started" value={when(detail.created_at)} />
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
        <a href={placeOf("runs", run)}>{run}</a>
      </dd>
    </div>
  );
}
