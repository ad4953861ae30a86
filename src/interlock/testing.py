"""Stand-ins that ship as a product: for Interlock's own tests, and for the tests of whoever builds on it.

Rule 1: a stand-in passes the contract tests of its port, refusals and order included.
Rule 2: nothing here waits for real time, or touches a disk.
"""

import asyncio
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

import msgspec

from interlock.adapters import journal_format
from interlock.adapters.journal_format import Tip
from interlock.errors import OwnedElsewhere, RunDeleted, RunExists, RunNotFound, StoreFailed
from interlock.ports import Record, RunRow, SealedRecord, StoredRecord, Tombstone


class _Kept(msgspec.Struct, kw_only=True):
    """A run as the memory store keeps it."""

    row: RunRow
    owner: str
    link: bytes
    records: list[SealedRecord] = []

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.row.seq, epoch=self.row.epoch, link=self.link)


class _Shelf(msgspec.Struct, kw_only=True):
    """What several memory stores share, as several processes share a data folder."""

    runs: dict[str, _Kept] = {}
    tombstones: dict[str, Tombstone] = {}
    crews: dict[str, bytes] = {}
    order: list[tuple[str, SealedRecord]] = []
    alive: set[str] = set()
    owners: int = 0


class MemoryStore:
    """`Journal` and `Owners` in memory. Records are kept as the bytes that a real store would write."""

    def __init__(self, beside: "MemoryStore | None" = None) -> None:
        """`beside` another store: the same runs, seen by another process."""
        self._shelf: _Shelf = beside._shelf if beside is not None else _Shelf()
        self._shelf.owners += 1
        self.owner = f"memory-{self._shelf.owners}"
        self._shelf.alive.add(self.owner)

    async def create(self, row: RunRow, record: Record) -> int:
        self._require_open()
        body = journal_format.encoded(record)
        if row.run in self._shelf.runs or row.run in self._shelf.tombstones:
            raise RunExists(row.run)
        journal_format.require_first(row.run, record)
        kept = _Kept(row=row, owner=self.owner, link=journal_format.first_link(row.run))
        self._shelf.runs[row.run] = kept
        return self._add(kept, row, record, body)

    async def append(self, row: RunRow, record: Record) -> int:
        self._require_open()
        body = journal_format.encoded(record)
        kept = self._kept(row.run)
        journal_format.require_next(kept.tip, row, record)
        return self._add(kept, row, record, body)

    async def claim(self, run: str) -> int:
        self._require_open()
        kept = self._kept(run)
        if kept.owner != self.owner and kept.owner in self._shelf.alive:
            raise OwnedElsewhere(run, kept.owner)
        kept.owner = self.owner
        kept.row = msgspec.structs.replace(kept.row, epoch=kept.row.epoch + 1)
        return kept.row.epoch

    async def release(self, run: str) -> None:
        self._require_open()
        kept = self._shelf.runs.get(run)
        if kept is not None and kept.owner == self.owner:
            kept.owner = ""

    async def row(self, run: str) -> RunRow:
        self._require_open()
        return self._kept(run).row

    async def records(self, run: str, after: int = 0) -> Sequence[Record]:
        self._require_open()
        kept = self._kept(run)
        start = Tip(seq=0, epoch=0, link=journal_format.first_link(run))
        records = journal_format.opened_chain(run, kept.records, start, kept.tip)
        return tuple(record for record in records if record.last_seq > after)

    async def rows(
        self, *, status: str | None = None, crew: str | None = None, limit: int = 200, before: str | None = None
    ) -> Sequence[RunRow]:
        assert limit > 0, "callers bound their pages"
        self._require_open()
        runs = list(self._shelf.runs)
        older = runs[: runs.index(self._kept(before).row.run)] if before is not None else runs
        rows = (self._shelf.runs[run].row for run in reversed(older))
        return [row for row in rows if status in (None, row.status) and crew in (None, row.crew)][:limit]

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        assert limit > 0, "callers bound their pages"
        self._require_open()
        found: list[StoredRecord] = []
        for at, (run, stored) in enumerate(self._shelf.order[position:], position + 1):
            if run and len(found) < limit and (record := journal_format.opened_or_none(run, stored)) is not None:
                found.append(StoredRecord(position=at, run=run, record=record))
        return found

    async def sealed(self, run: str) -> Sequence[SealedRecord]:
        await self.records(run)
        return tuple(self._kept(run).records)

    async def add(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        self._require_open()
        tip = journal_format.tip_of(row.run, records)
        left = self._shelf.tombstones.get(row.run)
        if row.run in self._shelf.runs or (left is not None and (left.seq, left.link) != (tip.seq, tip.link)):
            raise RunExists(row.run)
        self._shelf.tombstones.pop(row.run, None)
        row = msgspec.structs.replace(row, seq=tip.seq, epoch=tip.epoch)
        self._shelf.runs[row.run] = _Kept(row=row, owner="", link=tip.link, records=list(records))
        self._shelf.order += [(row.run, record) for record in records]

    async def delete(self, run: str, at: int) -> Tombstone:
        self._require_open()
        kept = self._kept(run)
        if kept.owner != self.owner and kept.owner in self._shelf.alive:
            raise OwnedElsewhere(run, kept.owner)
        left = Tombstone(run=run, crew=kept.row.crew, seq=kept.row.seq, link=kept.link, deleted_at=at)
        self._shelf.tombstones[run] = left
        del self._shelf.runs[run]
        self._shelf.order = [("", stored) if of == run else (of, stored) for of, stored in self._shelf.order]
        return left

    async def tombstones(self) -> Sequence[Tombstone]:
        self._require_open()
        return tuple(self._shelf.tombstones.values())

    async def put_crew(self, sha: str, body: bytes) -> None:
        self._require_open()
        journal_format.require_sha(sha, body)
        self._shelf.crews[sha] = body

    async def crew(self, sha: str) -> bytes:
        self._require_open()
        if sha not in self._shelf.crews:
            raise StoreFailed(f"there is no crew with sha256 {sha} in this store; put it there first")
        return self._shelf.crews[sha]

    async def close(self) -> None:
        """Stores beside this one go on, and may claim its runs."""
        self._shelf.alive.discard(self.owner)

    def _add(self, kept: _Kept, row: RunRow, record: Record, body: bytes) -> int:
        stored = journal_format.sealed(record.seq, body, kept.link)
        kept.records.append(stored)
        kept.link = stored.link
        kept.row = msgspec.structs.replace(
            kept.row,
            status=row.status,
            reason=row.reason,
            agent=row.agent,
            seq=record.last_seq,
            updated_at=row.updated_at,
            usage=row.usage,
        )
        self._shelf.order.append((row.run, stored))
        return len(self._shelf.order)

    def _kept(self, run: str) -> _Kept:
        if run in self._shelf.tombstones:
            raise RunDeleted(run)
        if run not in self._shelf.runs:
            raise RunNotFound(run)
        return self._shelf.runs[run]

    def _require_open(self) -> None:
        if self.owner not in self._shelf.alive:
            raise StoreFailed("the store is closed; open another one beside it")


class ManualClock:
    """A `Clock` that moves when it is told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    async def sleep_until(self, monotonic_ms: int) -> None:
        if monotonic_ms <= self._monotonic_ms:
            await asyncio.sleep(0)  # a sleeper always lets the others go on
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (monotonic_ms, next(self._order), woken))
        await woken

    def next_wake_ms(self) -> int | None:
        """When the first sleeper is due, on the monotonic clock; None if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance(self, ms: int) -> None:
        """Moves both clocks, and wakes who is due: the earliest first, equals in the order of falling asleep."""
        assert ms >= 0, "monotonic time does not go back; `jump` moves the wall clock"
        self._now_ms += ms
        self._monotonic_ms += ms
        while (due := self.next_wake_ms()) is not None and due <= self._monotonic_ms:
            heappop(self._sleepers)[2].set_result(None)

    def jump(self, ms: int) -> None:
        """Moves the wall clock alone, either way, as somebody who sets it does."""
        self._now_ms += ms
