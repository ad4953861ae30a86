"""Owners: which process may append to a run.

Rule 1: a claim ends with its process. A store knows which processes are alive: a lock on a file, a session of a server.
Rule 2: safety rests on the epoch that each append compares. A wrong guess about who is alive costs a repeated call.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a process can drive, and how many runs it takes.

    `crews` and `organizations` are names, None means all. `rules` and `format` are the newest that it knows.
    `driven` are the runs that it drives, claims or starts now. `at` is the time by the store's clock. `weights` are the
    shares of organizations, whole numbers from 1 on; that of others is 1.
    """

    limit: int
    rules: int
    format: int
    at: int
    crews: Collection[str] | None = None
    organizations: Collection[str] | None = None
    driven: Collection[str] = ()
    weights: Mapping[str, int] = {}


class ClaimedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that belongs to this process from now on, under this epoch.

    `owner_died`: the last owner died, or lost its lease, and did not release the run. What it had begun is lost.
    """

    run: str
    epoch: int
    owner_died: bool = False


class Owners(Protocol):
    """The owner of a run is the process that may append to it."""

    async def claim(self, run: str) -> ClaimedRun:
        """Makes this process the run's owner, under a new epoch; `OwnedElsewhere` while another owner lives.

        It takes effect after all earlier writes of this process, also those whose caller was cancelled.
        """
        ...

    async def claim_some(self, request: ClaimRequest) -> Sequence[ClaimedRun]:
        """Claims up to `limit` runs that wait for a driver, in one transaction, each with a new epoch.

        A run waits for a driver if it is `running`, or `paused` with the reason `set_aside`, and has no owner, or a
        dead one, or is owned by this process and not in `driven`. Left out are children (they are driven with their
        callers), private runs, runs of other crews or organizations, runs that need newer rules or a newer format,
        damaged rows, and runs that this process has set aside and not to be tried before `at` (see `SetAsides`).

        Order: one run per organization in turn; within an organization one per crew in turn; within a crew the oldest.
        Organizations, and crews, take turns in the order of their oldest run that waits. Runs that are driven now count
        as turns: an organization with many of them waits until others have as many. An organization with a weight of 3
        is next until it has three times as many as one without; but one that has none is before those that have some.
        """
        ...

    async def release(self, run: str) -> None:
        """Gives up a run: any process may claim it.

        Does nothing if this process does not own it, or has lost its lease for good: then the run is that of a dead
        owner, also if it was not claimed yet.
        """
        ...

    async def is_owned(self, run: str) -> bool:
        """Whether the run has an owner that is alive, this process or another. Asks, and changes nothing."""
        ...

    def has_lease(self) -> bool:
        """Whether no other process can have claimed the runs of this one yet. Local: it does not ask the store.

        It becomes False before the store lets others claim. While the server of a store is away it is False, because it
        is not known; it is True again if the server is back and no other process has found this one dead. If one has,
        it stays False, and `on_lost` tells. An effect starts only while it is True.
        """
        ...

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls `callback` on the event loop, once, when the lease is lost for good; at once if it is lost already.

        It is not called when the store is closed, nor while it is away.
        """
        ...
