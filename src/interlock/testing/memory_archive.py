"""`Archive`, `Questions`, `StandingApprovals` and `Orders` in memory, for tests."""

import itertools
from collections.abc import Sequence

import msgspec

from interlock.adapters.sqlite.tables.order_rows import too_many_orders_error
from interlock.adapters.store_rules import record_format
from interlock.approvals.standing import RevokedApproval, StandingApproval, as_revoked
from interlock.errors import (
    OrderLost,
    RunExists,
)
from interlock.ids import is_below, parent_of, root_of
from interlock.limits import ORDER_KEPT_MS, ORDERS_PER_RUN_MAX, REVOKED_APPROVALS_MAX
from interlock.ports import (
    NO_OWNER,
    OpenQuestion,
    OrderOutcome,
    OrderReceipt,
    RunOrder,
    RunQuestions,
    RunRow,
    SealedRecord,
    SealedTree,
    Tombstone,
)
from interlock.testing.memory_storage import MemoryProcess, StoredRun


class MemoryOrders(MemoryProcess):
    """`Orders` in memory."""

    async def post(self, order: RunOrder) -> OrderReceipt:
        self.require_open()
        self._require_run(order.run)
        for key in [each.key for each in self._shared_storage.orders.values() if each.at < order.at - ORDER_KEPT_MS]:
            self._forget(key)
        if order.key in self._shared_storage.orders:
            return OrderReceipt(outcome=self._shared_storage.outcomes.get(order.key))
        if sum(each.run == order.run for each in self._open_orders()) >= ORDERS_PER_RUN_MAX:
            raise too_many_orders_error(order.run)
        self._shared_storage.orders[order.key] = order
        self.bus.notify_change()
        return OrderReceipt()

    async def orders_for(self, owner: str) -> Sequence[RunOrder]:
        self.require_open()
        runs, alive = self._shared_storage.runs.items(), self._shared_storage.alive
        is_for_any = owner == NO_OWNER
        owned = {run for run, kept in runs if (kept.owner in alive if is_for_any else kept.owner == owner)}
        orders = self._open_orders()
        return [each for each in orders if is_for_any != bool(owned & {each.run, root_of(each.run)})]

    async def outcome(self, key: str) -> OrderOutcome | None:
        self.require_open()
        if key not in self._shared_storage.orders:
            raise OrderLost(key)
        return self._shared_storage.outcomes.get(key)

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        self.require_open()
        self._settle(key, outcome)

    async def forget(self, key: str) -> None:
        self.require_open()
        self._forget(key)

    def _open_orders(self) -> list[RunOrder]:
        return [each for key, each in self._shared_storage.orders.items() if key not in self._shared_storage.outcomes]

    def _settle(self, key: str, outcome: OrderOutcome) -> None:
        if key in self._shared_storage.orders:
            self._shared_storage.outcomes.setdefault(key, outcome)
            self.bus.notify_change()

    def _forget(self, key: str) -> None:
        self._shared_storage.orders.pop(key, None)
        self._shared_storage.outcomes.pop(key, None)


class MemoryQuestions(MemoryProcess):
    """`Questions` in memory."""

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        self.require_open()
        chosen = [
            asking for of, asking in self._shared_storage.questions.items() if run in (None, of) or is_below(of, run)
        ]
        found = sorted((q for each in chosen for q in each.questions), key=lambda q: (q.since, q.token), reverse=True)
        return [q for q in found if before is None or (q.since, q.token) < before][:limit]

    async def overdue_questions(self, at: int, limit: int) -> Sequence[OpenQuestion]:
        self.require_open()
        found = [q for asking in self._shared_storage.questions.values() for q in asking.questions if 0 < q.until <= at]
        return sorted(found, key=lambda q: (q.until, q.token))[:limit]

    async def runs_without_question_list(self) -> Sequence[str]:
        self.require_open()
        return sorted(self._shared_storage.unlisted)

    async def store_questions(self, asking: RunQuestions, seq: int) -> None:
        self.require_open()
        if asking.run in self._shared_storage.runs and self._require_run(asking.run).row.seq == seq:
            self._keep_questions(asking)

    def _keep_questions(self, asking: RunQuestions) -> None:
        self._shared_storage.questions[asking.run] = asking
        self._shared_storage.unlisted.discard(asking.run)


