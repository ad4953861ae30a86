import { ScopedButton } from "../ui/ScopedButton";
import { RejectControls } from "./RejectControls";

interface Props {
  /** The key of the question. */
  readonly of: string;
  readonly approve?: string;
  readonly send: (answer: string) => Promise<void>;
  readonly isOpen: boolean;
}

/** The buttons Approve and Reject. Submitting the form approves. */
export function ApproveOrReject({ of, approve = "Approve", send, isOpen }: Props) {
  return (
    <div className="actions">
      <ScopedButton needs="answer" type="submit" className="primary" disabled={!isOpen}>
        {approve}
      </ScopedButton>
      <RejectControls of={of} send={send} isDisabled={!isOpen} />
    </div>
  );
}
