import { useState } from "react";
import { post } from "../api/client";
import type { DelayedSignal } from "../api/types";
import { ErrorNotice } from "../ui/Notes";
import { cancelDelayed } from "./DelayedQueue";
import { parseData, formatData } from "./broadcastData";
import { useAction } from "./useAction";

/** Replaces the entry: at once with a repeat key; without one, adds the new entry and then removes the old one. */
export function DelayedEdit({ entry, close, changed }: { entry: DelayedSignal; close: () => void; changed: () => void }) {
  const [type, setType] = useState(entry.type);
  const [data, setData] = useState(formatData(entry));
  const [at, setAt] = useState(toLocalInput(entry.deliverAt));
  const { error, send } = useAction(() => {
    changed();
    close();
  });
  const repeatKey = typeof entry["repeatKey"] === "string" ? entry["repeatKey"] : undefined;
  const save = async (): Promise<void> => {
    await post("/v1/engine/signals/delayed", {
      type,
      deliverAt: new Date(at).getTime(),
      ...parseData(data),
      ...(repeatKey === undefined ? {} : { repeatKey }),
    });
    if (repeatKey === undefined || type !== entry.type) await cancelDelayed(entry.id);
  };
  return (
    <tr>
      <td colSpan={3}>
        <form
          className="form"
          onSubmit={(event) => {
            event.preventDefault();
            void send(save);
          }}
        >
          <input aria-label="Type" autoFocus required value={type} onChange={(event) => setType(event.target.value)} />
          <input aria-label="Data" value={data} onChange={(event) => setData(event.target.value)} />
          <input aria-label="Due" type="datetime-local" step="1" required value={at} onChange={(event) => setAt(event.target.value)} />
          <button type="submit" className="primary">
            Save
          </button>
          <button type="button" onClick={close}>
            Discard changes
          </button>
          {error && <ErrorNotice error={error} />}
        </form>
      </td>
    </tr>
  );
}

function toLocalInput(at: number): string {
  const shifted = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
