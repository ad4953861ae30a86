import { useState } from "react";
import { post } from "../api/client";
import type { CrewList } from "../api/types";
import { useFetched } from "../state/fetched";
import { Act } from "../ui/Act";
import { Failed } from "../ui/Notes";
import { useSending } from "./useSending";

export function Subscribe({ done }: { done: () => void }) {
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
      <Act needs="run" type="submit">
        Subscribe
      </Act>
      {error && <Failed error={error} />}
    </form>
  );
}
