import { useState } from "react";
import { post } from "../api/client";
import { ScopedButton } from "../ui/ScopedButton";
import { parseData } from "./broadcastData";
import { useAction } from "./useAction";

/** Emits a broadcast now or, with a number of seconds, later. */
export function EmitForm() {
  const [type, setType] = useState("");
  const [data, setData] = useState("");
  const [seconds, setSeconds] = useState("");
  const { error, send } = useAction(() => setType(""));
  const emit = (): Promise<boolean> =>
    send(() =>
      seconds
        ? post("/v1/engine/signals/delayed", { type, inMs: Math.round(Number(seconds) * 1_000), ...parseData(data) })
        : post("/v1/engine/signals", { type, ...parseData(data) }),
    );
  return (
    <form
      className="form start"
      onSubmit={(event) => {
        event.preventDefault();
        void emit();
      }}
    >
      <input aria-label="Type" placeholder="build:project-x:done" required value={type} onChange={(event) => setType(event.target.value)} />
      <input aria-label="Data" placeholder="data: JSON or text (optional)" value={data} onChange={(event) => setData(event.target.value)} />
      <input
        aria-label="In seconds"
        placeholder="delay in seconds (empty: now)"
        type="number"
        min="0"
        step="any"
        value={seconds}
        onChange={(event) => setSeconds(event.target.value)}
      />
      <ScopedButton needs="run" type="submit" className="primary">
        {seconds ? "Schedule" : "Emit"}
      </ScopedButton>
      {error && (
        <p className="failed" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
