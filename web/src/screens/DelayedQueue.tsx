import { useState } from "react";
import { post, remove } from "../api/client";
import type { Delayed, DelayedPage } from "../api/types";
import { anything, useFetched } from "../state/fetched";
import { when } from "../state/words";
import { Empty, Failed } from "../ui/Notes";
import { parsedData, shownData } from "./parsedData";
import { useSending } from "./useSending";

const LOOK_MS = 2_000;

export function DelayedQueue() {
  const { value, error, again } = useFetched<DelayedPage>("/v1/engine/signals/delayed?limit=1000", anything, LOOK_MS);
  const [edited, setEdited] = useState("");
  const { error: refused, send } = useSending(again);
  return (
    <section aria-labelledby="delayed">
      <h2 id="delayed">For later</h2>
      {error && <Failed error={error} again={again} />}
      {value && !value.delayed.length && <Empty title="Nothing waits to be announced." />}
      {value && value.delayed.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>type</th>
              <th>due</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {value.delayed.map((each) =>
              each.id === edited ? (
                <Editing key={each.id} entry={each} close={() => setEdited("")} changed={again} />
              ) : (
                <tr key={each.id}>
                  <td>
                    <bdi>{each.type}</bdi> <bdi className="quiet">{shownData(each).slice(0, 100)}</bdi>
                  </td>
                  <td>{when(each.deliverAt)}</td>
                  <td className="actions">
                    <button type="button" className="small" onClick={() => setEdited(each.id)}>
                      Change
                    </button>
                    <button type="button" className="small danger" onClick={() => void send(() => cancelled(each.id))}>
                      Cancel
                    </button>
                  </td>
                </tr>
              ),
            )}
          </tbody>
        </table>
      )}
      {refused && <Failed error={refused} />}
    </section>
  );
}

function cancelled(id: string): Promise<void> {
  return remove(`/v1/engine/signals/delayed?${new URLSearchParams({ id })}`);
}

/** Takes the place of the old one: a repeat key does so at once, without one the new comes first and the old goes. */
function Editing({ entry, close, changed }: { entry: Delayed; close: () => void; changed: () => void }) {
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
    if (repeatKey === undefined || type !== entry.type) await cancelled(entry.id);
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
          <input aria-label="Type" required value={type} onChange={(event) => setType(event.target.value)} />
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
