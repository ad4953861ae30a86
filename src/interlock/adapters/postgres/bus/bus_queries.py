"""SQL that reads subscriptions, inboxes, deliveries and delayed broadcasts. A damaged row hides no other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.broadcast_rows import broadcast_from_row, crc_as_int32
from interlock.adapters.store_rules.byte_pages import first_page
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast, delivery_order
from interlock.broadcast.record import ReceivedBroadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.ports import Delivery

encode_json = msgspec.json.Encoder().encode
_decode_delayed = msgspec.json.Decoder(DelayedBroadcast).decode
_decode_dead_letter = msgspec.json.Decoder(BroadcastDeadLetter).decode

SELECT_INBOX = "select position, hops, crc, body from inbox join broadcasts on position = inbox.broadcast"
_SELECT_SUBSCRIPTION = "select crew, agent, pattern, silent, origin from subscriptions"
_SELECT_DELIVERY = (
    "select number, crew, agent, attempts, position, hops, crc, body"
    " from deliveries join broadcasts on position = deliveries.broadcast"
)
SELECT_ENTRY = "select crc, body from delayed"
SELECT_DEAD_LETTER = "select body from dead"

# Rows of one query for a page. Pages end by bytes; this bounds what is read beyond them.
_FETCHED_MAX = 50


def broadcasts_received(rows: Iterable[tuple[Any, ...]]) -> Iterator[ReceivedBroadcast]:
    for position, hops, crc, body in rows:
        if (broadcast := broadcast_from_row(position, crc, body)) is not None:
            yield ReceivedBroadcast(broadcast=broadcast, hops=hops)


def subscriptions(
    connection: PostgresConnection, test: str = "", values: tuple[object, ...] = ()
) -> list[AgentSubscription]:
    query = f"{_SELECT_SUBSCRIPTION} {test} order by 1, 2, 3"
    return [
        AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=silent, origin=origin)
        for crew, agent, pattern, silent, origin in connection.execute(query, values)
    ]


def crew_sha(connection: PostgresConnection, *, crew: str) -> str:
    found = connection.execute("select sha from crew_heads where crew = %s", (crew,)).fetchone()
    return str(found[0]) if found is not None else ""


def agents_with_unread(connection: PostgresConnection) -> list[tuple[str, str]]:
    found = connection.execute("select crew, agent from mailboxes where unread > 0 order by 1, 2")
    return [(crew, agent) for crew, agent in found]


def entry_from_row(crc: int, body: bytes) -> DelayedBroadcast | None:
    if crc_as_int32(body) != crc:
        return None
    try:
        return _decode_delayed(body)
    except ValueError:
        return None


def entries(connection: PostgresConnection, test: str, values: tuple[object, ...]) -> Iterator[DelayedBroadcast]:
    for crc, body in connection.execute(f"{SELECT_ENTRY} {test}", values):
        if (entry := entry_from_row(crc, body)) is not None:
            yield entry


def list_delayed(connection: PostgresConnection, *, limit: int | None = None) -> list[DelayedBroadcast]:
    return sorted(entries(connection, "order by due_at, number limit %s", (limit,)), key=delivery_order)


def ids_of_delayed(connection: PostgresConnection, *, limit: int) -> list[str]:
    query = "select id from delayed order by due_at, type, id limit %s"
    return [id_ for (id_,) in connection.execute(query, (limit,))]


def page_of_delayed(connection: PostgresConnection, *, ids: Sequence[str]) -> tuple[list[DelayedBroadcast], int]:
    """A page of those that still exist, and how many ids it used."""
    rows, used = _bodies(connection, "select id, crc, body from delayed where id = any(%s)", ids)
    return [entry for entry in (entry_from_row(*row[1:]) for row in rows) if entry is not None], used


def dead_letter_numbers(connection: PostgresConnection, *, limit: int) -> list[int]:
    query = "select number from dead order by number desc limit %s"
    return [number for (number,) in connection.execute(query, (limit,))]


def page_of_dead_letters(
    connection: PostgresConnection, *, ids: Sequence[int]
) -> tuple[list[BroadcastDeadLetter], int]:
    rows, used = _bodies(connection, "select number, body from dead where number = any(%s)", ids)
    return letters_from_rows(row[1:] for row in rows), used


def _bodies(connection: PostgresConnection, query: str, ids: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a page in the order of the ids, and how many ids it used."""
    page = list(first_page(_rows_by_id(connection, query, ids), lambda row: len(row[-1]) if row is not None else 0))
    return [row for row in page if row is not None], len(page)


