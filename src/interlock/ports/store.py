"""A store as a whole: all ports of the kept data, and the parts that come with it."""

from typing import NamedTuple, Protocol

from interlock.ports.approvals import StandingApprovals
from interlock.ports.archive import Archive
from interlock.ports.budgets import RunBudgets, UsageTotals
from interlock.ports.bus import Bus
from interlock.ports.clock import Clock
from interlock.ports.journal import Journal, RecordFeed
from interlock.ports.outbox import Outbox
from interlock.ports.processes.deltas import Deltas
from interlock.ports.processes.leaders import Leaders
from interlock.ports.processes.orders import Orders
from interlock.ports.processes.overview import Processes
from interlock.ports.processes.owners import Owners
from interlock.ports.processes.set_asides import SetAsides
from interlock.ports.questions import Questions
from interlock.ports.schedules import RunSchedules
from interlock.ports.server import FolderCounts, IdempotencyStore, WebhookOutbox


class Store(
    Journal,
    RecordFeed,
    Owners,
    SetAsides,
    Processes,
    Archive,
    RunBudgets,
    UsageTotals,
    Outbox,
    Questions,
    StandingApprovals,
    RunSchedules,
    IdempotencyStore,
    WebhookOutbox,
    Protocol,
):
    """All that is kept. One transaction per call."""

    @property
    def owner(self) -> str:
        """The name under which this process owns runs."""
        ...

    async def folder_counts(self) -> FolderCounts: ...


class OpenedStore(NamedTuple):
    """An open store and what comes with it. Closing `store` ends all of them."""

    store: Store
    orders: Orders
    bus: Bus
    leaders: Leaders
    clock: Clock
    deltas: Deltas
