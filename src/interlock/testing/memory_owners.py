"""`Owners`, `SetAsides`, `Outbox` and `Leaders` in memory, for tests: several processes on one storage."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import msgspec

from interlock.adapters.store_rules.claim_rules import (
    WaitingRun,
    fits_request,
    forgets_set_asides_before,
    in_fair_order,
    next_set_aside,
    waits_for_driver,
)
from interlock.errors import NotLeader
from interlock.ids import parent_of
from interlock.ports import PUT_OFF_MAX_MS, ClaimedRun, ClaimRequest, Leadership, OutgoingSignal, SetAside
from interlock.testing.memory_storage import KeptSignal, MemoryProcess, SharedStorage, StoredRun


class MemoryOwners(MemoryProcess):
    """`Owners` and `SetAsides` in memory."""

    async def claim(self, run: str) -> ClaimedRun:
        self.require_open()
        return self._take(self._require_free(run))

    async def claim_some(self, request: ClaimRequest) -> Sequence[ClaimedRun]:
        self.require_open()
        waiting = [
            WaitingRun(number, kept.row.run, kept.row.organization, kept.row.crew)
            for number, kept in enumerate(self._shared_storage.runs.values())
            if self._can_claim(kept, request)
        ]
        chosen = in_fair_order(waiting, self._driven_runs(), request.weights)[: request.limit]
        return [self._take(self._require_run(each.run)) for each in chosen]

    def _driven_runs(self) -> Counter[tuple[str, str]]:
        kept = [each for each in self._shared_storage.runs.values() if each.owner in self._shared_storage.alive]
        rows = [each.row for each in kept if each.row.status == "running" and not parent_of(each.row.run)]
        return Counter((row.organization, row.crew) for row in rows)

    def _can_claim(self, kept: StoredRun, request: ClaimRequest) -> bool:
        run, alive = kept.row.run, self._shared_storage.alive
        is_free = run not in request.driven if kept.owner == self.owner else kept.owner not in alive
        if not is_free or not waits_for_driver(kept.row.status, kept.row.reason) or not fits_request(kept.row, request):
            return False
        return not self._rests(run, request.at)

    def _rests(self, run: str, at: int) -> bool:
        """Whether this process has set a run aside, and its time has not come."""
        aside = self._shared_storage.set_asides.get((run, self.owner))
        return aside is not None and aside.at <= at < aside.again_at

    def _take(self, kept: StoredRun) -> ClaimedRun:
        owner_died, kept.owner = kept.owner not in ("", self.owner), self.owner
        kept.row = msgspec.structs.replace(kept.row, epoch=kept.row.epoch + 1)
        return ClaimedRun(run=kept.row.run, epoch=kept.row.epoch, owner_died=owner_died)

    async def release(self, run: str) -> None:
        self.require_open()
        kept = self._shared_storage.runs.get(run)
        if kept is not None and kept.owner == self.owner and self.owner in self._shared_storage.alive:
            kept.owner = ""

    async def is_owned(self, run: str) -> bool:
        self.require_open()
        return self._require_run(run).owner in self._shared_storage.alive

    def on_lost(self, callback: Callable[[], None]) -> None:
        if self.is_leased:
            self._lost_callbacks.append(callback)
        else:
            asyncio.get_running_loop().call_soon(callback)

    async def set_aside(self, run: str, reason: str, at: int) -> SetAside:
        self.require_open()
        self._require_run(run)
        asides, before = self._shared_storage.set_asides, forgets_set_asides_before(at)
        for key in [key for key, each in asides.items() if each.run == run and each.again_at < before]:
            del asides[key]
        last = asides.get((run, self.owner))
        asides[run, self.owner] = next_set_aside(last, run=run, owner=self.owner, reason=reason, at=at)
        return asides[run, self.owner]

    async def set_asides(self, limit: int) -> Sequence[SetAside]:
        self.require_open()
        newest: dict[str, SetAside] = {}
        for each in sorted(self._shared_storage.set_asides.values(), key=lambda each: (each.at, each.owner)):
            newest[each.run] = each
        found = [each for each in newest.values() if self._waits(each)]
        return sorted(found, key=lambda each: (-each.at, each.run))[:limit]

    def _waits(self, aside: SetAside) -> bool:
        kept = self._shared_storage.runs[aside.run]
        is_driven = kept.owner in self._shared_storage.alive
        return kept.row.status in ("running", "paused") and not is_driven and kept.row.updated_at <= aside.at


class MemoryOutbox(MemoryProcess):
    """`Outbox` in memory."""

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        self.require_open()
        return [each.signal for each in self._shared_storage.outbox.values() if run in (None, each.signal.run)]

    async def claim_signals(
        self, at: int, limit: int, run: str | None = None, sending: Collection[str] | None = None
    ) -> Sequence[OutgoingSignal]:
        self.require_open()
        alive = self._shared_storage.alive
        kept = [each for each in self._shared_storage.outbox.values() if run in (None, each.signal.run)]
        free = [each for each in kept if each.sender not in alive or self._is_forgotten(each, sending)]
        due = [each for each in free if not at < each.due_at <= at + PUT_OFF_MAX_MS][:limit]
        for each in due:
            each.sender = self.owner
        return [each.signal for each in due]

    def _is_forgotten(self, kept: KeptSignal, sending: Collection[str] | None) -> bool:
        """Whether this process has claimed it, and does not send it."""
        return sending is not None and kept.sender == self.owner and kept.signal.key not in sending

    async def put_off(self, key: str, attempts: int, due_at: int) -> None:
        self.require_open()
        kept = self._shared_storage.outbox.get(key)
        if kept is not None and kept.sender == self.owner:
            kept.signal = msgspec.structs.replace(kept.signal, attempts=attempts)
            kept.sender, kept.due_at = "", due_at

    async def ack_outgoing(self, key: str) -> None:
        self.require_open()
        self._shared_storage.outbox.pop(key, None)


class MemoryLeadership:
    """A `Leadership` of a memory store."""

    def __init__(self, store: MemoryProcess, name: str, epoch: int) -> None:
        self._store, self.name, self.epoch = store, name, epoch
        self.is_over = False

    def is_held(self) -> bool:
        return self._store.is_leased and not self.is_over


class MemoryLeaders:
    """`Leaders` of one process on a shared storage."""

    def __init__(self, store: MemoryProcess) -> None:
        self._store = store

    @asynccontextmanager
    async def leadership(self, name: str) -> AsyncIterator[Leadership]:
        storage, owner = self._store.storage, self._store.owner
        while True:
            self._store.require_open()
            leader = storage.leaders.get(name)
            if leader is None or leader not in storage.alive:
                break
            await storage.wait_for_change_of_leaders()
        storage.leaders[name] = owner
        storage.leader_epochs[name] = storage.leader_epochs.get(name, 0) + 1
        held = MemoryLeadership(self._store, name, storage.leader_epochs[name])
        try:
            yield held
        finally:
            held.is_over = True
            if storage.leader_epochs[name] == held.epoch:
                del storage.leaders[name]
                storage.notify_leaders()


def require_leader(storage: SharedStorage, leader: Leadership) -> None:
    """`NotLeader` if another process has led since."""
    if storage.leader_epochs.get(leader.name) != leader.epoch:
        raise NotLeader(leader.name)
