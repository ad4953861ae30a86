"""Budgets wider than a run: reservations, settlements, limits of providers and usage totals."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from interlock.engine.budgets.inherited_limits import WindowLimit
from interlock.engine.budgets.usage import CacheSavings
from interlock.engine.events import Usage
from interlock.ports.records import RunRow


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A request to reserve one model call in budgets wider than a run. The same key is granted once."""

    key: str
    crew: str
    agent: str
    at: int
    tokens: int
    cost_micros: int
    limits: tuple[WindowLimit, ...]
    provider: str = ""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The actual cost of a reserved call. Without a usage the cost is unknown, and the reserved amount counts."""

    key: str
    crew: str
    agent: str
    at: int
    usage: Usage | None
    failed: bool = False
    provider: str = ""
    crews_above: tuple[str, ...] = ()  # crews whose counters include the call too


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a reservation: granted unless a limit refused it."""

    refused: str = ""
    what: str = ""
    then: str = ""
    wait_ms: int = 0
    alerts: tuple[str, ...] = ()
    above: int = 0  # whose limit refused: 0 is the run's own crew, else the caller this many levels up
    most: int = 0  # the size of the limit that refused, and how much of it is used
    used: int = 0
    exceeded: tuple[str, ...] = ()  # limits that only warn and are exceeded


class BudgetStore(Protocol):
    """The cost of the calls of all runs, by crew, agent and UTC window."""

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        """Applies orders in a transaction of its own, if their answer was lost. Each is applied once.

        `NotOwner` under a stale epoch: then another process has settled them.
        """
        ...


class ProviderHold(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that takes no calls until a time by the clock of the store. `server` is `ModelRef.server`."""

    server: str
    until: int


class ProviderHolds(Protocol):
    """The providers that asked a process to wait, for all processes of the store."""

    async def hold_provider(self, hold: ProviderHold, at: int) -> None:
        """Holds calls to a provider back in all processes. A hold is never shortened; those over at `at` are removed.

        Other processes are told of it under the topic `providers`.
        """
        ...

    async def provider_holds(self, at: int) -> Sequence[ProviderHold]:
        """The holds that are not over at `at`, by server."""
        ...


class RunBudgets(BudgetStore, ProviderHolds, Protocol):
    """What limits the calls of runs beside their own files."""


class RunUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of the calls of a run by agent, and what caching saved of it, up to this seq."""

    run: str
    seq: int
    agents: dict[str, Usage]
    savings: dict[str, CacheSavings] = {}


class UsageTotals(Protocol):
    """A cache of the cost of runs. The journals are authoritative."""

    async def usage_by_run(self, rows: Sequence[RunRow]) -> Mapping[str, RunUsage]:
        """The usage by run, of runs whose cached total matches their seq."""
        ...

    async def store_usage(self, found: Sequence[RunUsage]) -> None: ...
