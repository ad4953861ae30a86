import { useId, type KeyboardEvent } from "react";
import { ScopedButton } from "../ui/ScopedButton";
import { useDraft } from "../state/drafts";

interface Props {
  /** The key of the question, under which the reason is kept as a draft. */
  readonly of: string;
  readonly send: (answer: string) => Promise<void>;
  readonly isDisabled: boolean;
}

/** The button Reject with a reason, which the agent sees. */
export function RejectControls({ of, send, isDisabled }: Props) {
  const id = useId();
  const [reason, setReason] = useDraft(`${of} reason`, () => "");
  return (
    <>
      <ScopedButton needs="answer" className="danger" disabled={isDisabled} onClick={() => void send(rejection(reason))}>
        Reject
      </ScopedButton>
      <span className="reject-reason">
        <label htmlFor={id}>Reason to reject (optional)</label>
        <input
          id={id}
          type="text"
          dir="auto"
          autoComplete="off"
          value={reason}
          readOnly={isDisabled}
          onChange={(event) => setReason(event.target.value)}
          onKeyDown={withoutSending}
        />
      </span>
    </>
  );
}

/** Keeps Enter and Ctrl-Enter in the reason field from submitting the form, which would approve. */
function withoutSending(event: KeyboardEvent): void {
  if (event.key !== "Enter") return;
  event.preventDefault();
  event.stopPropagation();
}

function rejection(reason: string): string {
  return reason.trim() ? `no: ${reason.trim()}` : "no";
}
