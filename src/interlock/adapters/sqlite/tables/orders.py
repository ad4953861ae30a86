"""Orders to the process that drives a run, in a table of the store's database, by the same writer.

Rule: an order is carried out in the transaction of the record that it causes (`atomic_writes`). All else is
written in transactions of its own.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial

from interlock.adapters.sqlite.runs.run_head import read_stored_head
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables import order_rows
from interlock.ports import NO_OWNER, OrderOutcome, OrderReceipt, RunOrder


class SqliteOrders:
    """`Orders` beside the journal."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    @property
    def owner(self) -> str:
        return self._store.owner

    async def post(self, order: RunOrder) -> OrderReceipt:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> OrderReceipt:
            read_stored_head(connection, order.run)
            return order_rows.post(connection, order=order)

        return await self._store.write(f"post an order for run '{order.run}'", work, len(order.body))

    async def orders_for(self, owner: str) -> Sequence[RunOrder]:
        if owner != NO_OWNER:
            return await self._store.read("read orders", partial(order_rows.orders_for, owner=owner))
        work = partial(order_rows.orders_without_owner, is_alive=self._store.is_alive)
        return await self._store.read("read orders that no process takes", work)

    async def outcome(self, key: str) -> OrderOutcome | None:
        return await self._store.read("read the outcome of an order", partial(order_rows.outcome, key=key))

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            order_rows.settle(connection, key=key, outcome=outcome)

        await self._store.write("store the outcome of an order", work)

    async def forget(self, key: str) -> None:
        def work(connection: sqlite3.Connection, _cache: WriterCache) -> None:
            order_rows.forget(connection, key=key)

        await self._store.write("delete an order", work)
