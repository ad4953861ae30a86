import { useState } from "react";
import { post } from "../api/client";
import type { CrewList } from "../api/types";
import { useResource } from "../state/useResource";
import { ScopedButton } from "../ui/ScopedButton";
import { ErrorNotice } from "../ui/Notes";
import { useAction } from "./useAction";

export function SubscribeForm({ done }: { done: () => void }) {
  const crews = useResource<CrewList>("/v1/crews").value?.crews ?? [];
  const [who, setWho] = useState("");
  const [pattern, setPattern] = useState("");
  const [isSilent, setSilent] = useState(true);
  const { error, send } = useAction(done);
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
      <input aria-label="Pattern to subscribe" placeholder="build:*:done" required value={pattern} onChange={(event) => setPattern(event.target.value)} />
      <label>
        <input type="checkbox" checked={isSilent} onChange={(event) => setSilent(event.target.checked)} /> silent
      </label>
      <ScopedButton needs="run" type="submit">
        Subscribe
      </ScopedButton>
      {error && <ErrorNotice error={error} />}
    </form>
  );
}
