import { useState } from "react";
import { post, wordsOf } from "../api/client";
import type { CrewSummary, RunDetail } from "../api/types";
import { go } from "../state/router";
import { Act } from "../ui/Act";
import { sendByKeys } from "../ui/sendByKeys";

export function StartRun({ crews }: { crews: readonly CrewSummary[] }) {
  const sound = crews.filter((crew) => crew.sound);
  const [chosen, setChosen] = useState("");
  const [input, setInput] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const crew = chosen || sound[0]?.name || "";
  const start = async (): Promise<void> => {
    setBusy(true);
    try {
      const run = await post<RunDetail>("/v1/runs", { crew, input });
      go("runs", run.id);
    } catch (refused) {
      setError(wordsOf(refused));
      setBusy(false);
    }
  };
  if (crews.length && !sound.length)
    return <p className="quiet">No crew here is sound. The screen Crews tells what to mend.</p>;
  return (
    <form
      className="start"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <label>
        Crew{" "}
        <select value={crew} onChange={(event) => setChosen(event.target.value)}>
          {sound.map((each) => (
            <option key={each.name}>{each.name}</option>
          ))}
        </select>
      </label>
      <label className="grow">
        Input
        <textarea
          rows={1}
          value={input}
          placeholder="What the first agent is told"
          onChange={(event) => setInput(event.target.value)}
          onKeyDown={sendByKeys}
        />
      </label>
      <Act needs="run" type="submit" className="primary" disabled={isBusy || !crew}>
        Start a run
      </Act>
      {error && (
        <p className="failed" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
