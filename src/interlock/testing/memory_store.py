"""A `Journal` and `Owners` in memory, for tests: refusals, order, crc and chain as on disk.

Rule 1: a record is encoded when it is appended, so that one that cannot be stored is refused then.
Rule 2: crc and link are computed on first use: most tests never need them.
"""

from collections.abc import Collection, Sequence

import msgspec

from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.budget_rules import spend
from interlock.adapters.store_rules.bus_rules import (
    activity_of_record,
    apply_bus_writes,
    merge_announcements,
    require_queued,
)
from interlock.errors import (
    CrewMissing,
    NotOwner,
    RunExists,
)
from interlock.ids import CHILD_MARK, is_below
from interlock.limits import PAGE_BYTES_MAX
from interlock.ports import (
    NO_WRITES,
    AppendResult,
    AtomicWrites,
    Grant,
    Record,
    Reservation,
    RunRow,
    RunSnapshot,
    Settlement,
    StoredRecord,
)
from interlock.testing.memory_archive import MemoryApprovals, MemoryArchive, MemoryQuestions
from interlock.testing.memory_owners import MemoryOutbox, MemoryOwners
from interlock.testing.memory_processes import MemoryProcesses
from interlock.testing.memory_storage import KeptSignal, StoredRun


class MemoryStore(MemoryOwners, MemoryProcesses, MemoryOutbox, MemoryArchive, MemoryQuestions, MemoryApprovals):
    """A store in memory. Records are stored as the bytes that a real store would write."""

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        self.require_open()
        body = record_format.encode_record(record)
        require_queued(self._shared_storage.tables, row.run, also)
        if row.run in self._shared_storage.runs or row.run in self._shared_storage.tombstones:
            raise RunExists(row.run)
        record_format.require_first(row.run, record)
        kept = StoredRun(row=row, owner=self.owner if owned else "")
        self._shared_storage.runs[row.run] = kept
        return self._apply_writes(also, self._add(kept, row, record, body), row, record)

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        if not self._is_open:
            self.require_open()
        body = record_format.encode_record(record)
        kept = self._shared_storage.runs.get(row.run) or self._require_run(row.run)
        if record.seq == kept.row.seq + 1 and row.epoch == kept.row.epoch:
            position = self._add(kept, row, record, body)
        else:
            position, also = self._position_of(kept, row, record, body), also.to_repeat()
        return self._apply_writes(also, position, row, record)

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        self.require_open()
        if self._require_run(row.run).row.epoch != row.epoch:
            raise NotOwner(row.run)
        return self._spend(orders)

    def has_lease(self) -> bool:
        return self.is_leased

    def open_reservations(self) -> list[str]:
        """Reservations that are not settled yet."""
        return self._shared_storage.ledger.keys()

    async def row(self, run: str) -> RunRow:
        self.require_open()
        return self._require_run(run).row

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        self.require_open()
        kept = self._require_run(run)
        records = record_format.unseal_chain(run, kept.records, record_format.chain_start(run), kept.tip)
        found = [record for record in records if record.last_seq > after][:limit]
        sizes = {record.seq: len(stored.body) for record, stored in zip(records, kept.records, strict=True)}
        return tuple(found if limit is None else _page(found, [sizes[record.seq] for record in found]))

    async def row_with_records(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        return await self.row(run), await self.records(run)

    async def run_snapshot(self, run: str, limit: int) -> RunSnapshot:
        asks_nothing = not await self.open_questions(1, run=run) and not self._shared_storage.unlisted
        return RunSnapshot(
            row=await self.row(run), records=await self.records(run, 0, limit), asks_nothing=asks_nothing
        )

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        assert limit > 0, "callers bound their pages"
        self.require_open()
        runs = list(self._shared_storage.runs)
        older = runs[: runs.index(self._require_run(before).row.run)] if before is not None else runs
        kinds = (True, False) if nested is None else (nested,)
        rows = (self._shared_storage.runs[run].row for run in reversed(older) if (CHILD_MARK in run) in kinds)
        crews = (crew,) if isinstance(crew, str) else crew
        return [row for row in rows if status in (None, row.status) and (crews is None or row.crew in crews)][:limit]

    async def rows_below(self, run: str) -> Sequence[RunRow]:
        self.require_open()
        return [kept.row for each, kept in self._shared_storage.runs.items() if is_below(each, run)]

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        self.require_open()
        first = max(stored.seq for stored in self._require_run(run).records if stored.seq <= after + 1)
        found: list[StoredRecord] = []
        is_since = False
        for at, (of, number) in enumerate(self._shared_storage.order, 1):
            if of != run and not is_below(of, run):
                continue
            stored = self._shared_storage.runs[of].records[number]
            is_since = is_since or (of == run and stored.seq >= first)
            if is_since and at > position:
                found.append(StoredRecord(position=at, run=of, record=record_format.unseal_record(of, stored)))
        return found

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        assert limit > 0, "callers bound their pages"
        self.require_open()
        found: list[StoredRecord] = []
        size = 0
        for at, (run, number) in enumerate(self._shared_storage.order[position:], position + 1):
            if len(found) == limit or size >= PAGE_BYTES_MAX:
                break
            stored = self._shared_storage.runs[run].records[number] if run else None
            if stored is not None and (record := record_format.unseal_or_none(run, stored)) is not None:
                found.append(StoredRecord(position=at, run=run, record=record))
                size += len(stored.body)
        return found

    async def put_crew(self, sha: str, body: bytes) -> None:
        self.require_open()
        record_format.require_sha(sha, body)
        self._shared_storage.crews[sha] = body

    async def crew(self, sha: str) -> bytes:
        self.require_open()
        if sha not in self._shared_storage.crews:
            raise CrewMissing(f"there is no crew with sha256 {sha} in this store; put it there first")
        return self._shared_storage.crews[sha]

    def _add(self, kept: StoredRun, row: RunRow, record: Record, body: bytes) -> int:
        kept.unsealed.append((record.seq, body))
        kept.row = msgspec.structs.replace(
            kept.row,
            status=row.status,
            reason=row.reason,
            agent=row.agent,
            seq=record.seq + len(record.events) - 1,
            updated_at=row.updated_at,
            usage=row.usage,
        )
        self._shared_storage.order.append((row.run, len(kept.sealed) + len(kept.unsealed) - 1))
        return len(self._shared_storage.order)

    def _position_of(self, kept: StoredRun, row: RunRow, record: Record, body: bytes) -> int:
        """The position of this record if it is already the newest: its append succeeded, but the answer was lost."""
        if row.epoch != kept.row.epoch or record.last_seq != kept.row.seq or kept.records[-1].body != body:
            record_format.require_next(kept.tip, row, record)
        return max(at for at, (run, _) in enumerate(self._shared_storage.order, 1) if run == row.run)

    def _apply_writes(self, also: AtomicWrites, position: int, row: RunRow, record: Record) -> AppendResult:
        if also is NO_WRITES:
            return AppendResult(position)
        for each in also.outgoing:
            sender = self._shared_storage.runs[row.run].owner
            self._shared_storage.outbox.setdefault(each.key, KeptSignal(signal=each, sender=sender))
        if also.asking is not None:
            self._keep_questions(also.asking)
        if also.approvals:
            self._store_approvals(also.approvals)
        for key, outcome in also.orders:
            self._settle(key, outcome)
        grants = self._spend(also.spending) if also.spending else ()
        tables = self._shared_storage.tables
        if also.broadcasts:
            tables.derive_presence()
        claimed, announced = apply_bus_writes(tables, also)
        if also.ended or also.begun:
            presence = tables.note_presence(activity_of_record(row, record, also))
            announced = merge_announcements(announced, presence) if announced.news else presence
        if announced.reached:
            self.bus.notify_change()
        return AppendResult(position, grants, claimed, announced)

    def _spend(self, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        grants = [spend(self._shared_storage.ledger, order) for order in orders]
        return tuple([grant for grant in grants if grant is not None])


def _page(found: Sequence[Record], sizes: Sequence[int]) -> Sequence[Record]:
    """As many records as a page of a real store."""
    size = 0
    for number, each in enumerate(sizes, 1):
        size += each
        if size >= PAGE_BYTES_MAX:
            return found[:number]
    return found
