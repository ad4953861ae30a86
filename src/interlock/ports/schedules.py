"""Schedules that start runs."""

from collections.abc import Sequence
from typing import Protocol

from interlock.broadcast.run_schedules import RunSchedule


class RunSchedules(Protocol):
    """Schedules that start runs."""

    async def add_schedule(self, schedule: RunSchedule) -> None:
        """`UsageError` if there are too many."""
        ...

    async def replace_schedule(self, old: RunSchedule, new: RunSchedule) -> bool:
        """Replaces a schedule if it still equals `old`. Returns whether it did."""
        ...

    async def remove_schedule(self, schedule_id: str) -> bool:
        """Removes a schedule. Returns whether there was one."""
        ...

    async def run_schedules(self) -> Sequence[RunSchedule]:
        """The next one first."""
        ...
