"""Ports: the protocols by which the engine reaches everything outside of it.

Rule 1: a record is acknowledged when `append` returns. From then on it survives what the durability promises.
Rule 2: ownership is separate from appending. An append with a stale epoch is refused.
Rule 3: foreign errors stop at the adapter. A port raises a `PortError` or one of the refusals that it documents.
"""

from interlock.ports.approvals import StandingApprovals
from interlock.ports.archive import Archive, SealedTree, Tombstone
from interlock.ports.atomic_writes import NO_WRITES, AtomicWrites
from interlock.ports.budgets import (
    BudgetStore,
    Grant,
    ProviderHold,
    ProviderHolds,
    Reservation,
    RunBudgets,
    RunUsage,
    Settlement,
    UsageTotals,
)
from interlock.ports.bus import (
    NO_BROADCASTS,
    Activity,
    BroadcastOutcome,
    Bus,
    Delivery,
    InboxClaim,
    PruneResult,
    Topic,
    subscriptions_of_file,
)
from interlock.ports.clock import Clock
from interlock.ports.journal import AppendResult, Journal, RecordFeed, RunSnapshot
from interlock.ports.model import Delta, Model, ModelReply, ModelRequest, PromptMessage, ReasoningDelta
from interlock.ports.observer import Observer
from interlock.ports.outbox import PUT_OFF_MAX_MS, Outbox, OutgoingSignal
from interlock.ports.outputs import NoValidator, OutputValidator
from interlock.ports.processes.deltas import ALL_RUNS, Deltas, RunDelta
from interlock.ports.processes.leaders import Leaders, Leadership
from interlock.ports.processes.orders import NO_OWNER, OrderOutcome, OrderReceipt, Orders, RunOrder
from interlock.ports.processes.overview import LeaderEntry, Processes, ProcessLoad, StoreOverview
from interlock.ports.processes.owners import ClaimedRun, ClaimRequest, Owners
from interlock.ports.processes.set_asides import RunOwners, SetAside, SetAsides
from interlock.ports.questions import OpenQuestion, Questions, RunQuestions
from interlock.ports.records import NEWEST_FORMAT, RECORD_FORMAT, Record, RunFormat, RunRow, SealedRecord, StoredRecord
from interlock.ports.schedules import RunSchedules
from interlock.ports.server import (
    FolderCounts,
    IdempotencyStore,
    IdempotentRequest,
    WebhookDelivery,
    WebhookOutbox,
)
from interlock.ports.store import OpenedStore, Store
from interlock.ports.tools import NO_CREW, CrewRef, RunAccess, Toolbox, ToolCall, ToolSchema

__all__ = [
    "ALL_RUNS",
    "NEWEST_FORMAT",
    "NO_BROADCASTS",
    "NO_CREW",
    "NO_OWNER",
    "NO_WRITES",
    "PUT_OFF_MAX_MS",
    "RECORD_FORMAT",
    "Activity",
    "AppendResult",
    "Archive",
    "AtomicWrites",
    "BroadcastOutcome",
    "BudgetStore",
    "Bus",
    "ClaimRequest",
    "ClaimedRun",
    "Clock",
    "CrewRef",
    "Delivery",
    "Delta",
    "Deltas",
    "FolderCounts",
    "Grant",
    "IdempotencyStore",
    "IdempotentRequest",
    "InboxClaim",
    "Journal",
    "LeaderEntry",
    "Leaders",
    "Leadership",
    "Model",
    "ModelReply",
    "ModelRequest",
    "NoValidator",
    "Observer",
    "OpenQuestion",
    "OpenedStore",
    "OrderOutcome",
    "OrderReceipt",
    "Orders",
    "Outbox",
    "OutgoingSignal",
    "OutputValidator",
    "Owners",
    "ProcessLoad",
    "Processes",
    "PromptMessage",
    "ProviderHold",
    "ProviderHolds",
    "PruneResult",
    "Questions",
    "ReasoningDelta",
    "Record",
    "RecordFeed",
    "Reservation",
    "RunAccess",
    "RunBudgets",
    "RunDelta",
    "RunFormat",
    "RunOrder",
    "RunOwners",
    "RunQuestions",
    "RunRow",
    "RunSchedules",
    "RunSnapshot",
    "RunUsage",
    "SealedRecord",
    "SealedTree",
    "SetAside",
    "SetAsides",
    "Settlement",
    "StandingApprovals",
    "Store",
    "StoreOverview",
    "StoredRecord",
    "Tombstone",
    "ToolCall",
    "ToolSchema",
    "Toolbox",
    "Topic",
    "UsageTotals",
    "WebhookDelivery",
    "WebhookOutbox",
    "subscriptions_of_file",
]
