"""The storage that memory stores share, as processes share a data folder."""

import asyncio
from collections.abc import Callable

import msgspec

from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.budget_rules import BudgetCounter, OpenReservation
from interlock.adapters.store_rules.record_format import Tip
from interlock.approvals.standing import RevokedApproval, StandingApproval
from interlock.errors import (
    OwnedElsewhere,
    RunDeleted,
    RunNotFound,
    StoreFailed,
)
from interlock.ports import (
    NEWEST_FORMAT,
    OrderOutcome,
    OutgoingSignal,
    RunFormat,
    RunOrder,
    RunQuestions,
    RunRow,
    SealedRecord,
    SetAside,
    Tombstone,
)
from interlock.testing.memory_bus import MemoryBus, MemoryTables


class StoredRun(msgspec.Struct, kw_only=True):
    """A run in memory."""

    row: RunRow
    owner: str
    sealed: list[SealedRecord] = []
    unsealed: list[tuple[int, bytes]] = []

    @property
    def records(self) -> list[SealedRecord]:
        for seq, body in self.unsealed:
            previous = self.sealed[-1].link if self.sealed else record_format.first_link(self.row.run)
            self.sealed.append(record_format.seal_record(seq, body, previous))
        self.unsealed.clear()
        return self.sealed

    @property
    def tip(self) -> Tip:
        return Tip(seq=self.row.seq, epoch=self.row.epoch, link=self.records[-1].link)


class MemoryBudgetLedger:
    """Counters and reservations of budgets."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str, str], BudgetCounter] = {}
        self._held: dict[str, OpenReservation] = {}

    def counter(self, crew: str, scope: str, window: str) -> BudgetCounter:
        return self._counters.setdefault((crew, scope, window), BudgetCounter())

    def put_counter(self, crew: str, scope: str, window: str, counter: BudgetCounter) -> None:
        self._counters[crew, scope, window] = counter

    def open_reservation(self, key: str) -> OpenReservation | None:
        return self._held.get(key)

    def add_reservation(self, held: OpenReservation) -> None:
        self._held[held.key] = held

    def remove_reservation(self, key: str) -> None:
        del self._held[key]

    def remove_reservations_before(self, at: int) -> None:
        self._held = {key: held for key, held in self._held.items() if held.at >= at}

    def keys(self) -> list[str]:
        return list(self._held)


class KeptSignal(msgspec.Struct, kw_only=True):
    """A signal in the outbox. `sender` is the process that has claimed it."""

    signal: OutgoingSignal
    sender: str
    due_at: int = 0


class SharedStorage(msgspec.Struct, kw_only=True):
    """Runs and tables that several memory stores share."""

    runs: dict[str, StoredRun] = {}
    tombstones: dict[str, Tombstone] = {}
    crews: dict[str, bytes] = {}
    order: list[tuple[str, int]] = []  # the run, and the index of its record
    outbox: dict[str, KeptSignal] = {}
    questions: dict[str, RunQuestions] = {}
    orders: dict[str, RunOrder] = {}
    outcomes: dict[str, OrderOutcome] = {}  # by the key of the order
    unlisted: set[str] = set()
    approvals: dict[str, StandingApproval] = {}
    revoked_approvals: list[RevokedApproval] = []
    ledger: MemoryBudgetLedger = msgspec.field(default_factory=MemoryBudgetLedger)
    tables: MemoryTables = msgspec.field(default_factory=MemoryTables)
    set_asides: dict[tuple[str, str], SetAside] = {}  # by run and owner
    leaders: dict[str, str] = {}  # the process that leads, by name
    provider_holds: dict[str, int] = {}  # until when, by server
    leader_epochs: dict[str, int] = {}
    leader_waiters: list[asyncio.Future[None]] = []
    alive: set[str] = set()
    workers: set[str] = set()
    knows: dict[str, RunFormat] = {}  # by process
    run_format: RunFormat | None = None
    owners: int = 0

    async def wait_for_change_of_leaders(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self.leader_waiters.append(waiter)
        await waiter

    def notify_leaders(self) -> None:
        waiters, self.leader_waiters = self.leader_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class MemoryProcess:
    """One process on a shared storage: its name as an owner, and whether it is open."""

    def __init__(self, beside: "MemoryProcess | None" = None, *, knows: RunFormat = NEWEST_FORMAT) -> None:
        """`beside` another store: another process on the same runs. `knows` less: one of an older version."""
        self._shared_storage: SharedStorage = beside._shared_storage if beside is not None else SharedStorage()
        self._shared_storage.owners += 1
        self.owner = f"memory-{self._shared_storage.owners}"
        self.knows = self._shared_storage.knows[self.owner] = knows
        self._shared_storage.alive.add(self.owner)
        self._is_open = self.is_leased = True
        self._lost_callbacks: list[Callable[[], None]] = []
        self.bus = MemoryBus(self._shared_storage.tables, self.require_open)

    async def close(self) -> None:
        """Closes this store; stores beside it stay open, and may claim its runs."""
        self.expire()
        self._is_open = False

    def expire(self) -> None:
        """Lets others claim its runs although it still works, as when a lease expires during a long pause.

        The process has not noticed yet: `has_lease` is still True.
        """
        self._shared_storage.alive.discard(self.owner)
        self._shared_storage.notify_leaders()

    def lose_lease(self) -> None:
        """Ends the lease as the process itself sees it; `expire` follows once others may claim."""
        self.is_leased = False
        callbacks, self._lost_callbacks = self._lost_callbacks, []
        for callback in callbacks:
            asyncio.get_running_loop().call_soon(callback)

    @property
    def storage(self) -> SharedStorage:
        return self._shared_storage

    def _require_run(self, run: str) -> StoredRun:
        if run in self._shared_storage.tombstones:
            raise RunDeleted(run)
        if run not in self._shared_storage.runs:
            raise RunNotFound(run)
        return self._shared_storage.runs[run]

    def _require_free(self, run: str) -> StoredRun:
        """The run; `OwnedElsewhere` while another process owns it."""
        kept = self._require_run(run)
        if kept.owner != self.owner and kept.owner in self._shared_storage.alive:
            raise OwnedElsewhere(run, kept.owner)
        return kept

    def require_open(self) -> None:
        if not self._is_open:
            raise StoreFailed("the store is closed; open another one beside it")
