import { useId } from "react";
import type { Question } from "../api/types";
import { Act } from "../ui/Act";
import { Decide } from "./Decide";
import { useDraft } from "./drafts";
import { FormFrame } from "./FormFrame";
import { useAnswering } from "./useAnswering";

interface Props {
  readonly question: Question;
  readonly isOpen: boolean;
  readonly done: () => void;
}

/** A signal that is held until a person agrees. */
export function HeldForm({ question, isOpen, done }: Props) {
  const { refusal, send } = useAnswering(question, done);
  return (
    <FormFrame submit={() => void send("yes")} isOpen={isOpen} refusal={refusal}>
      <Decide send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** A tool that may or may not have run when the server stopped. */
export function LostToolForm({ question, isOpen, done }: Props) {
  const id = useId();
  const { refusal, send } = useAnswering(question, done);
  const [output, setOutput] = useDraft(question.key, () => "");
  const isDisabled = !isOpen;
  return (
    <FormFrame submit={() => output.trim() && void send(output)} isOpen={isOpen} refusal={refusal}>
      <div className="actions">
        <Act needs="answer" disabled={isDisabled} onClick={() => void send("retry")}>
          Call the tool again
        </Act>
        <Act needs="answer" className="danger" disabled={isDisabled} onClick={() => void send("fail")}>
          Fail the turn
        </Act>
      </div>
      <div className="field">
        <label htmlFor={id}>Or what the tool returned</label>
        <textarea id={id} rows={3} dir="auto" value={output} readOnly={isDisabled} onChange={(event) => setOutput(event.target.value)} />
      </div>
      <div className="actions">
        <Act needs="answer" type="submit" disabled={isDisabled || !output.trim()}>
          Use this as the result
        </Act>
      </div>
    </FormFrame>
  );
}
