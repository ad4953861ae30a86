"""Counters and reservations in tables, for the rules in Python."""

from collections.abc import Sequence

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.budget_rules import BudgetCounter, OpenReservation, spend
from interlock.ports import Grant, Reservation, Settlement

_SELECT_COUNTER = (
    "select start, calls, tokens, cost, errors, alerted from counters where crew = %s and scope = %s and period = %s"
)
_PUT_COUNTER = (
    "insert into counters (crew, scope, period, start, calls, tokens, cost, errors, alerted)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " on conflict (crew, scope, period) do update set start = excluded.start, calls = excluded.calls,"
    " tokens = excluded.tokens, cost = excluded.cost, errors = excluded.errors, alerted = excluded.alerted"
)


class PostgresBudgetLedger:
    """`BudgetLedger` on a connection that is in a transaction, under the lock of the store."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._execute = connection.execute

    def counter(self, crew: str, scope: str, window: str) -> BudgetCounter:
        found = self._execute(_SELECT_COUNTER, (crew, scope, window)).fetchone()
        if found is None:
            return BudgetCounter()
        start, calls, tokens, cost, errors, alerted = found
        return BudgetCounter(
            start=start, calls=calls, tokens=tokens, cost=cost, errors=errors, alerted=tuple(alerted.splitlines())
        )

    def put_counter(self, crew: str, scope: str, window: str, counter: BudgetCounter) -> None:
        amounts = (counter.start, counter.calls, counter.tokens, counter.cost, counter.errors)
        self._execute(_PUT_COUNTER, (crew, scope, window, *amounts, "\n".join(counter.alerted)))

    def open_reservation(self, key: str) -> OpenReservation | None:
        query = "select at, tokens, cost_micros, alerts, exceeded from reservations where key = %s"
        found = self._execute(query, (key,)).fetchone()
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
        query = (
            "insert into reservations (key, at, tokens, cost_micros, alerts, exceeded) values (%s, %s, %s, %s, %s, %s)"
        )
        lines = ["\n".join(each) for each in (held.alerts, held.exceeded)]
        self._execute(query, (held.key, held.at, held.tokens, held.cost_micros, *lines))

    def remove_reservation(self, key: str) -> None:
        self._execute("delete from reservations where key = %s", (key,))

    def remove_reservations_before(self, at: int) -> None:
        self._execute("delete from reservations where at < %s", (at,))


def spend_in_transaction(
    connection: PostgresConnection, orders: Sequence[Reservation | Settlement]
) -> tuple[Grant, ...]:
    """Applies reservations and settlements, and returns the grants."""
    ledger = PostgresBudgetLedger(connection)
    return tuple([grant for order in orders if (grant := spend(ledger, order)) is not None])
