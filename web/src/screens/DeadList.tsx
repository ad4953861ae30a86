import { post } from "../api/client";
import type { DeadBroadcasts } from "../api/types";
import { useFetched } from "../state/fetched";
import { when } from "../state/words";
import { Empty, Failed } from "../ui/Notes";
import { useSending } from "./useSending";

const LOOK_MS = 5_000;

export function DeadList() {
  const { value, error, again } = useFetched<DeadBroadcasts>("/v1/engine/signals/dead", undefined, LOOK_MS);
  const { error: refused, send } = useSending(again);
  return (
    <section aria-labelledby="dead">
      <h2 id="dead">Reached nobody</h2>
      {error && <Failed error={error} again={again} />}
      {value && !value.dead.length && <Empty title="Everything arrived." />}
      {value && value.dead.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>type</th>
              <th>why</th>
              <th>when</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {value.dead.map((each) => (
              <tr key={each.id}>
                <td>
                  <bdi>{each.broadcast.type}</bdi>
                </td>
                <td>
                  <bdi>{each.reason}</bdi>
                </td>
                <td>{when(each.at)}</td>
                <td>
                  <button
                    type="button"
                    className="small"
                    onClick={() => void send(() => post(`/v1/engine/signals/dead/${encodeURIComponent(each.id)}/revive`, {}))}
                  >
                    Deliver again
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {refused && <Failed error={refused} />}
    </section>
  );
}
