"""The ports of a simulated process: real parts, with faults in between.

Rule 1: a dead process reaches nothing: all its ports are closed at once.
Rule 2: faults follow from the seed; in the quiet phase there are none.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from interlock.approvals.standing import RevokedApproval, StandingApproval
from interlock.errors import ModelRefused, ModelUnavailable, StoreFailed
from interlock.ports import (
    NO_WRITES,
    AppendResult,
    AtomicWrites,
    ClaimedRun,
    ClaimRequest,
    Delta,
    Grant,
    Model,
    ModelReply,
    ModelRequest,
    OrderOutcome,
    OrderReceipt,
    OutgoingSignal,
    ProviderHold,
    ReasoningDelta,
    Record,
    Reservation,
    RunOrder,
    RunRow,
    RunSnapshot,
    SetAside,
    Settlement,
    StoredRecord,
)
from interlock.testing.memory_bus import MemoryBus
from interlock.testing.memory_store import MemoryStore
from interlock.testing.simulation.decision_watch import DecisionWatch
from interlock.testing.simulation.faults import Faults
from interlock.testing.simulation.invariants import InvariantChecker
from interlock.testing.simulation.seeds import chance_of
from interlock.testing.simulation.simulated_loop import SimulatedClock

# The longest ordinary call, and the longest slow one, in milliseconds of virtual time.
ORDINARY_MS = 400
SLOW_MS = 60_000
NEVER_MS = 10**10  # longer than any time limit of a run
COMMIT_MS = 20


class FaultInjector:
    """Decides by the seed which faults to inject; none while it is calm."""

    def __init__(self, faults: Faults, seed: int | str) -> None:
        self.faults, self.chance = faults, chance_of(seed, "weather")
        self.is_calm = False
        self.crashes = 0
        self.is_store_away = False

    def should_inject(self, rate: float) -> bool:
        return not self.is_calm and self.chance.random() < rate

    def should_crash(self) -> bool:
        return self.crashes < self.faults.crashes_max and self.should_inject(self.faults.crash)


class Gate(Protocol):
    """The view that a port has of its process."""

    number: int
    checker: InvariantChecker
    watch: DecisionWatch
    injector: FaultInjector
    clock: SimulatedClock
    listens: bool
    is_fenced: bool

    def boundary(self, name: str) -> None:
        """Marks a place where the process may die; raises if it is dead already."""
        ...


class SimulatedStore:
    """`Journal` and `Owners` of one process: a memory store behind a connection that may break."""

    def __init__(self, gate: Gate, memory: MemoryStore) -> None:
        self._gate, self._memory = gate, memory
        self.bus = SimulatedBus(gate, memory)

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        async def create_run(row: RunRow, record: Record, also: AtomicWrites) -> AppendResult:
            appended = await self._memory.create(row, record, also, owned=owned)
            self._gate.checker.on_run_begun(row.run, row.crew_sha, self._gate.number)
            return appended

        return await self._write(create_run, row, record, also)

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        return await self._write(self._memory.append, row, record, also)

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        await self._cross_line("spend")
        return await self._memory.spend(row, orders)

    async def hold_provider(self, hold: ProviderHold, at: int) -> None:
        await self._memory.hold_provider(hold, at)

    async def provider_holds(self, at: int) -> Sequence[ProviderHold]:
        return await self._memory.provider_holds(at)

    async def signals_to_deliver(self, run: str | None = None) -> Sequence[OutgoingSignal]:
        await self._cross_line("read")
        return await self._memory.signals_to_deliver(run)

    async def claim_signals(
        self, at: int, limit: int, run: str | None = None, sending: Collection[str] | None = None
    ) -> Sequence[OutgoingSignal]:
        await self._cross_line("claim signals")
        return await self._memory.claim_signals(at, limit, run, sending)

    async def put_off(self, key: str, attempts: int, due_at: int) -> None:
        await self._cross_line("put off a signal")
        await self._memory.put_off(key, attempts, due_at)

    async def ack_outgoing(self, key: str) -> None:
        await self._cross_line("delivered")
        await self._memory.ack_outgoing(key)

    async def _write(self, write: Callable[..., Any], row: RunRow, record: Record, also: AtomicWrites) -> AppendResult:
        gate, faults = self._gate, self._gate.injector.faults
        await self._cross_line("before commit")
        if gate.injector.should_inject(faults.store_away):
            gate.checker.record_fault(f"the store is away at seq {record.seq}")
            raise StoreFailed("the store is away; try again")
        appended: AppendResult = await write(row, record, also)
        gate.checker.on_committed(gate.number, row.run, record)
        gate.boundary("after commit")
        if gate.injector.should_inject(faults.store_unsure):
            gate.checker.record_fault(f"the store wrote seq {record.seq}, and its answer was lost")
            raise StoreFailed("the store broke off; whether it wrote is not known")
        await self._cross_line("acknowledge")
        return appended

    async def _cross_line(self, boundary: str) -> None:
        await self._gate.clock.sleep(self._gate.injector.chance.randrange(COMMIT_MS))
        self._gate.boundary(boundary)
        if self._gate.injector.is_store_away:
            raise StoreFailed("the store is away for an hour; try again")

    async def claim(self, run: str) -> ClaimedRun:
        await self._cross_line("claim")
        claimed = await self._memory.claim(run)
        self._gate.checker.on_run_claimed(run, self._gate.number)
        return claimed

    async def claim_some(self, request: ClaimRequest) -> Sequence[ClaimedRun]:
        await self._cross_line("claim some")
        claimed = await self._memory.claim_some(request)
        for each in claimed:
            self._gate.checker.on_run_claimed(each.run, self._gate.number)
            await self._cross_line("claimed")
        return claimed

    def has_lease(self) -> bool:
        return self._memory.has_lease()

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._memory.on_lost(callback)

    async def set_aside(self, run: str, reason: str, at: int) -> SetAside:
        await self._cross_line("set aside")
        return await self._memory.set_aside(run, reason, at)

    async def set_asides(self, limit: int) -> Sequence[SetAside]:
        await self._cross_line("read")
        return await self._memory.set_asides(limit)

    async def release(self, run: str) -> None:
        await self._cross_line("release")
        await self._memory.release(run)
        self._gate.checker.lost_calls.on_run_released(run, self._gate.number)

    async def is_owned(self, run: str) -> bool:
        await self._cross_line("read")
        return await self._memory.is_owned(run)

    @property
    def owner(self) -> str:
        return self._memory.owner

    async def post(self, order: RunOrder) -> OrderReceipt:
        await self._cross_line("post an order")
        return await self._memory.post(order)

    async def orders_for(self, owner: str) -> Sequence[RunOrder]:
        await self._cross_line("read")
        return await self._memory.orders_for(owner)

    async def outcome(self, key: str) -> OrderOutcome | None:
        await self._cross_line("read")
        return await self._memory.outcome(key)

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        await self._cross_line("settle an order")
        await self._memory.settle(key, outcome)

    async def forget(self, key: str) -> None:
        await self._cross_line("forget an order")
        await self._memory.forget(key)

    async def row(self, run: str) -> RunRow:
        await self._cross_line("read")
        return await self._memory.row(run)

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        await self._cross_line("read")
        return await self._memory.records(run, after, limit)

    async def row_with_records(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        await self._cross_line("read")
        return await self._memory.row_with_records(run)

    async def run_snapshot(self, run: str, limit: int) -> RunSnapshot:
        await self._cross_line("read")
        return await self._memory.run_snapshot(run, limit)

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        await self._cross_line("read")
        return await self._memory.rows(status=status, crew=crew, limit=limit, before=before, nested=nested)

    async def rows_below(self, run: str) -> Sequence[RunRow]:
        await self._cross_line("read")
        return await self._memory.rows_below(run)

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        await self._cross_line("read")
        return await self._memory.tree(run, after, position)

    async def standing_approvals(self, tool: str | None = None) -> Sequence[StandingApproval]:
        await self._cross_line("read")
        return await self._memory.standing_approvals(tool)

    async def revoke_approval(self, approval: str, by: str, at: int) -> bool:
        await self._cross_line("revoke an approval")
        return await self._memory.revoke_approval(approval, by, at)

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        await self._cross_line("read")
        return await self._memory.past_approvals()

    async def put_crew(self, sha: str, body: bytes) -> None:
        await self._memory.put_crew(sha, body)

    async def crew(self, sha: str) -> bytes:
        return await self._memory.crew(sha)

    async def close(self) -> None:
        await self._memory.close()


class SimulatedBus(MemoryBus):
    """The bus of one process, behind a connection that may break."""

    def __init__(self, gate: Gate, memory: MemoryStore) -> None:
        super().__init__(memory.bus.tables, memory.require_open)
        self._gate = gate

    async def cross_line(self, name: str) -> None:
        if not self._gate.listens:
            return
        await self._gate.clock.sleep(self._gate.injector.chance.randrange(COMMIT_MS))
        self._gate.boundary(f"before {name}")
        if self._gate.injector.should_inject(self._gate.injector.faults.store_away):
            self._gate.checker.record_fault(f"the bus is away at {name}")
            raise StoreFailed("the store is away; try again")


def _across_line(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call_across_line(self: SimulatedBus, *values: Any, **named: Any) -> Any:
        await self.cross_line(name)
        return await method(self, *values, **named)

    return call_across_line


for _name, _method in list(vars(MemoryBus).items()):
    if inspect.iscoroutinefunction(_method):
        setattr(SimulatedBus, _name, _across_line(_name, _method))


class SimulatedModel:
    """A model behind a connection that may be slow, silent or broken."""

    def __init__(self, gate: Gate, model: Model) -> None:
        self._gate, self._model = gate, model

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        gate = self._gate
        gate.boundary("ask")
        if gate.is_fenced:
            gate.checker.report_violation("no effect starts without a lease", f"call {request.key} is made")
        gate.watch.on_call_started(gate.number, "model", request.key)
        gate.checker.on_call_started(gate.number, "model", request.key, repeatable=True)
        gate.checker.on_request(request)
        try:
            await self._inject_trouble(request.key)
            async with aclosing(self._model.reply(request)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    yield piece
        finally:
            gate.checker.on_call_ended(gate.number, request.key)

    async def _inject_trouble(self, key: str) -> None:
        injector, clock, checker = self._gate.injector, self._gate.clock, self._gate.checker
        await clock.sleep(injector.chance.randrange(ORDINARY_MS))
        if injector.should_inject(injector.faults.hanging):
            checker.record_fault(f"call {key} is never answered")
            await clock.sleep(NEVER_MS)
        if injector.should_inject(injector.faults.slow):
            checker.record_fault(f"call {key} is slow")
            await clock.sleep(injector.chance.randrange(SLOW_MS))
        if injector.should_inject(injector.faults.failing):
            checker.record_fault(f"call {key} fails")
            raise ModelUnavailable("overloaded")
        if injector.should_inject(injector.faults.refusing):
            checker.record_fault(f"call {key} is refused")
            raise ModelRefused("not with this key")
