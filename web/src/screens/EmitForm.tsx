import { useState } from "react";
import { post } from "../api/client";
import { Act } from "../ui/Act";
import { parsedData } from "./parsedData";
import { useSending } from "./useSending";

/** Announces something now or, with a number of seconds, later. */
export function EmitForm() {
  const [type, setType] = useState("");
  const [data, setData] = useState("");
  const [seconds, setSeconds] = useState("");
  const { error, send } = useSending(() => setType(""));
  const emit = (): Promise<boolean> =>
    send(() =>
      seconds
        ? post("/v1/engine/signals/delayed", { type, inMs: Math.round(Number(seconds) * 1_000), ...parsedData(data) })
        : post("/v1/engine/signals", { type, ...parsedData(data) }),
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
      <input aria-label="Data" placeholder="data: JSON or words, or nothing" value={data} onChange={(event) => setData(event.target.value)} />
      <input
        aria-label="In seconds"
        placeholder="in seconds; empty is now"
        type="number"
        min="0"
        step="any"
        value={seconds}
        onChange={(event) => setSeconds(event.target.value)}
      />
      <Act needs="run" type="submit" className="primary">
        {seconds ? "Announce later" : "Announce"}
      </Act>
      {error && (
        <p className="failed" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
