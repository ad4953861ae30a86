import { useState } from "react";
import { remove } from "../api/client";
import type { DelayedPage } from "../api/types";
import { anyEvent, useResource } from "../state/useResource";
import { formatDateTime } from "../state/format";
import { ScopedButton } from "../ui/ScopedButton";
import { EmptyNotice } from "../ui/Notes";
import { DelayedEdit } from "./DelayedEdit";
import { Listing } from "./Listing";
import { formatData } from "./broadcastData";
import { useAction } from "./useAction";

const POLL_MS = 2_000;

export function DelayedQueue() {
  const { value, error, refresh } = useResource<DelayedPage>("/v1/engine/signals/delayed?limit=1000", anyEvent, POLL_MS);
  const [edited, setEdited] = useState("");
  const { error: refused, send } = useAction(refresh);
  return (
    <Listing
      title="Scheduled"
      head={["type", "due", ""]}
      items={value && value.delayed}
      empty={<EmptyNotice title="No scheduled broadcasts" />}
      {...{ error, refresh, refused }}
      row={(each) =>
        each.id === edited ? (
          <DelayedEdit key={each.id} entry={each} close={() => setEdited("")} changed={refresh} />
        ) : (
          <tr key={each.id}>
            <td>
              <bdi>{each.type}</bdi> <bdi className="quiet">{formatData(each).slice(0, 100)}</bdi>
            </td>
            <td>{formatDateTime(each.deliverAt)}</td>
            <td className="actions">
              <ScopedButton needs="run" className="small" onClick={() => setEdited(each.id)}>
                Edit
              </ScopedButton>
              <ScopedButton needs="run" className="small danger" onClick={() => void send(() => cancelDelayed(each.id))}>
                Cancel
              </ScopedButton>
            </td>
          </tr>
        )
      }
    />
  );
}

export function cancelDelayed(id: string): Promise<void> {
  return remove(`/v1/engine/signals/delayed?${new URLSearchParams({ id })}`);
}
