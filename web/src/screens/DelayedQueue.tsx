import { useState } from "react";
import { remove } from "../api/client";
import type { DelayedPage } from "../api/types";
import { anything, useFetched } from "../state/fetched";
import { when } from "../state/words";
import { Act } from "../ui/Act";
import { Empty } from "../ui/Notes";
import { DelayedEdit } from "./DelayedEdit";
import { Listing } from "./Listing";
import { shownData } from "./parsedData";
import { useSending } from "./useSending";

const LOOK_MS = 2_000;

export function DelayedQueue() {
  const { value, error, again } = useFetched<DelayedPage>("/v1/engine/signals/delayed?limit=1000", anything, LOOK_MS);
  const [edited, setEdited] = useState("");
  const { error: refused, send } = useSending(again);
  return (
    <Listing
      title="Scheduled"
      head={["type", "due", ""]}
      items={value && value.delayed}
      empty={<Empty title="Nothing waits to be announced." />}
      {...{ error, again, refused }}
      row={(each) =>
        each.id === edited ? (
          <DelayedEdit key={each.id} entry={each} close={() => setEdited("")} changed={again} />
        ) : (
          <tr key={each.id}>
            <td>
              <bdi>{each.type}</bdi> <bdi className="quiet">{shownData(each).slice(0, 100)}</bdi>
            </td>
            <td>{when(each.deliverAt)}</td>
            <td className="actions">
              <Act needs="run" className="small" onClick={() => setEdited(each.id)}>
                Change
              </Act>
              <Act needs="run" className="small danger" onClick={() => void send(() => cancelDelayed(each.id))}>
                Cancel
              </Act>
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