def _rows_by_id(connection: PostgresConnection, query: str, ids: Sequence[Any]) -> Iterator[tuple[Any, ...] | None]:
    for start in range(0, len(ids), _FETCHED_MAX):
        some = list(ids[start : start + _FETCHED_MAX])
        found = {row[0]: row for row in connection.execute(query, (some,))}
        yield from (found.get(each) for each in some)


def due_entries(connection: PostgresConnection, *, now: int, limit: int) -> list[DelayedBroadcast]:
    return sorted(islice(_due_entries(connection, now, limit), limit), key=delivery_order)


def _due_entries(connection: PostgresConnection, now: int, limit: int) -> Iterator[DelayedBroadcast]:
    """Those due, in parts: damaged ones at the front must not hide the others."""
    query = f"{SELECT_ENTRY} where due_at <= %s order by due_at, number limit %s offset %s"
    for offset in count(0, limit):
        rows = connection.execute(query, (now, limit, offset)).fetchall()
        yield from (entry for entry in (entry_from_row(*row) for row in rows) if entry is not None)
        if len(rows) < limit:
            return


def next_due(connection: PostgresConnection, *, now: int) -> int | None:
    query = (
        "select least((select min(due_at) from delayed where due_at > %s),"
        " (select min(try_at) from deliveries where try_at > %s))"
    )
    found = connection.execute(query, (now, now)).fetchone()
    return found[0] if found is not None else None


def active_agents(connection: PostgresConnection, *, run: str, crew: str) -> set[str]:
    """The agents that are at work in a run."""
    found = connection.execute("select agents from active where run = %s and crew = %s", (run, crew)).fetchone()
    return set(found[0]) if found is not None else set()


def agents_with_deliveries(connection: PostgresConnection, *, now: int) -> list[tuple[str, str]]:
    query = "select distinct crew, agent from deliveries where try_at <= %s order by 1, 2"
    return [(crew, agent) for crew, agent in connection.execute(query, (now,))]


def first_delivery(connection: PostgresConnection, test: str, values: tuple[object, ...]) -> Delivery | None:
    """The oldest delivery that a test selects; damaged ones are passed over."""
    query = f"{_SELECT_DELIVERY} where {test} order by deliveries.broadcast, number"
    sound = (
        Delivery(number=number, crew=crew, agent=agent, attempts=attempts, heard=received)
        for number, crew, agent, attempts, *kept in connection.execute(f"{query} limit %s", (*values, _FETCHED_MAX))
        for received in broadcasts_received((tuple(kept),))
    )
    return next(sound, None)


def dead_letters(connection: PostgresConnection, *, limit: int) -> list[BroadcastDeadLetter]:
    return letters_from_rows(connection.execute(f"{SELECT_DEAD_LETTER} order by number desc limit %s", (limit,)))


def letters_from_rows(rows: Iterable[tuple[Any, ...]]) -> list[BroadcastDeadLetter]:
    return [letter for (body,) in rows if (letter := _letter(body)) is not None]


def _letter(body: bytes) -> BroadcastDeadLetter | None:
    """A dead letter; None if it is damaged."""
    try:
        return _decode_dead_letter(body)
    except ValueError:
        return None


def damage_in_delayed(connection: PostgresConnection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    rows = connection.execute("select id, crc, body from delayed order by number")
    return [f"the delayed signal '{id_}' is damaged" for id_, crc, body in rows if entry_from_row(crc, body) is None]


def damage_in_dead_letters(connection: PostgresConnection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    rows = connection.execute("select id, body from dead order by number")
    return [f"the dead letter '{id_}' is damaged" for id_, body in rows if _letter(body) is None]
