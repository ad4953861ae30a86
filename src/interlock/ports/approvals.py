"""Standing approvals of people."""

from collections.abc import Sequence
from typing import Protocol

from interlock.approvals.standing import RevokedApproval, StandingApproval


class StandingApprovals(Protocol):
    """Approvals that hold for later calls. They are stored with the answer that gave them (`AtomicWrites`)."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        """Those of one tool, or of all, the newest first. Damaged ones are left out: they approve nothing."""
        ...

    async def revoke_approval(self, approval: str, by: str, at: int) -> bool:
        """Ends it, and keeps who did; False if there is none of this id. From then on it approves nothing."""
        ...

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        """Those that were revoked, the last one first; the store keeps `REVOKED_APPROVALS_MAX` of them."""
        ...
