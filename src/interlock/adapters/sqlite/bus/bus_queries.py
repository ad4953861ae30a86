"""SQL that reads broadcasts, subscriptions, inboxes, deliveries and delayed broadcasts.

Rule: every broadcast and every delayed one has a crc, and every row a seal (`sealed_tables`). A damaged row hides no
other, and the doctor names it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.bus_tables import BroadcastAge
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast, delivery_order
from interlock.broadcast.naming import NAME_CHARS
from interlock.broadcast.pattern import matches
from interlock.broadcast.presence import PresenceChange, broadcasts_of, decode_presence
from interlock.broadcast.record import Broadcast, ReceivedBroadcast, decode_broadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.limits import PAGE_BYTES_MAX
from interlock.ports import Delivery

# Rows per page when looking for broadcasts of a pattern.
PAGE = 1_000

encode_json = msgspec.json.Encoder().encode
_decode_delayed = msgspec.json.Decoder(DelayedBroadcast).decode
decode_dead_letter = msgspec.json.Decoder(BroadcastDeadLetter).decode

_INTACT_BROADCAST = intact_condition("broadcasts")

# All broadcasts; a row whose `quiet` is 1 holds several.
ANNOUNCEMENTS = (
    "select position, crc, body, quiet from (select position, crc, body, 0 as quiet from broadcasts"  # noqa: S608 - constants
    f" where {_INTACT_BROADCAST} union all select position, crc, body, 1 as quiet from lifecycle)"
)
_NEWEST = "coalesce((select max(position) from {}), 0)"
_HEAD = f"select max({_NEWEST.format('broadcasts')}, {_NEWEST.format('lifecycle')})"
SELECT_INBOX = (
    "select broadcasts.position, hops, crc, body from inbox join broadcasts on position = inbox.broadcast"  # noqa: S608 - constants
    f" where {intact_condition('inbox')} and {_INTACT_BROADCAST}"
)
INTACT_SUBSCRIPTION = intact_condition("subscriptions")
SELECT_ENTRY = f"select crc, body from delayed where {intact_condition('delayed')}"  # noqa: S608 - constants
SELECT_DEAD_LETTER = f"select body from dead where {intact_condition('dead')}"  # noqa: S608 - constants


def crc_as_int32(body: bytes, salt: int = 0) -> int:
    crc = crc32(body) ^ (salt & 0xFFFF_FFFF)
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def broadcast_from_row(position: int, crc: int, body: bytes) -> Broadcast | None:
    """A broadcast; None if it is damaged."""
    if crc_as_int32(body, position) != crc:
        return None
    try:
        return decode_broadcast(body)
    except ValueError:
        return None


def presence_from_row(position: int, crc: int, body: bytes) -> PresenceChange | None:
    if crc_as_int32(body, position) != crc:
        return None
    try:
        return decode_presence(body)
    except ValueError:
        return None


def broadcasts_in_row(position: int, crc: int, body: bytes, quiet: int) -> list[tuple[int, Broadcast]]:
    """The broadcasts in a row of `ANNOUNCEMENTS`, each with its position; none if it is damaged."""
    if not quiet:
        broadcast = broadcast_from_row(position, crc, body)
        return [(position, broadcast)] if broadcast is not None else []
    lifecycle = presence_from_row(position, crc, body)
    broadcasts = broadcasts_of(lifecycle) if lifecycle is not None else []
    return list(enumerate(broadcasts, position - len(broadcasts) + 1))


def lines_in_row(position: int, crc: int, body: bytes, quiet: int) -> list[tuple[int, bytes]]:
    """The same as lines of JSON, without line ends."""
    if not quiet:
        return [(position, body)] if crc_as_int32(body, position) == crc else []
    return [(at, encode_broadcast(each)) for at, each in broadcasts_in_row(position, crc, body, quiet)]


def head(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_HEAD).fetchone()[0])


def presence_positions(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The positions of those ids that are presence changes without subscribers; reads all of their rows."""
    if not ids:
        return {}
    wanted, names = set(ids), encode_json(sorted({each[:NAME_CHARS] for each in ids})).decode()
    name = f"cast(substr(body, 3, {NAME_CHARS}) as text)"
    query = f"{ANNOUNCEMENTS} where quiet and {name} in (select value from json_each(?))"  # noqa: S608 - constants
    found = [each for row in connection.execute(query, (names,)) for each in broadcasts_in_row(*row)]
    return {broadcast.id: position for position, broadcast in found if broadcast.id in wanted}


def age_of_row(row: tuple[int, int, bytes, int]) -> BroadcastAge:
    found = broadcasts_in_row(*row)
    return BroadcastAge(row[0], len(found), found[0][1].created_at if found else None)


def broadcasts_received(rows: Sequence[tuple[int, int, int, bytes]]) -> Iterator[ReceivedBroadcast]:
    for position, hops, crc, body in rows:
        if (broadcast := broadcast_from_row(position, crc, body)) is not None:
            yield ReceivedBroadcast(broadcast=broadcast, hops=hops)


def newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> list[Broadcast]:
    """Newest pages first, until there are enough."""
    found: list[Broadcast] = []
    before = 2**63 - 1
    size = limit if pattern is None else PAGE
    while len(found) < limit:
        rows = connection.execute(
            f"{ANNOUNCEMENTS} where position < ? order by position desc limit ?", (before, size)
        ).fetchall()
        if not rows:
            break
        before = rows[-1][0]
        sound = [each for row in rows for _, each in reversed(broadcasts_in_row(*row))]
        found += [each for each in sound if pattern is None or matches(pattern, each.type)]
    return found[:limit][::-1]


def position_before_newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> int:
    """The position before the newest `limit` broadcasts; holds one row at a time."""
    position, left = head(connection), limit
    with closing(connection.execute(f"{ANNOUNCEMENTS} order by position desc")) as rows:
        for row in rows:
            for at, broadcast in reversed(broadcasts_in_row(*row)):
                if left == 0:
                    return position
                if pattern is None or matches(pattern, broadcast.type):
                    left -= 1
                position = at - 1
    return position


def since(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, Broadcast]]:
    with closing(connection.execute(f"{ANNOUNCEMENTS} where position > ? order by position", (position,))) as rows:
        return list(islice(_first_page_of_rows(rows, position), limit))


def _first_page_of_rows(rows: Iterable[tuple[int, int, bytes, int]], position: int) -> Iterator[tuple[int, Broadcast]]:
    """The broadcasts in rows, until there is a page of them."""
    size = 0
    for row in rows:
        found = [each for each in broadcasts_in_row(*row) if each[0] > position]
        yield from found
        size += len(row[2]) if found else 0
        if size >= PAGE_BYTES_MAX:
            return


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
    test = f"{test} and {intact_condition('deliveries')} and {_INTACT_BROADCAST}"
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


def damage_in_bus_tables(connection: sqlite3.Connection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    rows = connection.execute(ANNOUNCEMENTS)
    found = [
        f"the broadcast at position {row[0]} is damaged: its crc does not match"
        for row in rows
        if not broadcasts_in_row(*row)
    ]
    later = connection.execute("select id, crc, body from delayed")
    return found + [f"the delayed signal '{row[0]}' is damaged" for row in later if not entry_from_row(*row[1:])]
