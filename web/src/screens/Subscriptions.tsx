import { remove } from "../api/client";
import type { SubscriptionPage } from "../api/types";
import { useResource } from "../state/useResource";
import { ScopedButton } from "../ui/ScopedButton";
import { EmptyNotice } from "../ui/Notes";
import { Listing } from "./Listing";
import { SubscribeForm } from "./SubscribeForm";
import { useAction } from "./useAction";

const PATH = "/v1/engine/signals/subscriptions";

export function Subscriptions() {
  const { value, error, refresh } = useResource<SubscriptionPage>(PATH);
  const { error: refused, send } = useAction(refresh);
  return (
    <Listing
      title="Subscriptions"
      head={["agent", "pattern", "delivery", ""]}
      items={value && value.subscriptions}
      empty={<EmptyNotice title="No subscriptions">Subscribe an agent here or in the crew file.</EmptyNotice>}
      {...{ error, refresh, refused }}
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
          <td>{silent ? "silent (next turn)" : "loud (starts a turn)"}</td>
          <td className="actions">
            {origin === "file" ? (
              <span className="quiet">in crew file</span>
            ) : (
              <ScopedButton
                needs="run"
                className="small"
                onClick={() => void send(() => remove(`${PATH}?${new URLSearchParams({ crew, agent, pattern })}`))}
              >
                Remove
              </ScopedButton>
            )}
          </td>
        </tr>
      )}
    >
      <SubscribeForm done={refresh} />
    </Listing>
  );
}
