import { useState } from "react";
import { post, remove } from "../api/client";
import type { CrewList, SubscriptionPage } from "../api/types";
import { useFetched } from "../state/fetched";
import { Empty, Failed } from "../ui/Notes";
import { useSending } from "./useSending";

export function Subscriptions() {
  const { value, error, again } = useFetched<SubscriptionPage>("/v1/engine/signals/subscriptions");
  const { error: refused, send } = useSending(again);
  return (
    <section aria-labelledby="subscriptions">
      <h2 id="subscriptions">Who hears what</h2>
      {error && <Failed error={error} again={again} />}
      {value && !value.subscriptions.length && <Empty title="Nobody listens.">Subscribe an agent here, or in its crew's file.</Empty>}
      {value && value.subscriptions.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>agent</th>
              <th>pattern</th>
              <th>how</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {value.subscriptions.map((each) => (
              <tr key={`${each.crew} ${each.agent} ${each.pattern}`}>
                <td>
                  <bdi>
                    {each.crew} › {each.agent}
                  </bdi>
                </td>
                <td>
                  <bdi>{each.pattern}</bdi>
                </td>
                <td>{each.silent ? "with its next turn" : "gets a turn"}</td>
                <td>
                  {each.origin === "file" ? (
                    <span className="quiet">in its file</span>
                  ) : (
                    <button
                      type="button"
                      className="small"
                      onClick={() => void send(() => remove(`/v1/engine/signals/subscriptions?${new URLSearchParams({ crew: each.crew, agent: each.agent, pattern: each.pattern })}`))}
                    >
                      Remove
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Subscribe done={again} />
      {refused && <Failed error={refused} />}
    </section>
  );
}

function Subscribe({ done }: { done: () => void }) {
  const crews = useFetched<CrewList>("/v1/crews").value?.crews ?? [];
  const [who, setWho] = useState("");
  const [pattern, setPattern] = useState("");
  const [isSilent, setSilent] = useState(true);
  const { error, send } = useSending(done);
  const agents = crews.flatMap((crew) => crew.agents.map((agent) => [crew.name, agent] as const));
  const [crew, agent] = agents[Number(who)] ?? ["", ""];
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        void send(() => post("/v1/engine/signals/subscriptions", { crew, agent, pattern, silent: isSilent }));
      }}
    >
      <select aria-label="Agent" value={who} onChange={(event) => setWho(event.target.value)}>
        {agents.map(([name, each], n) => (
          <option key={`${name} ${each}`} value={n}>
            {name} › {each}
          </option>
        ))}
      </select>
      <input aria-label="Pattern to hear" placeholder="build:*:done" required value={pattern} onChange={(event) => setPattern(event.target.value)} />
      <label>
        <input type="checkbox" checked={isSilent} onChange={(event) => setSilent(event.target.checked)} /> silent
      </label>
      <button type="submit">Subscribe</button>
      {error && <Failed error={error} />}
    </form>
  );
}
