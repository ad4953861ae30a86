"""A `Journal` and `Owners` in memory, for tests: refusals, order, crc and chain as on disk.

Rule 1: a record becomes bytes when it is appended, so that what cannot be stored is refused then.
Rule 2: crc and link are made when somebody looks at them: most tests never do.
"""

import itertools
from collections.abc import Collection, Sequence

import msgspec

from interlock.adapters import journal_format
from interlock.adapters.bus_rules import carry_out_on_bus, require_queued
from interlock.adapters.journal_format import Tip
from interlock.adapters.orders_sqlite import too_many
from interlock.adapters.spending import Counter, Held, spend
from interlock.errors import (
    CrewMissing,
    NotOwner,
    OrderLost,
    OwnedElsewhere,
    RunDeleted,
    RunExists,
    RunNotFound,
    StoreFailed,
)
from interlock.ids import CHILD_MARK, is_below, parent_of, root_of
from interlock.limits import ORDER_KEPT_MS, ORDERS_PER_RUN_MAX, PAGE_BYTES_MAX
from interlock.ports import (
    NOTHING_ELSE,
    Alongside,
    Appended,
    Asking,
    Grant,
    OpenQuestion,
    Order,
    OrderOutcome,
    Outgoing,
    Posted,
    Record,
    Reservation,
    RunRow,
    SealedRecord,
    SealedTree,
    Settlement,
    StoredRecord,
    Tombstone,
)
from interlock.testing.memory_bus import MemoryBus, MemoryTables


class _Kept(msgspec.Struct, kw_only=True):
    """A run as the memory store keeps it."""

    row: RunRow
    owner: str
    sealed: list[SealedRecord] = []
    unsealed: list[tuple[int, bytes]] = []

    @property
    def records(self) -> list[SealedRecord]:
        for seq, body in self.unsealed:
            previous = self.sealed[-1].link if self.sealed else journal_format.first_link(self.row.run)
            self.sealed.append(journal_format.sealed(seq, body, previous))
        self.unsealed.clear()
        return self.sealed

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.row.seq, epoch=self.row.epoch, link=self.records[-1].link)


