import { useId } from "react";
import type { Question } from "../api/types";
import { ScopedButton } from "../ui/ScopedButton";
import { ApproveOrReject } from "./ApproveOrReject";
import { useDraft } from "../state/drafts";
import { FormFrame } from "./FormFrame";
import { useAnswer } from "./useAnswer";

interface Props {
  readonly question: Question;
  readonly isOpen: boolean;
  readonly done: () => void;
}

/** A signal that is held, or a question of a hook: a person approves or rejects. */
export function HeldSignalForm({ question, isOpen, done }: Props) {
  const { refusal, send } = useAnswer(question, done);
  return (
    <FormFrame submit={() => void send("yes")} isOpen={isOpen} refusal={refusal}>
      <ApproveOrReject of={question.key} send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** A tool that may or may not have run when the server stopped. */
export function LostToolForm({ question, isOpen, done }: Props) {
  const id = useId();
  const { refusal, send } = useAnswer(question, done);
  const [output, setOutput] = useDraft(question.key, () => "");
  const isDisabled = !isOpen;
  return (
    <FormFrame submit={() => output.trim() && void send(output)} isOpen={isOpen} refusal={refusal}>
      <div className="actions">
        <ScopedButton needs="answer" disabled={isDisabled} onClick={() => void send("retry")}>
          Call the tool again
        </ScopedButton>
        <ScopedButton needs="answer" className="danger" disabled={isDisabled} onClick={() => void send("fail")}>
          Fail the turn
        </ScopedButton>
      </div>
      <div className="field">
        <label htmlFor={id}>Or enter what the tool returned</label>
        <textarea id={id} rows={3} dir="auto" value={output} readOnly={isDisabled} onChange={(event) => setOutput(event.target.value)} />
      </div>
      <div className="actions">
        <ScopedButton needs="answer" type="submit" disabled={isDisabled || !output.trim()}>
          Use this as the result
        </ScopedButton>
      </div>
    </FormFrame>
  );
}
