import { post } from "../api/client";
import type { DeadBroadcasts } from "../api/types";
import { useResource } from "../state/useResource";
import { formatDateTime } from "../state/format";
import { ScopedButton } from "../ui/ScopedButton";
import { EmptyNotice } from "../ui/Notes";
import { Listing } from "./Listing";
import { useAction } from "./useAction";

const POLL_MS = 5_000;

export function DeadBroadcastList() {
  const { value, error, refresh } = useResource<DeadBroadcasts>("/v1/engine/signals/dead", undefined, POLL_MS);
  const { error: refused, send } = useAction(refresh);
  const revive = (id: string) => send(() => post(`/v1/engine/signals/dead/${encodeURIComponent(id)}/revive`, {}));
  return (
    <Listing
      title="Undelivered"
      head={["type", "for", "reason", "when", ""]}
      items={value && value.dead}
      empty={<EmptyNotice title="None" />}
      {...{ error, refresh, refused }}
      row={(each) => (
        <tr key={each.id}>
          <td>
            <bdi>{each.broadcast.type}</bdi>
          </td>
          <td>
            {each.agent ? (
              <>
                <bdi>{each.agent}</bdi> (<bdi>{each.crew}</bdi>)
              </>
            ) : (
              "all subscribers"
            )}
          </td>
          <td>
            <bdi>{each.reason}</bdi>
          </td>
          <td>{formatDateTime(each.at)}</td>
          <td className="actions">
            <ScopedButton needs="admin" className="small" onClick={() => void revive(each.id)}>
              Deliver again
            </ScopedButton>
          </td>
        </tr>
      )}
    />
  );
}
