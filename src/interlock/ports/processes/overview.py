"""The processes on a store, and the work that waits for one of them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.ports.records import NEWEST_FORMAT, RunFormat


class ProcessLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has the store open, and the number of trees of runs that it drives.

    A worker claims runs that wait; other processes drive only what they start. `knows` is the newest run format that
    it can drive. `clock_behind_ms` is how far the clock of its machine was behind the store's at its last sign of life,
    negative if it was ahead; None where the store has no clock of its own.
    """

    owner: str
    runs: int
    is_worker: bool
    host: str = ""
    pid: int = 0
    version: str = ""
    knows: RunFormat = NEWEST_FORMAT
    clock_behind_ms: int | None = None

    @property
    def place(self) -> str:
        """The process for people who look for it."""
        return f"process {self.pid} on '{self.host}' ({self.version})"


# The private runs without a driver that are listed.
PRIVATE_LISTED_MAX = 100


class LeaderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Work that one process does for all, and the process that does it now; empty if none does."""

    name: str
    owner: str
    epoch: int


class StoreOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The living processes of a store, and the runs that wait for a driver: unowned ones, and those of dead owners.

    Private ones do not wait for a worker: `private_undriven` are the first of them, by id; only a command that names
    such a run continues it.

    `oldest_waiting_at` is the time of the last record of the run that waits longest; 0 if none waits. `run_format` is
    that of runs that begin; None until the first one does.
    """

    version: int
    run_format: RunFormat | None = None
    processes: tuple[ProcessLoad, ...]
    leaders: tuple[LeaderEntry, ...]
    waiting: int
    oldest_waiting_at: int
    private_undriven: tuple[str, ...] = ()


class Processes(Protocol):
    """What processes on one store know of each other."""

    @property
    def knows(self) -> RunFormat:
        """The newest run format that this process can drive; it is stored when the store is opened."""
        ...

    async def run_format(self) -> RunFormat | None:
        """The format with which runs begin, in processes that know it: that of the first run, until it is raised.

        It may have been raised a moment ago. None if no run has begun.
        """
        ...

    async def raise_run_format(self, to: RunFormat) -> Sequence[ProcessLoad]:
        """Lets runs begin with this format, but never with an older one than before.

        Changes nothing while living processes know less: these are returned.
        """
        ...

    async def announce_worker(self) -> None:
        """Stores that this process claims runs that wait, until it ends."""
        ...

    async def overview(self) -> StoreOverview:
        """Children do not count: they are driven with their callers."""
        ...

    async def count_waiting(self, organization: str, limit: int) -> int:
        """The number of runs of an organization that wait for a driver and are not private; at most `limit`."""
        ...
