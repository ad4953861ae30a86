"""The processes on a store, and the work that waits for one of them."""

from typing import Protocol

import msgspec


class ProcessLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has the store open, and the number of trees of runs that it drives.

    A worker claims runs that wait; other processes drive only what they start.
    """

    owner: str
    runs: int
    is_worker: bool


class LeaderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Work that one process does for all, and the process that does it now; empty if none does."""

    name: str
    owner: str
    epoch: int


class StoreOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The living processes of a store, and the runs that wait for a driver: unowned ones, and those of dead owners.

    `oldest_waiting_at` is the time of the last record of the run that waits longest; 0 if none waits.
    """

    version: int
    processes: tuple[ProcessLoad, ...]
    leaders: tuple[LeaderEntry, ...]
    waiting: int
    oldest_waiting_at: int


class Processes(Protocol):
    """What processes on one store know of each other."""

    async def announce_worker(self) -> None:
        """Stores that this process claims runs that wait, until it ends."""
        ...

    async def overview(self) -> StoreOverview:
        """Children do not count: they are driven with their callers."""
        ...

    async def count_waiting(self, organization: str, limit: int) -> int:
        """The number of runs of an organization that wait for a driver and are not private; at most `limit`."""
        ...
