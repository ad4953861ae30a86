import { Act } from "../ui/Act";
import { Reject } from "./Reject";

interface Props {
  readonly approve?: string;
  readonly send: (answer: string) => Promise<void>;
  readonly isOpen: boolean;
}

/** The pair. Approving is what the form sends. */
export function Decide({ approve = "Approve", send, isOpen }: Props) {
  return (
    <div className="actions">
      <Act needs="answer" type="submit" className="primary" disabled={!isOpen}>
        {approve}
      </Act>
      <Reject send={send} isDisabled={!isOpen} />
    </div>
  );
}