class MemoryApprovals(MemoryProcess):
    """`StandingApprovals` in memory."""

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        self.require_open()
        found = [each for each in self._shared_storage.approvals.values() if tool in (None, each.tool)]
        return sorted(found, key=lambda each: (-each.at, each.id))

    async def revoke_approval(self, approval: str, by: str, at: int) -> bool:
        self.require_open()
        found = self._shared_storage.approvals.pop(approval, None)
        if found is None:
            return False
        ended = [as_revoked(found, by, at), *self._shared_storage.revoked_approvals]
        ended.sort(key=lambda each: (-each.revoked_at, each.id))
        self._shared_storage.revoked_approvals[:] = ended[:REVOKED_APPROVALS_MAX]
        return True

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        self.require_open()
        return list(self._shared_storage.revoked_approvals)

    def _store_approvals(self, approvals: Sequence[StandingApproval]) -> None:
        for each in approvals:
            self._shared_storage.approvals.setdefault(each.id, each)


class MemoryArchive(MemoryOrders):
    """`Archive` in memory. A run that is deleted takes its orders and the approvals for it with it."""

    async def export_tree(self, run: str) -> SealedTree:
        names = self._names_in_tree(run)
        for name in names:
            await self.export_records(name)
        places = {name: place for place, name in enumerate(names)}
        records = [
            (places[of], self._require_run(of).records[number])
            for of, number in self._shared_storage.order
            if of in places
        ]
        return SealedTree(rows=tuple(self._require_run(name).row for name in names), records=tuple(records))

    async def export_records(self, run: str) -> Sequence[SealedRecord]:
        self.require_open()
        kept = self._require_run(run)
        record_format.unseal_chain(run, kept.records, record_format.chain_start(run), kept.tip)
        return tuple(kept.records)

    async def add_tree(self, tree: SealedTree) -> None:
        self.require_open()
        added = [self._require_addable(row, chain) for row, chain in zip(tree.rows, tree.chains(), strict=True)]
        for kept in added:
            self._shared_storage.tombstones.pop(kept.row.run, None)
            self._shared_storage.runs[kept.row.run] = kept
            if kept.row.status in ("running", "paused"):
                self._shared_storage.unlisted.add(kept.row.run)
        numbers = [itertools.count() for _ in added]
        self._shared_storage.order += [(tree.rows[of].run, next(numbers[of])) for of, _ in tree.records]

    async def add_run(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        await self.add_tree(SealedTree(rows=(row,), records=tuple((0, record) for record in records)))

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        names = self._names_in_tree(run)
        for name in names:
            self._require_free(name)
        return [self._delete_run(name, at) for name in names]

    async def delete_run(self, run: str, at: int) -> Tombstone:
        self.require_open()
        self._require_free(run)
        return self._delete_run(run, at)

    async def runs_finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        self.require_open()
        rows = [kept.row for kept in self._shared_storage.runs.values() if not parent_of(kept.row.run)]
        over = [row for row in rows if row.status not in ("running", "paused") and row.updated_at < before]
        return sorted(row.run for row in over if row.run > after)[:limit]

    async def tombstones(self) -> Sequence[Tombstone]:
        self.require_open()
        return tuple(self._shared_storage.tombstones.values())

    async def expire_tombstones(self, before: int) -> int:
        self.require_open()
        old = [run for run, left in self._shared_storage.tombstones.items() if left.deleted_at < before]
        for run in old:
            del self._shared_storage.tombstones[run]
        return len(old)

    def _names_in_tree(self, run: str) -> list[str]:
        self.require_open()
        return [run, *(each for each in self._shared_storage.runs if is_below(each, run))]

    def _require_addable(self, row: RunRow, records: Sequence[SealedRecord]) -> StoredRun:
        tip = record_format.tip_of(row.run, records)
        left = self._shared_storage.tombstones.get(row.run)
        if row.run in self._shared_storage.runs or (left is not None and (left.seq, left.link) != (tip.seq, tip.link)):
            raise RunExists(row.run)
        row = msgspec.structs.replace(record_format.with_needs(row, records), seq=tip.seq, epoch=tip.epoch)
        return StoredRun(row=row, owner="", sealed=list(records))

    def _delete_run(self, run: str, at: int) -> Tombstone:
        kept = self._require_run(run)
        left = Tombstone(run=run, crew=kept.row.crew, seq=kept.row.seq, link=kept.tip.link, deleted_at=at)
        self._shared_storage.tombstones[run] = left
        del self._shared_storage.runs[run]
        self._shared_storage.questions.pop(run, None)
        self._shared_storage.unlisted.discard(run)
        for place in [place for place in self._shared_storage.set_asides if place[0] == run]:
            del self._shared_storage.set_asides[place]
        for key in [order.key for order in self._shared_storage.orders.values() if order.run == run]:
            self._forget(key)
        for id_ in [each.id for each in self._shared_storage.approvals.values() if each.run == run]:
            del self._shared_storage.approvals[id_]
        others = [each for each in self._shared_storage.revoked_approvals if each.run != run]
        self._shared_storage.revoked_approvals[:] = others
        self._shared_storage.order = [
            ("", 0) if of == run else (of, number) for of, number in self._shared_storage.order
        ]
        return left
