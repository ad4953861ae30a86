"""Random histories of budgets through three ledgers: memory, PostgreSQL with the rules in Python, and PostgreSQL with
the function in SQL. Grants and tables must be equal after every step. A history runs in a transaction, rolled back.
"""

import random
from collections.abc import Sequence
from typing import Any

from interlock.adapters.postgres.bus.budget_ledger import PostgresBudgetLedger
from interlock.adapters.postgres.bus.record_writes import decode_answers, encode_writes
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.budget_rules import BudgetCounter, spend
from interlock.engine.budgets.inherited_limits import WindowLimit
from interlock.engine.events import ModelReplied, Usage
from interlock.ports import AtomicWrites, Grant, Record, Reservation, RunRow, Settlement
from interlock.testing.memory_storage import MemoryBudgetLedger
from tests.adapters.postgres.bus.bus_walk import DifferenceFound, rolled_back

NOW = 1_800_000_000_000
DAY = 86_400_000

CREWS, AGENTS, PROVIDERS = ("ci", "ops"), ("", "a", "b"), ("", "one", "two")
PAUSES = (0, 1, 500, 59_000, 60_000, 61_000, 3_600_000, DAY, 3 * DAY, -1, -60_000, -3_600_000, -3 * DAY)
WHATS = ("calls", "tokens", "cost", "errors")
_ROW = RunRow(run="r", crew="ci", crew_sha="", status="running")
_RECORD = Record(seq=1, at=NOW, events=(ModelReplied(call="1.0", agent="a", text=""),))
_NULLS = "null, null, null"


class BudgetWalk:
    """A history that `rng` decides. Some transitions of a batch are refused, so their orders must not count."""

    def __init__(self, rng: random.Random, python: PostgresConnection, functions: PostgresConnection) -> None:
        self.rng = rng
        self.memory, self.in_python = MemoryBudgetLedger(), PostgresBudgetLedger(python)
        self.connections = (python, functions)
        self.now = NOW
        self.keys: list[str] = []
        self.limits = [self.limit() for _ in range(rng.randint(1, 6))]
        self.seen: list[str] = [f"limits {self.limits}"]

    def go(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.rng.choice(PAUSES) if self.rng.random() < 0.5 else self.rng.choice((0, 1, 10))
            batch = [
                [self.order() for _ in range(self.rng.choice((1, 1, 2, 3)))] for _ in range(self.rng.choice((1, 2, 4)))
            ]
            applied = [place for place in range(1, len(batch) + 1) if self.rng.random() < 0.9]
            self.seen.append(f"{applied} of {batch}")
            chosen = [batch[place - 1] for place in applied]
            wanted = [_spend_all(self.memory, orders) for orders in chosen]
            self.compare("grants", "rules in Python", wanted, [_spend_all(self.in_python, orders) for orders in chosen])
            self.compare("grants", "function in SQL", wanted, spend_batch(self.connections[1], batch, applied))
            tables = contents_in_memory(self.memory)
            for name, connection in zip(("rules in Python", "function in SQL"), self.connections, strict=True):
                self.compare("tables", name, tables, contents_of(connection))

    def compare(self, what: str, whose: str, wanted: Any, found: Any) -> None:
        if wanted != found:
            raise DifferenceFound(what, whose, wanted, found, self.seen)

    def limit(self) -> WindowLimit:
        window = self.rng.choice(("minute", "hour", "day", ""))
        what = self.rng.choice(WHATS) if window else "errors"
        most = self.rng.choice((1, 2, 3, 40))
        crew = self.rng.choice(("", "", "ci", "top"))
        return WindowLimit(
            name=f"max_{what}_{window}",
            what=what,
            window=window,
            most=most,
            scope="" if crew else self.rng.choice(("", "a")),
            alert=self.rng.choice((None, most, max(1, most // 2))),
            then=self.rng.choice(("stop", "wait", "warn")),
            crew=crew,
            above=int(bool(crew)),
        )

    def order(self) -> Reservation | Settlement:
        crew, agent, provider = (self.rng.choice(each) for each in (CREWS, AGENTS, PROVIDERS))
        if self.keys and self.rng.random() < 0.5:
            usage = None
            if self.rng.random() < 0.9:
                usage = Usage(
                    calls=self.rng.choice((0, 1, 1, 2)),
                    input_tokens=self.rng.randint(0, 30),
                    cost_micros=self.rng.randint(0, 9),
                )
            return Settlement(
                key=self.rng.choice(self.keys[-6:]), crew=crew, agent=agent, at=self.now, usage=usage,
                failed=self.rng.random() < 0.5, provider=provider, crews_above=self.rng.choice(((), ("top",))),
            )  # fmt: skip
        key = self.rng.choice(self.keys) if self.keys and self.rng.random() < 0.1 else f"k{len(self.keys)}"
        self.keys.append(key)
        limits = self.rng.sample(self.limits, self.rng.randint(0, len(self.limits)))
        return Reservation(
            key=key, crew=crew, agent=agent, at=self.now + self.rng.choice((0, 0, -5)), tokens=self.rng.randint(0, 30),
            cost_micros=self.rng.randint(0, 9), provider=provider, limits=tuple(limits),
        )  # fmt: skip


def _spend_all(ledger: Any, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
    return tuple([grant for order in orders if (grant := spend(ledger, order)) is not None])


def spend_batch(
    connection: PostgresConnection, batch: Sequence[Sequence[Reservation | Settlement]], applied: list[int]
) -> list[tuple[Grant, ...]]:
    """The grants of the transitions that are applied, by the function in SQL."""
    given = [(_ROW, _RECORD, AtomicWrites(spending=tuple(orders))) for orders in batch]
    query = f"select place, grants from apply_batch(%s::integer[], %s::integer[], null, {_NULLS}, %s::json, null)"
    rows = connection.execute(query, (applied, applied, encode_writes(given).spending)).fetchall()
    answers = dict(rows)
    return [decode_answers(given[place - 1], 0, answers[place], None).grants for place in applied]


def contents_of(connection: PostgresConnection) -> dict[str, Any]:
    counters = connection.execute(
        "select crew, scope, period, start, calls, tokens, cost, errors, alerted from counters order by 1, 2, 3"
    )
    held = connection.execute("select key, at, tokens, cost_micros, alerts, exceeded from reservations order by 1")
    return {"counters": counters.fetchall(), "reservations": held.fetchall()}


def contents_in_memory(ledger: MemoryBudgetLedger) -> dict[str, Any]:
    """The same in memory. Counters that were only looked at are no rows elsewhere."""
    counters = [
        (*key, each.start, each.calls, each.tokens, each.cost, each.errors, "\n".join(each.alerted))
        for key, each in sorted(ledger._counters.items())
        if each != BudgetCounter()
    ]
    held = [
        (each.key, each.at, each.tokens, each.cost_micros, "\n".join(each.alerts), "\n".join(each.exceeded))
        for _, each in sorted(ledger._held.items())
    ]
    return {"counters": counters, "reservations": held}


def walk_on_budgets(
    rng: random.Random, python: PostgresConnection, functions: PostgresConnection, steps: int = 12
) -> None:
    """Plays one history; `DifferenceFound` if the three disagree."""
    with rolled_back(python), rolled_back(functions):
        BudgetWalk(rng, python, functions).go(steps)
