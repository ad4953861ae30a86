import { useEffect, useState } from "react";
import { post, errorMessage } from "../api/client";
import type { CrewSummary, RunDetail } from "../api/types";
import { useDraft } from "../state/drafts";
import { navigate } from "../state/router";
import { ScopedButton } from "../ui/ScopedButton";
import { submitOnCtrlEnter } from "../ui/submitOnCtrlEnter";

export function StartRun({ crews }: { crews: readonly CrewSummary[] }) {
  const sound = crews.filter((crew) => crew.sound);
  const [chosen, setChosen] = useState("");
  const [input, setInput] = useDraft("start a run", () => ""); // kept while the user is on another screen
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [isAsked, setAsked] = useState(false); // the user may be quicker than the list of crews
  const crew = chosen || sound[0]?.name || "";
  const start = async (): Promise<void> => {
    setBusy(true);
    try {
      const run = await post<RunDetail>("/v1/runs", { crew, input });
      setInput("");
      navigate("runs", run.id);
    } catch (refused) {
      setError(errorMessage(refused));
      setBusy(false);
    }
  };
  useEffect(() => {
    if (!isAsked || !crew) return;
    setAsked(false);
    void start();
  }, [isAsked, crew]);
  if (crews.length && !sound.length)
    return <p className="quiet">All crews have errors. The screen Crews lists them.</p>;
  return (
    <form
      className="start"
      onSubmit={(event) => {
        event.preventDefault();
        setAsked(true);
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
          placeholder="Input for the first agent"
          onChange={(event) => setInput(event.target.value)}
          onKeyDown={submitOnCtrlEnter}
        />
      </label>
      <ScopedButton needs="run" type="submit" className="primary" disabled={isBusy || isAsked}>
        Start run
      </ScopedButton>
      {error && (
        <p className="failed" role="alert">
          {error}
        </p>
      )}
    </form>
  );
}
