"""Orders to the process that drives a run, in a table of the store's database, by the same writer.

Rule: an order is carried out in the transaction of the record that it causes (`alongside_sqlite`); the rest is written
in transactions of its own.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial

from interlock.adapters import orders_sqlite, sqlite_rows
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.store_sqlite import SqliteStore
from interlock.ports import Order, OrderOutcome, Posted


class SqliteOrders:
    """`Orders` beside the journal."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    @property
    def owner(self) -> str:
        return self._store.owner

    async def post(self, order: Order) -> Posted:
        def work(connection: sqlite3.Connection, _tips: Tips) -> Posted:
            sqlite_rows.kept(connection, order.run)
            return orders_sqlite.post(connection, order=order)

        return await self._store.write(f"post an order for run '{order.run}'", work, len(order.body))

    async def orders_for(self, owner: str) -> Sequence[Order]:
        return await self._store.read("read orders", partial(orders_sqlite.orders_for, owner=owner))

    async def outcome(self, key: str) -> OrderOutcome | None:
        return await self._store.read("read the outcome of an order", partial(orders_sqlite.outcome, key=key))

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            orders_sqlite.settle(connection, key=key, outcome=outcome)

        await self._store.write("note the outcome of an order", work)

    async def forget(self, key: str) -> None:
        def work(connection: sqlite3.Connection, _tips: Tips) -> None:
            orders_sqlite.forget(connection, key=key)

        await self._store.write("delete an order", work)
