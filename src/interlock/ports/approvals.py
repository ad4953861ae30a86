"""Standing approvals of people."""

from collections.abc import Sequence
from typing import Protocol

from interlock.approvals.standing import StandingApproval


class StandingApprovals(Protocol):
    """Approvals that hold for later calls. They are stored with the answer that gave them (`AtomicWrites`)."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        """Those of one tool, or of all, the newest first. Damaged ones are left out: they approve nothing."""
        ...

    async def revoke_approval(self, approval: str) -> bool:
        """Deletes it; False if there is none of this id. From then on no process finds it."""
        ...
