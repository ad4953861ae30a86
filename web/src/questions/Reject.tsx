import { useId, useState } from "react";
import { Act } from "../ui/Act";

/** The other half of the pair. A reason is told to the agent. */
export function Reject({ send, isDisabled }: { send: (answer: string) => Promise<void>; isDisabled: boolean }) {
  const id = useId();
  const [reason, setReason] = useState("");
  return (
    <>
      <Act needs="answer" className="danger" disabled={isDisabled} onClick={() => void send(rejection(reason))}>
        Reject
      </Act>
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
          onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.stopPropagation()}
        />
      </span>
    </>
  );
}

function rejection(reason: string): string {
  return reason.trim() ? `no: ${reason.trim()}` : "no";
}
