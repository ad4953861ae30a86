"""Orders to the process that drives a run.

Rule 1: an order is carried out in the transaction of the record that it causes (`apply_writes`). All else is written in
transactions of its own.
Rule 2: an order is open while it has no outcome. The first outcome counts.
"""

from collections.abc import Sequence

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.runs.owners import PostgresOwners
from interlock.adapters.postgres.runs.run_head import read_stored_run
from interlock.errors import OrderLost, UsageError
from interlock.ids import root_of
from interlock.limits import ORDER_KEPT_MS, ORDERS_PER_RUN_MAX
from interlock.ports import NO_OWNER, OrderOutcome, OrderReceipt, RunOrder

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OrderOutcome).decode

_OPEN = (
    "select key, run, kind, body, ordered_by, at from orders where outcome = ''::bytea and {}"
    " (select 1 from runs where runs.run in (orders.run, orders.root) and {}) order by number"
)
_OWN = _OPEN.format("exists", "runs.owner = %s")
# Also where a process claimed a resting run for an order, and died.
_UNOWNED = _OPEN.format("not exists", "runs.owner is not null and not seems_gone(runs.owner)")


class PostgresOrders:
    """`Orders` beside the journal."""

    def __init__(self, store: PostgresOwners) -> None:
        self._store = store

    @property
    def owner(self) -> str:
        return self._store.owner

    async def post(self, order: RunOrder) -> OrderReceipt:
        def work(connection: PostgresConnection) -> OrderReceipt:
            read_stored_run(connection, order.run, lock=True)  # counts of one run are not made by two at once
            receipt = _post(connection, order)
            connection.execute("select notify_others(%s, 'orders')", (self._store.session.id,))
            return receipt

        return await self._store.write(f"post an order for run '{order.run}'", work, len(order.body))

    async def orders_for(self, owner: str) -> Sequence[RunOrder]:
        def work(connection: PostgresConnection) -> list[RunOrder]:
            query, values = (_UNOWNED, ()) if owner == NO_OWNER else (_OWN, (int(owner),))
            found = connection.execute(query.encode(), values, binary=True).fetchall()
            return [
                RunOrder(key=key, run=run, kind=kind, body=body, by=ordered_by, at=at)
                for key, run, kind, body, ordered_by, at in found
            ]

        return await self._store.read_statement("read orders", work)

    async def outcome(self, key: str) -> OrderOutcome | None:
        return await self._store.read_statement(
            "read the outcome of an order", lambda connection: _outcome(connection, key)
        )

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        def work(connection: PostgresConnection) -> None:
            query = "update orders set outcome = %b where key = %s and outcome = ''::bytea"
            connection.execute(query, (_encode(outcome), key))
            connection.execute("select notify_others(%s, 'orders')", (self._store.session.id,))

        await self._store.write("store the outcome of an order", work)

    async def forget(self, key: str) -> None:
        def work(connection: PostgresConnection) -> None:
            connection.execute("delete from orders where key = %s", (key,))

        await self._store.write("delete an order", work)


def _post(connection: PostgresConnection, order: RunOrder) -> OrderReceipt:
    connection.execute("delete from orders where at < %s", (order.at - ORDER_KEPT_MS,))
    if connection.execute("select 1 from orders where key = %s", (order.key,)).fetchone() is not None:
        return OrderReceipt(outcome=_outcome(connection, order.key))
    query = "select count(*) from orders where run = %s and outcome = ''::bytea"
    found = connection.execute(query, (order.run,)).fetchone()
    if found is not None and found[0] >= ORDERS_PER_RUN_MAX:
        raise UsageError(f"run '{order.run}' has {ORDERS_PER_RUN_MAX} open orders; check the process that drives it")
    done = connection.execute(
        "insert into orders (key, run, root, kind, body, ordered_by, at, outcome)"
        " values (%s, %s, %s, %s, %b, %s, %s, ''::bytea) on conflict (key) do nothing",
        (order.key, order.run, root_of(order.run), order.kind, order.body, order.by, order.at),
    )
    return OrderReceipt(outcome=None if done.rowcount else _outcome(connection, order.key))


def _outcome(connection: PostgresConnection, key: str) -> OrderOutcome | None:
    found = connection.execute("select outcome from orders where key = %s", (key,), binary=True).fetchone()
    if found is None:
        raise OrderLost(key)
    return _decode(found[0]) if found[0] else None
