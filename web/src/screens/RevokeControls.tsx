import type { Approval } from "../api/types";
import { ScopedButton } from "../ui/ScopedButton";

interface Props {
  readonly approval: Approval;
  /** Whether the user pressed Revoke, and has yet to confirm. */
  readonly isAsked: boolean;
  readonly ask: () => void;
  readonly keep: () => void;
  readonly revoke: () => void;
}

/** The button Revoke, which asks before it acts: runs in progress are asked again at once. */
export function RevokeControls({ approval, isAsked, ask, keep, revoke }: Props) {
  if (!isAsked)
    return (
      <ScopedButton needs="approve" className="small danger" onClick={ask} aria-label={`Revoke ${approval.pattern}`}>
        Revoke
      </ScopedButton>
    );
  return (
    <span role="group" aria-label="Confirm">
      <span>Revoke it?</span>{" "}
      <ScopedButton needs="approve" className="small danger" autoFocus onClick={revoke}>
        Yes, revoke
      </ScopedButton>
      <button type="button" className="small" onClick={keep}>
        Keep it
      </button>
    </span>
  );
}
