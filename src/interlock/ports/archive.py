"""The archive: export, import and delete whole runs."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.ports.records import RunRow, SealedRecord


class SealedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A run and all below it as stored: rows, callers first, and records in the order of the store.

    Each record comes with the index of its run among the rows.
    """

    rows: tuple[RunRow, ...]
    records: tuple[tuple[int, SealedRecord], ...]

    def chains(self) -> list[list[SealedRecord]]:
        """The records of each row's run."""
        chains: list[list[SealedRecord]] = [[] for _ in self.rows]
        for of, record in self.records:
            chains[of].append(record)
        return chains


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a deleted run: where its chain ended, and none of its content."""

    run: str
    crew: str
    seq: int
    link: bytes
    deleted_at: int


class Archive(Protocol):
    """Export, import and delete of whole runs: one run, or a tree of a run and all below it. One transaction a call."""

    async def export_tree(self, run: str) -> SealedTree:
        """`DamagedRun` if a crc or a chain does not match, or a row is damaged."""
        ...

    async def export_records(self, run: str) -> Sequence[SealedRecord]:
        """The records of one run as they are stored; `DamagedRun` if a crc or the chain does not match."""
        ...

    async def add_tree(self, tree: SealedTree) -> None:
        """Adds all runs of a tree or none; each as `add_run` does."""
        ...

    async def add_run(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        """Adds one run without an owner. It replaces a tombstone only if the chain is the same.

        `RunExists` if the id is in use or was, `DamagedRun` if a crc or the chain does not match.
        """
        ...

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        """Deletes all runs of a tree or none, the run itself first; `OwnedElsewhere` while another process owns one."""
        ...

    async def delete_run(self, run: str, at: int) -> Tombstone:
        """Deletes one run and leaves a tombstone; `OwnedElsewhere` while another process owns it."""
        ...

    async def runs_finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        """Finished runs without a caller that changed last before a time, by id, after an id."""
        ...

    async def tombstones(self) -> Sequence[Tombstone]:
        """The oldest first."""
        ...

    async def expire_tombstones(self, before: int) -> int:
        """Deletes tombstones of runs that were deleted before a time. Returns how many."""
        ...
