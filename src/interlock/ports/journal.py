"""The journal: append records to runs and read them."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from interlock.broadcast.record import ReceivedBroadcast
from interlock.ports.atomic_writes import NO_WRITES, AtomicWrites
from interlock.ports.budgets import Grant
from interlock.ports.bus import NO_BROADCASTS, BroadcastOutcome
from interlock.ports.records import Record, RunRow, StoredRecord


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The position of a record, and the answers to its reservations and inbox claims, in their order."""

    position: int
    grants: tuple[Grant, ...] = ()
    mail: tuple[tuple[ReceivedBroadcast, ...], ...] = ()
    announced: BroadcastOutcome = NO_BROADCASTS


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment, read at once: its row and its first records.

    `asks_nothing` is True if neither it nor a run below it has an open question, and those of all runs are known.
    """

    row: RunRow
    records: Sequence[Record]
    asks_nothing: bool


class Journal(Protocol):
    """Appends and reads. One transaction per call: the run's row, its record and the atomic writes, or nothing."""

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        """Adds a run with its first record; `RunExists` if the id is in use.

        This process owns it under `row.epoch`. With `owned=False` no process does, and any may claim it.
        """
        ...

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        """Adds a record after `record.seq - 1` under `row.epoch`; `OutOfOrder` or `NotOwner` if that is not so.

        Appending a record that is already there is not refused: a caller that lost the answer asks again, and gets the
        position and the answers to its reservations.
        """
        ...

    async def row(self, run: str) -> RunRow:
        """`RunNotFound` if there is none."""
        ...

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        """The records with events after this seq; `DamagedRun` if a crc or the chain does not match.

        With a limit it returns at most that many and stops at `PAGE_BYTES_MAX`, but at least one.
        """
        ...

    async def row_with_records(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        """Row and records as of one moment."""
        ...

    async def run_snapshot(self, run: str, limit: int) -> RunSnapshot:
        """A run with its first records, at most so many; a page as of `records`."""
        ...

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        """The run's records from the one with the event after this seq, or its last, and those of runs below, in order.

        Only those after `position` in the order of the whole store. `DamagedRun` if a crc does not match.
        """
        ...

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        """The newest runs first, of one or some crews; `before` is the last run of the page before; `nested` selects
        children, or all others."""
        ...

    async def rows_below(self, run: str) -> Sequence[RunRow]:
        """The children of a run, and theirs, in the order in which they were started."""
        ...

    async def put_crew(self, sha: str, body: bytes) -> None:
        """Stores the canonical form of a crew under its sha256."""
        ...

    async def crew(self, sha: str) -> bytes: ...

    async def close(self) -> None: ...


class RecordFeed(Protocol):
    """The records of all runs in the order of the whole store.

    Positions become visible in order: once a reader has seen one, no record with a smaller one appears. They may have
    gaps.
    """

    async def newest_position(self) -> int:
        """The highest position there is; 0 in an empty store."""
        ...

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """The records after a position, in order.

        It stops at `PAGE_BYTES_MAX`, and is never empty while there are more.
        """
        ...

    async def of_run(self, run: str, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """The same for a run and the runs below it; `RunNotFound` if there is none."""
        ...