class _Ledger:
    """Counters and reservations of budgets."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._held: dict[str, Held] = {}

    def counter(self, crew: str, scope: str, window: str) -> Counter:
        return self._counters.setdefault((crew, scope, window), Counter())

    def put_counter(self, crew: str, scope: str, window: str, counter: Counter) -> None:
        self._counters[crew, scope, window] = counter

    def held(self, key: str) -> Held | None:
        return self._held.get(key)

    def hold(self, held: Held) -> None:
        self._held[held.key] = held

    def drop(self, key: str) -> None:
        del self._held[key]

    def drop_older(self, at: int) -> None:
        self._held = {key: held for key, held in self._held.items() if held.at >= at}

    def keys(self) -> list[str]:
        return list(self._held)


class _Shelf(msgspec.Struct, kw_only=True):
    """What several memory stores share, as several processes share a data folder."""

    runs: dict[str, _Kept] = {}
    tombstones: dict[str, Tombstone] = {}
    crews: dict[str, bytes] = {}
    order: list[tuple[str, int]] = []  # of which run, and which of its records
    outbox: dict[str, Outgoing] = {}
    questions: dict[str, Asking] = {}
    orders: dict[str, Order] = {}
    outcomes: dict[str, OrderOutcome] = {}  # by the key of the order
    unlisted: set[str] = set()
    ledger: _Ledger = msgspec.field(default_factory=_Ledger)
    tables: MemoryTables = msgspec.field(default_factory=MemoryTables)
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
        self._is_open = True
        self.bus = MemoryBus(self._shelf.tables, self.require_open)

    async def create(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        self.require_open()
        body = journal_format.encoded(record)
        require_queued(self._shelf.tables, row.run, also)
        if row.run in self._shelf.runs or row.run in self._shelf.tombstones:
            raise RunExists(row.run)
        journal_format.require_first(row.run, record)
        kept = _Kept(row=row, owner=self.owner)
        self._shelf.runs[row.run] = kept
        return self._carry_out(also, self._add(kept, row, record, body))

    async def append(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        self.require_open()
        body = journal_format.encoded(record)
        kept = self._kept(row.run)
        if record.seq == kept.row.seq + 1 and row.epoch == kept.row.epoch:
            position = self._add(kept, row, record, body)
        else:
            position = self._position_of(kept, row, record, body)
        return self._carry_out(also, position)

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        self.require_open()
        if self._kept(row.run).row.epoch != row.epoch:
            raise NotOwner(row.run)
        return self._carry_out(Alongside(spending=tuple(orders)), 0).grants

    async def pending(self, run: str | None = None) -> Sequence[Outgoing]:
        self.require_open()
        return [each for each in self._shelf.outbox.values() if run in (None, each.run)]

    def held_keys(self) -> list[str]:
        """Reservations that nobody has settled yet."""
        return self._shelf.ledger.keys()

    async def delivered(self, key: str) -> None:
        self.require_open()
        self._shelf.outbox.pop(key, None)

    async def post(self, order: Order) -> Posted:
        self.require_open()
        self._kept(order.run)
        for key in [each.key for each in self._shelf.orders.values() if each.at < order.at - ORDER_KEPT_MS]:
            self._forget(key)
        if order.key in self._shelf.orders:
            return Posted(outcome=self._shelf.outcomes.get(order.key))
        if sum(each.run == order.run for each in self._open_orders()) >= ORDERS_PER_RUN_MAX:
            raise too_many(order.run)
        self._shelf.orders[order.key] = order
        self.bus.changed()
        return Posted()

    async def orders_for(self, owner: str) -> Sequence[Order]:
        self.require_open()
        owned = {run for run, kept in self._shelf.runs.items() if kept.owner == owner}
        return [each for each in self._open_orders() if owned & {each.run, root_of(each.run)}]

    async def outcome(self, key: str) -> OrderOutcome | None:
        self.require_open()
        if key not in self._shelf.orders:
            raise OrderLost(key)
        return self._shelf.outcomes.get(key)

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        self.require_open()
        self._settle(key, outcome)

    async def forget(self, key: str) -> None:
        self.require_open()
        self._forget(key)

    def _open_orders(self) -> list[Order]:
        return [each for key, each in self._shelf.orders.items() if key not in self._shelf.outcomes]

    def _settle(self, key: str, outcome: OrderOutcome) -> None:
        if key in self._shelf.orders:
            self._shelf.outcomes.setdefault(key, outcome)
            self.bus.changed()

    def _forget(self, key: str) -> None:
        self._shelf.orders.pop(key, None)
        self._shelf.outcomes.pop(key, None)

    async def claim(self, run: str) -> int:
        self.require_open()
        kept = self._require_free(run)
        kept.owner = self.owner
        kept.row = msgspec.structs.replace(kept.row, epoch=kept.row.epoch + 1)
        return kept.row.epoch

    async def release(self, run: str) -> None:
        self.require_open()
        kept = self._shelf.runs.get(run)
        if kept is not None and kept.owner == self.owner:
            kept.owner = ""

    async def is_owned(self, run: str) -> bool:
        self.require_open()
        return self._kept(run).owner in self._shelf.alive

    async def row(self, run: str) -> RunRow:
        self.require_open()
        return self._kept(run).row

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        self.require_open()
        kept = self._kept(run)
        records = journal_format.opened_chain(run, kept.records, journal_format.start_of(run), kept.tip)
        found = [record for record in records if record.last_seq > after][:limit]
        sizes = {record.seq: len(stored.body) for record, stored in zip(records, kept.records, strict=True)}
        return tuple(found if limit is None else _page(found, [sizes[record.seq] for record in found]))

    async def whole(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        return await self.row(run), await self.records(run)

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
        runs = list(self._shelf.runs)
        older = runs[: runs.index(self._kept(before).row.run)] if before is not None else runs
        kinds = (True, False) if nested is None else (nested,)
        rows = (self._shelf.runs[run].row for run in reversed(older) if (CHILD_MARK in run) in kinds)
        crews = (crew,) if isinstance(crew, str) else crew
        return [row for row in rows if status in (None, row.status) and (crews is None or row.crew in crews)][:limit]

    async def below(self, run: str) -> Sequence[RunRow]:
        self.require_open()
        return [kept.row for each, kept in self._shelf.runs.items() if is_below(each, run)]

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        self.require_open()
        first = max(stored.seq for stored in self._kept(run).records if stored.seq <= after + 1)
        found: list[StoredRecord] = []
        is_since = False
        for at, (of, number) in enumerate(self._shelf.order, 1):
            if of != run and not is_below(of, run):
                continue
            stored = self._shelf.runs[of].records[number]
            is_since = is_since or (of == run and stored.seq >= first)
            if is_since and at > position:
                found.append(StoredRecord(position=at, run=of, record=journal_format.opened(of, stored)))
        return found

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        assert limit > 0, "callers bound their pages"
        self.require_open()
        found: list[StoredRecord] = []
        size = 0
        for at, (run, number) in enumerate(self._shelf.order[position:], position + 1):
            if len(found) == limit or size >= PAGE_BYTES_MAX:
                break
            stored = self._shelf.runs[run].records[number] if run else None
            if stored is not None and (record := journal_format.opened_or_none(run, stored)) is not None:
                found.append(StoredRecord(position=at, run=run, record=record))
                size += len(stored.body)
        return found

    async def sealed(self, run: str) -> Sequence[SealedRecord]:
        await self.records(run)
        return tuple(self._kept(run).records)

    async def add(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        await self.add_tree(SealedTree(rows=(row,), records=tuple((0, record) for record in records)))

    async def delete(self, run: str, at: int) -> Tombstone:
        self.require_open()
        self._require_free(run)
        return self._bury(run, at)

    async def sealed_tree(self, run: str) -> SealedTree:
        names = [run, *(row.run for row in await self.below(run))]
        for name in names:
            await self.sealed(name)
        places = {name: place for place, name in enumerate(names)}
        records = [(places[of], self._kept(of).records[number]) for of, number in self._shelf.order if of in places]
        return SealedTree(rows=tuple(self._kept(name).row for name in names), records=tuple(records))

    async def add_tree(self, tree: SealedTree) -> None:
        self.require_open()
        added = [self._addable(row, chain) for row, chain in zip(tree.rows, tree.chains(), strict=True)]
        for kept in added:
            self._shelf.tombstones.pop(kept.row.run, None)
            self._shelf.runs[kept.row.run] = kept
            if kept.row.status in ("running", "paused"):
                self._shelf.unlisted.add(kept.row.run)
        numbers = [itertools.count() for _ in added]
        self._shelf.order += [(tree.rows[of].run, next(numbers[of])) for of, _ in tree.records]

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        names = [run, *(row.run for row in await self.below(run))]
        for name in names:
            self._require_free(name)
        return [self._bury(name, at) for name in names]

    async def finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        self.require_open()
        rows = [kept.row for kept in self._shelf.runs.values() if not parent_of(kept.row.run)]
        over = [row for row in rows if row.status not in ("running", "paused") and row.updated_at < before]
        return sorted(row.run for row in over if row.run > after)[:limit]

    async def expire_tombstones(self, before: int) -> int:
        self.require_open()
        old = [run for run, left in self._shelf.tombstones.items() if left.deleted_at < before]
        for run in old:
            del self._shelf.tombstones[run]
        return len(old)

    def _addable(self, row: RunRow, records: Sequence[SealedRecord]) -> _Kept:
        tip = journal_format.tip_of(row.run, records)
        left = self._shelf.tombstones.get(row.run)
        if row.run in self._shelf.runs or (left is not None and (left.seq, left.link) != (tip.seq, tip.link)):
            raise RunExists(row.run)
        return _Kept(row=msgspec.structs.replace(row, seq=tip.seq, epoch=tip.epoch), owner="", sealed=list(records))

    def _bury(self, run: str, at: int) -> Tombstone:
        kept = self._kept(run)
        left = Tombstone(run=run, crew=kept.row.crew, seq=kept.row.seq, link=kept.tip.link, deleted_at=at)
        self._shelf.tombstones[run] = left
        del self._shelf.runs[run]
        self._shelf.questions.pop(run, None)
        self._shelf.unlisted.discard(run)
        for key in [order.key for order in self._shelf.orders.values() if order.run == run]:
            self._forget(key)
        self._shelf.order = [("", 0) if of == run else (of, number) for of, number in self._shelf.order]
        return left

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        self.require_open()
        chosen = [asking for of, asking in self._shelf.questions.items() if run in (None, of) or is_below(of, run)]
        found = sorted((q for each in chosen for q in each.questions), key=lambda q: (q.since, q.token), reverse=True)
        return [q for q in found if before is None or (q.since, q.token) < before][:limit]

    async def unlisted(self) -> Sequence[str]:
        self.require_open()
        return sorted(self._shelf.unlisted)

    async def list_questions(self, asking: Asking, seq: int) -> None:
        self.require_open()
        if asking.run in self._shelf.runs and self._kept(asking.run).row.seq == seq:
            self._keep_questions(asking)

    def _keep_questions(self, asking: Asking) -> None:
        self._shelf.questions[asking.run] = asking
        self._shelf.unlisted.discard(asking.run)

    async def tombstones(self) -> Sequence[Tombstone]:
        self.require_open()
        return tuple(self._shelf.tombstones.values())

    async def put_crew(self, sha: str, body: bytes) -> None:
        self.require_open()
        journal_format.require_sha(sha, body)
        self._shelf.crews[sha] = body

    async def crew(self, sha: str) -> bytes:
        self.require_open()
        if sha not in self._shelf.crews:
            raise CrewMissing(f"there is no crew with sha256 {sha} in this store; put it there first")
        return self._shelf.crews[sha]

    async def close(self) -> None:
        """Stores beside this one go on, and may claim its runs."""
        self.expire()
        self._is_open = False

    def expire(self) -> None:
        """Others may claim its runs although it still works, as when a lease runs out during a long pause."""
        self._shelf.alive.discard(self.owner)

    def _add(self, kept: _Kept, row: RunRow, record: Record, body: bytes) -> int:
        kept.unsealed.append((record.seq, body))
        kept.row = msgspec.structs.replace(
            kept.row,
            status=row.status,
            reason=row.reason,
            agent=row.agent,
            seq=record.last_seq,
            updated_at=row.updated_at,
            usage=row.usage,
        )
        self._shelf.order.append((row.run, len(kept.sealed) + len(kept.unsealed) - 1))
        return len(self._shelf.order)

    def _position_of(self, kept: _Kept, row: RunRow, record: Record, body: bytes) -> int:
        """Where the very record stands already, if it is the newest one: its append took place, and nobody knew."""
        if row.epoch != kept.row.epoch or record.last_seq != kept.row.seq or kept.records[-1].body != body:
            journal_format.require_next(kept.tip, row, record)
        return max(at for at, (run, _) in enumerate(self._shelf.order, 1) if run == row.run)

    def _carry_out(self, also: Alongside, position: int) -> Appended:
        if also is NOTHING_ELSE:
            return Appended(position)
        for each in also.outgoing:
            self._shelf.outbox.setdefault(each.key, each)
        if also.asking is not None:
            self._keep_questions(also.asking)
        for key, outcome in also.orders:
            self._settle(key, outcome)
        grants = [spend(self._shelf.ledger, order) for order in also.spending]
        mail, announced = carry_out_on_bus(self._shelf.tables, also)
        if announced.reached:
            self.bus.changed()
        return Appended(position, tuple([grant for grant in grants if grant is not None]), mail, announced)

    def _kept(self, run: str) -> _Kept:
        if run in self._shelf.tombstones:
            raise RunDeleted(run)
        if run not in self._shelf.runs:
            raise RunNotFound(run)
        return self._shelf.runs[run]

    def _require_free(self, run: str) -> _Kept:
        """`OwnedElsewhere` while another process works on it."""
        kept = self._kept(run)
        if kept.owner != self.owner and kept.owner in self._shelf.alive:
            raise OwnedElsewhere(run, kept.owner)
        return kept

    def require_open(self) -> None:
        if not self._is_open:
            raise StoreFailed("the store is closed; open another one beside it")


def _page(found: Sequence[Record], sizes: Sequence[int]) -> Sequence[Record]:
    """As many as a real store would give at once."""
    size = 0
    for number, each in enumerate(sizes, 1):
        size += each
        if size >= PAGE_BYTES_MAX:
            return found[:number]
    return found
