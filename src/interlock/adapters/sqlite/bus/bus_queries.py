"""SQL that reads subscriptions, inboxes, deliveries and delayed broadcasts.

Rule: every broadcast and every delayed one has a crc, and every row a seal (`sealed_tables`). A damaged row hides no
other, and the doctor names it.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from interlock.adapters.sqlite.bus.announcements import INTACT_BROADCAST
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.broadcast_rows import broadcast_from_row, crc_as_int32
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast, delivery_order
from interlock.broadcast.record import ReceivedBroadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.ports import Delivery

encode_json = msgspec.json.Encoder().encode
_decode_delayed = msgspec.json.Decoder(DelayedBroadcast).decode
decode_dead_letter = msgspec.json.Decoder(BroadcastDeadLetter).decode

SELECT_INBOX = (
    "select broadcasts.position, hops, crc, body from inbox join broadcasts on position = inbox.broadcast"  # noqa: S608 - constants
    f" where {intact_condition('inbox')} and {INTACT_BROADCAST}"
)
INTACT_SUBSCRIPTION = intact_condition("subscriptions")
SELECT_ENTRY = f"select crc, body from delayed where {intact_condition('delayed')}"  # noqa: S608 - constants
SELECT_DEAD_LETTER = f"select body from dead where {intact_condition('dead')}"  # noqa: S608 - constants


def broadcasts_received(rows: Sequence[tuple[int, int, int, bytes]]) -> Iterator[ReceivedBroadcast]:
    for position, hops, crc, body in rows:
        if (broadcast := broadcast_from_row(position, crc, body)) is not None:
            yield ReceivedBroadcast(broadcast=broadcast, hops=hops)


def subscriptions(
    connection: sqlite3.Connection, test: str = "", values: tuple[object, ...] = ()
) -> list[AgentSubscription]:
    query = (
        "select crew, agent, pattern, silent, origin from subscriptions "  # noqa: S608 - constants
        f"where {INTACT_SUBSCRIPTION} {test} order by 1, 2, 3"
    )
    rows = connection.execute(query, values)
    return [
        AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=bool(silent), origin=origin)
        for crew, agent, pattern, silent, origin in rows
    ]


def entry_from_row(crc: int, body: bytes) -> DelayedBroadcast | None:
    if crc_as_int32(body) != crc:
        return None
    try:
        return _decode_delayed(body)
    except ValueError:
        return None


def list_delayed(connection: sqlite3.Connection, *, limit: int | None = None) -> list[DelayedBroadcast]:
    query = f"{SELECT_ENTRY} order by due_at limit ?"
    rows = connection.execute(query, (-1 if limit is None else limit,)).fetchall()
    return sorted((each for each in (entry_from_row(*row) for row in rows) if each is not None), key=delivery_order)


def ids_of_delayed(connection: sqlite3.Connection, *, limit: int) -> list[str]:
    query = "select id from delayed order by due_at, type, id limit ?"
    return [id_ for (id_,) in connection.execute(query, (limit,)).fetchall()]


def page_of_delayed(connection: sqlite3.Connection, *, ids: Sequence[str]) -> tuple[list[DelayedBroadcast], int]:
    """A page of those that still exist, and how many ids it used."""
    rows, used = _bodies(connection, f"{SELECT_ENTRY} and id = ?", ids)
    return [entry for entry in (entry_from_row(*row) for row in rows) if entry is not None], used


def dead_letter_numbers(connection: sqlite3.Connection, *, limit: int) -> list[int]:
    query = "select number from dead order by number desc limit ?"
    return [number for (number,) in connection.execute(query, (limit,)).fetchall()]


def page_of_dead_letters(
    connection: sqlite3.Connection, *, ids: Sequence[int]
) -> tuple[list[BroadcastDeadLetter], int]:
    rows, used = _bodies(connection, f"{SELECT_DEAD_LETTER} and number = ?", ids)
    return [decode_dead_letter(body) for (body,) in rows], used


def _bodies(connection: sqlite3.Connection, query: str, ids: Sequence[object]) -> tuple[list[tuple[Any, ...]], int]:
    found = (connection.execute(query, (each,)).fetchone() for each in ids)
    page = list(first_page(found, lambda row: len(row[-1]) if row is not None else 0))
    return [row for row in page if row is not None], len(page)


def due_entries(connection: sqlite3.Connection, *, now: int, limit: int) -> list[DelayedBroadcast]:
    rows = connection.execute(f"{SELECT_ENTRY} and due_at <= ? order by due_at", (now,))
    sound = (each for each in (entry_from_row(*row) for row in rows) if each is not None)
    return sorted(islice(sound, limit), key=delivery_order)


def next_due(connection: sqlite3.Connection, *, now: int) -> int | None:
    query = (
        f"select min(due_at) from delayed where due_at > ? and {intact_condition('delayed')}"  # noqa: S608 - constants
        f" union all select min(try_at) from deliveries where try_at > ? and {intact_condition('deliveries')}"
    )
    return min((at for (at,) in connection.execute(query, (now, now)) if at is not None), default=None)


def agents_with_deliveries(connection: sqlite3.Connection, *, now: int) -> list[tuple[str, str]]:
    query = (
        "select distinct crew, agent from deliveries where try_at <= ? "  # noqa: S608 - constants
        f"and {intact_condition('deliveries')} order by 1, 2"
    )
    return connection.execute(query, (now,)).fetchall()


def deliveries(connection: sqlite3.Connection, test: str, values: tuple[object, ...], limit: int = 1) -> list[Delivery]:
    columns = "number, crew, agent, attempts, position, hops, crc, body"
    tables = "deliveries join broadcasts on position = deliveries.broadcast"
    test = f"{test} and {intact_condition('deliveries')} and {INTACT_BROADCAST}"
    query = f"select {columns} from {tables} where {test} order by deliveries.broadcast, number"  # noqa: S608 - constants
    sound = (
        Delivery(number=number, crew=crew, agent=agent, attempts=attempts, heard=received)
        for number, crew, agent, attempts, *kept in connection.execute(query, values)
        for received in broadcasts_received((tuple(kept),))
    )
    return list(islice(sound, limit))


def dead_letters(connection: sqlite3.Connection, *, limit: int) -> list[BroadcastDeadLetter]:
    rows = connection.execute(f"{SELECT_DEAD_LETTER} order by number desc limit ?", (limit,)).fetchall()
    return [decode_dead_letter(body) for (body,) in rows]


def damage_in_delayed(connection: sqlite3.Connection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    rows = connection.execute("select id, crc, body from delayed")
    return [f"the delayed signal '{row[0]}' is damaged" for row in rows if not entry_from_row(*row[1:])]
