import { post } from "../api/client";
import type { DeadBroadcasts } from "../api/types";
import { useFetched } from "../state/fetched";
import { when } from "../state/words";
import { Act } from "../ui/Act";
import { Empty } from "../ui/Notes";
import { Listing } from "./Listing";
import { useSending } from "./useSending";

const LOOK_MS = 5_000;

export function DeadList() {
  const { value, error, again } = useFetched<DeadBroadcasts>("/v1/engine/signals/dead", undefined, LOOK_MS);
  const { error: refused, send } = useSending(again);
  const revive = (id: string) => send(() => post(`/v1/engine/signals/dead/${encodeURIComponent(id)}/revive`, {}));
  return (
    <Listing
      title="Undelivered"
      head={["type", "for", "why", "when", ""]}
      items={value && value.dead}
      empty={<Empty title="None" />}
      {...{ error, again, refused }}
      row={(each) => (
        <tr key={each.id}>
          <td>
            <bdi>{each.broadcast.type}</bdi>
          </td>
          <td>
            {each.agent ? (
              <>
                <bdi>{each.agent}</bdi> of <bdi>{each.crew}</bdi>
              </>
            ) : (
              "everybody"
            )}
          </td>
          <td>
            <bdi>{each.reason}</bdi>
          </td>
          <td>{when(each.at)}</td>
          <td className="actions">
            <Act needs="admin" className="small" onClick={() => void revive(each.id)}>
              Deliver again
            </Act>
          </td>
        </tr>
      )}
    />
  );
}
