import type { RunEvent } from "../api/events";
import type { Explanation } from "../api/types";
import { useFetched } from "../state/fetched";
import { Empty, Failed, Loading } from "../ui/Notes";
import { Said } from "../ui/Said";
import { useNewest } from "../ui/useNewest";
import { Candidates } from "./Candidates";
import { useConcerns } from "./useConcerns";

/** Why the run went as it did; `upTo` are the events of the moment that is replayed. */
export function Reasons({ run, upTo }: { run: string; upTo: readonly RunEvent[] | null }) {
  const { value, error, again } = useFetched<Explanation>(`/v1/runs/${encodeURIComponent(run)}/explain`, useConcerns(run));
  const seen = upTo && new Map(upTo.map((event) => [event.run, event.seq]));
  const reasons = value?.reasons.filter(({ event, seq }) => !seen || seq <= (seen.get(event.run) ?? 0)) ?? [];
  const { newest, earlier } = useNewest(reasons);
  if (error) return <Failed error={error} again={again} />;
  if (!value) return <Loading what="the decisions" />;
  if (!reasons.length) return <Empty title="Nothing was decided yet." />;
  return (
    <div className="reasons" tabIndex={0} role="group" aria-label="Decisions">
      {earlier}
      <ol>
        {newest.map((reason) => (
          <li key={`${reason.event.run}.${reason.seq}`}>
            <span className="number">{reason.seq}</span>
            <div>
              <Said text={reason.text} />
              <Candidates event={reason.event as RunEvent} />
            </div>
          </li>
        ))}
      </ol>
    </div>
  );
}
