import { useState } from "react";
import { post } from "../api/client";
import type { Delayed } from "../api/types";
import { Failed } from "../ui/Notes";
import { cancelDelayed } from "./DelayedQueue";
import { parsedData, shownData } from "./parsedData";
import { useSending } from "./useSending";

/** Takes the place of the old one: a repeat key does so at once, without one the new comes first and the old goes. */
export function DelayedEdit({ entry, close, changed }: { entry: Delayed; close: () => void; changed: () => void }) {
  const [type, setType] = useState(entry.type);
  const [data, setData] = useState(shownData(entry));
  const [at, setAt] = useState(local(entry.deliverAt));
  const { error, send } = useSending(() => {
    changed();
    close();
  });
  const repeatKey = typeof entry["repeatKey"] === "string" ? entry["repeatKey"] : undefined;
  const save = async (): Promise<void> => {
    await post("/v1/engine/signals/delayed", {
      type,
      deliverAt: new Date(at).getTime(),
      ...parsedData(data),
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
            Leave as it is
          </button>
          {error && <Failed error={error} />}
        </form>
      </td>
    </tr>
  );
}

function local(at: number): string {
  const shifted = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
