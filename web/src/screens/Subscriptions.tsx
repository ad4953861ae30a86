import { remove } from "../api/client";
import type { SubscriptionPage } from "../api/types";
import { useFetched } from "../state/fetched";
import { Act } from "../ui/Act";
import { Empty } from "../ui/Notes";
import { Listing } from "./Listing";
import { Subscribe } from "./Subscribe";
import { useSending } from "./useSending";

const PATH = "/v1/engine/signals/subscriptions";

export function Subscriptions() {
  const { value, error, again } = useFetched<SubscriptionPage>(PATH);
  const { error: refused, send } = useSending(again);
  return (
    <Listing
      title="Subscriptions"
      head={["agent", "pattern", "how", ""]}
      items={value && value.subscriptions}
      empty={<Empty title="Nobody listens.">Subscribe an agent here, or in its crew's file.</Empty>}
      {...{ error, again, refused }}
      row={({ crew, agent, pattern, silent, origin }) => (
        <tr key={`${crew} ${agent} ${pattern}`}>
          <td>
            <bdi>
              {crew} › {agent}
            </bdi>
          </td>
          <td>
            <bdi>{pattern}</bdi>
          </td>
          <td>{silent ? "with its next turn" : "gets a turn"}</td>
          <td className="actions">
            {origin === "file" ? (
              <span className="quiet">in its file</span>
            ) : (
              <Act
                needs="run"
                className="small"
                onClick={() => void send(() => remove(`${PATH}?${new URLSearchParams({ crew, agent, pattern })}`))}
              >
                Remove
              </Act>
            )}
          </td>
        </tr>
      )}
    >
      <Subscribe done={again} />
    </Listing>
  );
}
