"""SQL of the writes that share the transaction of a record: outbox, questions, orders, budgets, and the bus."""

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.bus.presence_writes import PresenceWrite, announce_presence
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.sqlite.tables import order_rows, question_rows
from interlock.adapters.sqlite.tables.approvals import store_approvals
from interlock.adapters.store_rules.budget_rules import BudgetCounter, OpenReservation, spend
from interlock.adapters.store_rules.bus_rules import PRESENCE_ONLY, apply_bus_writes, merge_announcements
from interlock.adapters.store_rules.positions import before_emitted
from interlock.ports import NO_BROADCASTS, AppendResult, AtomicWrites, Grant, Reservation, Settlement

_log = logging.getLogger("interlock")

_COUNTERS = "start, calls, tokens, cost, errors, alerted"


class SqliteBudgetLedger:
    """Counters and reservations in tables. A damaged counter restarts at 0, with a warning in the log."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def counter(self, crew: str, scope: str, window: str) -> BudgetCounter:
        query = f"select {_COUNTERS} from counters where crew = ? and scope = ? and window = ?"  # noqa: S608 - constants
        found = self._fetch_or_drop_damaged("counters", query, (crew, scope, window))
        if found is None:
            return BudgetCounter()
        start, calls, tokens, cost, errors, alerted = found
        return BudgetCounter(
            start=start, calls=calls, tokens=tokens, cost=cost, errors=errors, alerted=tuple(alerted.splitlines())
        )

    def put_counter(self, crew: str, scope: str, window: str, counter: BudgetCounter) -> None:
        self._connection.execute(
            f"insert or replace into counters (crew, scope, window, {_COUNTERS})"  # noqa: S608 - constants
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(crew, scope, window, counter.start, counter.calls, counter.tokens, counter.cost, counter.errors),
                "\n".join(counter.alerted),
            ),
        )

    def open_reservation(self, key: str) -> OpenReservation | None:
        query = "select at, tokens, cost_micros, alerts, exceeded from reservations where key = ?"
        found = self._fetch_or_drop_damaged("reservations", query, (key,))
        if found is None:
            return None
        at, tokens, cost_micros, alerts, exceeded = found
        return OpenReservation(
            key=key,
            at=at,
            tokens=tokens,
            cost_micros=cost_micros,
            alerts=tuple(alerts.splitlines()),
            exceeded=tuple(exceeded.splitlines()),
        )

    def add_reservation(self, held: OpenReservation) -> None:
        self._connection.execute(
            "insert into reservations (key, at, tokens, cost_micros, alerts, exceeded) values (?, ?, ?, ?, ?, ?)",
            (held.key, held.at, held.tokens, held.cost_micros, "\n".join(held.alerts), "\n".join(held.exceeded)),
        )

    def remove_reservation(self, key: str) -> None:
        self._connection.execute("delete from reservations where key = ?", (key,))

    def remove_reservations_before(self, at: int) -> None:
        self._connection.execute("delete from reservations where at < ?", (at,))

    def _fetch_or_drop_damaged(self, table: str, query: str, values: tuple[str, ...]) -> Any:
        found = self._connection.execute(f"{query} and {intact_condition(table)}", values).fetchone()
        if found is None and self._connection.execute(f"select 1 {query[query.index('from') :]}", values).fetchone():
            _log.warning("the budget counter '%s' in '%s' is damaged; it restarts at 0", "', '".join(values), table)
            key = query.partition(" where ")[2]
            self._connection.execute(f"delete from {table} where {key}", values)  # noqa: S608 - constants
        return found


def apply_writes(
    connection: sqlite3.Connection, cache: BusCache, also: AtomicWrites, position: int, presence: PresenceWrite
) -> AppendResult:
    for each in also.outgoing:
        connection.execute(
            "insert or ignore into outbox (key, run, body, sender)"
            " values (?, ?, ?, (select owner from runs where run = ?))",
            (each.key, each.run, each.body, each.run),
        )
    if also.asking is not None:
        question_rows.store_questions(connection, also.asking)
    if also.approvals:
        store_approvals(connection, also.approvals)
    for key, outcome in also.orders:
        order_rows.settle(connection, key=key, outcome=outcome)
    grants = apply_spending(connection, also.spending) if also.spending else ()
    if not also.has_bus_writes and not presence.emissions:
        return AppendResult(position, grants, (), PRESENCE_ONLY if presence.is_news else NO_BROADCASTS)
    tables = SqliteBusTables(connection, cache)
    tables.place_after(before_emitted(position))
    claimed, announced = apply_bus_writes(tables, also)
    presented = announce_presence(tables, presence, position)
    return AppendResult(position, grants, claimed, merge_announcements(announced, presented))


def apply_spending(connection: sqlite3.Connection, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
    ledger = SqliteBudgetLedger(connection)
    grants = [spend(ledger, order) for order in orders]
    return tuple(grant for grant in grants if grant is not None)
