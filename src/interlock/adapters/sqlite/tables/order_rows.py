"""SQL on orders to the process that drives a run, and their outcomes.

Rule 1: an order is open while it has no outcome. The first outcome counts.
Rule 2: a damaged row is never returned: no process carries it out, and its sender gets an error.
"""

import sqlite3
from collections.abc import Callable

import msgspec

from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.errors import OrderLost, UsageError
from interlock.ids import root_of
from interlock.limits import ORDER_KEPT_MS, ORDERS_PER_RUN_MAX
from interlock.ports import OrderOutcome, OrderReceipt, RunOrder

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OrderOutcome).decode

_RUNS_OF_ORDER = "(select 1 from runs where runs.run in (orders.run, orders.root)"
_COLUMNS = "orders.key, orders.run, orders.kind, orders.body, orders.ordered_by, orders.at"


def post(connection: sqlite3.Connection, *, order: RunOrder) -> OrderReceipt:
    connection.execute("delete from orders where at < ?", (order.at - ORDER_KEPT_MS,))
    if connection.execute("select 1 from orders where key = ?", (order.key,)).fetchone() is not None:
        return OrderReceipt(outcome=outcome(connection, key=order.key))
    query = "select count(*) from orders where run = ? and outcome = x''"
    if connection.execute(query, (order.run,)).fetchone()[0] >= ORDERS_PER_RUN_MAX:
        raise too_many_orders_error(order.run)
    connection.execute(
        "insert into orders (key, run, root, kind, body, ordered_by, at, outcome) values (?, ?, ?, ?, ?, ?, ?, x'')",
        (order.key, order.run, root_of(order.run), order.kind, order.body, order.by, order.at),
    )
    return OrderReceipt()


def too_many_orders_error(run: str) -> UsageError:
    return UsageError(f"run '{run}' has {ORDERS_PER_RUN_MAX} open orders; check the process that drives it")


def orders_without_owner(connection: sqlite3.Connection, *, is_alive: Callable[[str], bool]) -> list[RunOrder]:
    """Those for runs without a living owner, in trees without one."""
    owners = connection.execute(
        "select distinct runs.owner from orders join runs on runs.run in (orders.run, orders.root)"
        " where orders.outcome = x''"
    ).fetchall()
    alive = [owner for (owner,) in owners if is_alive(owner)]
    owned = "runs.owner in (select value from json_each(?))"
    return _open_orders(connection, f"not exists {_RUNS_OF_ORDER} and {owned})", msgspec.json.encode(alive).decode())


def orders_for(connection: sqlite3.Connection, *, owner: str) -> list[RunOrder]:
    return _open_orders(connection, f"exists {_RUNS_OF_ORDER} and runs.owner = ?)", owner)


def _open_orders(connection: sqlite3.Connection, test: str, value: str) -> list[RunOrder]:
    query = (
        f"select {_COLUMNS} from orders where outcome = x'' and {intact_condition('orders')}"  # noqa: S608 - constants
        f" and {test} order by number"
    )
    return [
        RunOrder(key=key, run=run, kind=kind, body=body, by=ordered_by, at=at)
        for key, run, kind, body, ordered_by, at in connection.execute(query, (value,)).fetchall()
    ]


def outcome(connection: sqlite3.Connection, *, key: str) -> OrderOutcome | None:
    query = f"select outcome from orders where key = ? and {intact_condition('orders')}"  # noqa: S608 - constants
    found = connection.execute(query, (key,)).fetchone()
    if found is None:
        raise OrderLost(key)
    return _decode(found[0]) if found[0] else None


def settle(connection: sqlite3.Connection, *, key: str, outcome: OrderOutcome) -> None:
    connection.execute("update orders set outcome = ? where key = ? and outcome = x''", (_encode(outcome), key))


def forget(connection: sqlite3.Connection, *, key: str) -> None:
    connection.execute("delete from orders where key = ?", (key,))
