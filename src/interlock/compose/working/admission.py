"""Refuses new runs while too many of their organization wait for a worker."""

from interlock.errors import TooManyQueued
from interlock.ports import Processes


class Admission:
    """`queued_max` runs of one organization may wait; None is no limit."""

    def __init__(self, processes: Processes, queued_max: int | None) -> None:
        self._processes, self._queued_max = processes, queued_max

    async def require_room(self, organization: str) -> None:
        """`TooManyQueued` if the queue of the organization is full."""
        most = self._queued_max
        if most is not None and await self._processes.count_waiting(organization, most) >= most:
            raise TooManyQueued(organization, most)
