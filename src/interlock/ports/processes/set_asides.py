"""Runs that a process could not drive, and when to try them again."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.ports.processes.owners import Owners


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits because the process `owner` could not drive it, with the reason. Times are in ms since 1970.

    `tries` counts its tries in a row. It does not claim the run with `claim_some` from `at` to `again_at`; other
    processes, which may have what the run needs, do.
    """

    run: str
    owner: str
    reason: str
    at: int
    tries: int
    again_at: int


class SetAsides(Protocol):
    """Runs that are set aside, by all processes. One row per run and owner."""

    async def set_aside(self, run: str, reason: str, at: int) -> SetAside:
        """Stores that this process could not drive a run; `RunNotFound` if there is none.

        `again_at` is 10 seconds after `at`, twice as long with each further try of this process, 10 minutes at most. A
        row whose `again_at` is more than 10 minutes before `at` does not count, and is deleted: the run was driven
        meanwhile, or its process is gone.
        """
        ...

    async def set_asides(self, limit: int) -> Sequence[SetAside]:
        """The runs that wait because they were set aside, the newest row of each, the newest first.

        A row of a run that is over, has a living owner, or has changed after `at` (`RunRow.updated_at`) is left out: it
        was driven again. A row goes with its run when that is deleted.
        """
        ...


class RunOwners(Owners, SetAsides, Protocol):
    """Which process may append to a run, and which runs a process could not drive."""
