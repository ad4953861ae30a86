"""What a record's transaction holds besides the record: budgets, what is to go out, what people
are asked, orders that it carries out, broadcasts and their inbox marks.

SQL on a given connection.
"""

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from interlock.adapters import orders_sqlite, questions_sqlite
from interlock.adapters.bus_rows import SqliteTables
from interlock.adapters.bus_rules import carry_out_on_bus
from interlock.adapters.remembered_sqlite import Remembered
from interlock.adapters.sealed_tables import whole
from interlock.adapters.spending import Counter, Held, spend
from interlock.ports import Alongside, Appended, Grant, Outgoing, Reservation, Settlement

_log = logging.getLogger("interlock")

_COUNTERS = "start, calls, tokens, cost, errors, alerted"


class SqliteLedger:
    """Counters and reservations in tables. A damaged one counts from nothing again, and the log says so."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def counter(self, crew: str, scope: str, window: str) -> Counter:
        query = f"select {_COUNTERS} from counters where crew = ? and scope = ? and window = ?"  # noqa: S608 - constants
        found = self._whole("counters", query, (crew, scope, window))
        if found is None:
            return Counter()
        start, calls, tokens, cost, errors, alerted = found
        return Counter(
            start=start, calls=calls, tokens=tokens, cost=cost, errors=errors, alerted=tuple(alerted.splitlines())
        )

    def put_counter(self, crew: str, scope: str, window: str, counter: Counter) -> None:
        self._connection.execute(
            f"insert or replace into counters (crew, scope, window, {_COUNTERS})"  # noqa: S608 - constants
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(crew, scope, window, counter.start, counter.calls, counter.tokens, counter.cost, counter.errors),
                "\n".join(counter.alerted),
            ),
        )

    def held(self, key: str) -> Held | None:
        query = "select at, tokens, cost_micros, alerts, exceeded from reservations where key = ?"
        found = self._whole("reservations", query, (key,))
        if found is None:
            return None
        at, tokens, cost_micros, alerts, exceeded = found
        return Held(
            key=key,
            at=at,
            tokens=tokens,
            cost_micros=cost_micros,
            alerts=tuple(alerts.splitlines()),
            exceeded=tuple(exceeded.splitlines()),
        )

    def hold(self, held: Held) -> None:
        self._connection.execute(
            "insert into reservations (key, at, tokens, cost_micros, alerts, exceeded) values (?, ?, ?, ?, ?, ?)",
            (held.key, held.at, held.tokens, held.cost_micros, "\n".join(held.alerts), "\n".join(held.exceeded)),
        )

    def drop(self, key: str) -> None:
        self._connection.execute("delete from reservations where key = ?", (key,))

    def drop_older(self, at: int) -> None:
        self._connection.execute("delete from reservations where at < ?", (at,))

    def _whole(self, table: str, query: str, values: tuple[str, ...]) -> Any:
        found = self._connection.execute(f"{query} and {whole(table)}", values).fetchone()
        if found is None and self._connection.execute(f"select 1 {query[query.index('from') :]}", values).fetchone():
            _log.warning(
                "what was spent under '%s' is damaged in '%s', and is counted anew", "', '".join(values), table
            )
            key = query.partition(" where ")[2]
            self._connection.execute(f"delete from {table} where {key}", values)  # noqa: S608 - constants
        return found


def carry_out(connection: sqlite3.Connection, remembered: Remembered, also: Alongside, position: int) -> Appended:
    for each in also.outgoing:
        connection.execute(
            "insert or ignore into outbox (key, run, body) values (?, ?, ?)", (each.key, each.run, each.body)
        )
    if also.asking is not None:
        questions_sqlite.keep(connection, also.asking)
    for key, outcome in also.orders:
        orders_sqlite.settle(connection, key=key, outcome=outcome)
    grants = carry_out_spending(connection, also.spending) if also.spending else ()
    if not also.concerns_bus:
        return Appended(position, grants)
    mail, announced = carry_out_on_bus(SqliteTables(connection, remembered), also)
    return Appended(position, grants, mail, announced)


def carry_out_spending(connection: sqlite3.Connection, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
    ledger = SqliteLedger(connection)
    grants = [spend(ledger, order) for order in orders]
    return tuple(grant for grant in grants if grant is not None)


def pending(connection: sqlite3.Connection, *, run: str | None) -> list[Outgoing]:
    found = connection.execute(
        f"select key, run, body from outbox where (? is null or run = ?) and {whole('outbox')} order by number",  # noqa: S608 - constants
        (run, run),
    ).fetchall()
    return [Outgoing(key=key, run=of, body=body) for key, of, body in found]


def delivered(connection: sqlite3.Connection, *, key: str) -> None:
    connection.execute("delete from outbox where key = ?", (key,))
