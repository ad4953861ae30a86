import type { RunEvent } from "../api/events";
import type { Explanation } from "../api/types";
import { useResource } from "../state/useResource";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";
import { PlainText } from "../ui/PlainText";
import { useNewest } from "../ui/useNewest";
import { Candidates } from "./Candidates";
import { useRunEventFilter } from "./useRunEventFilter";

/** The decisions of the run; `upTo` holds the events up to the replayed moment. */
export function Reasons({ run, upTo }: { run: string; upTo: readonly RunEvent[] | null }) {
  const { value, error, refresh } = useResource<Explanation>(`/v1/runs/${encodeURIComponent(run)}/explain`, useRunEventFilter(run));
  const seen = upTo && new Map(upTo.map((event) => [event.run, event.seq]));
  const reasons = value?.reasons.filter(({ event, seq }) => !seen || seq <= (seen.get(event.run) ?? 0)) ?? [];
  const { newest, earlier } = useNewest(reasons);
  if (error) return <ErrorNotice error={error} retry={refresh} />;
  if (!value) return <LoadingNotice what="the decisions" />;
  if (!reasons.length) return <EmptyNotice title="No decisions yet" />;
  return (
    <div className="reasons" tabIndex={0} role="group" aria-label="Decisions">
      {earlier}
      <ol>
        {newest.map((reason) => (
          <li key={`${reason.event.run}.${reason.seq}`}>
            <span className="number">{reason.seq}</span>
            <div>
              <PlainText text={reason.text} />
              <Candidates event={reason.event as RunEvent} />
            </div>
          </li>
        ))}
      </ol>
    </div>
  );
}
