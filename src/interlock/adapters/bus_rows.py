"""SQL on broadcasts, subscriptions, inboxes, deliveries and the queue of signals for later.

Rule 1: who hears what is remembered beside the writing connection, and read again when another process changed it.
Rule 2: a crc on every broadcast and every signal in the queue, and a seal on every row (`sealed_tables`); a damaged one
hides no other, and the doctor names it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.bus_rules import Aged
from interlock.adapters.pages import paged
from interlock.adapters.remembered_sqlite import Remembered, add_one
from interlock.adapters.sealed_tables import whole
from interlock.broadcast.delayed import Dead, Delayed, in_order
from interlock.broadcast.lifecycle import Lifecycle, broadcasts_of, packed, unpacked
from interlock.broadcast.naming import NAME_CHARS
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast, Heard, decoded, encoded
from interlock.broadcast.subscriptions import Hearer, Subscribed
from interlock.limits import DEAD_LETTERS_MAX, PAGE_BYTES_MAX
from interlock.ports import Delivery

# Read at a time by whoever looks for broadcasts of a pattern.
PAGE = 1_000

_encode = msgspec.json.Encoder().encode
_decode_delayed = msgspec.json.Decoder(Delayed).decode
_decode_dead = msgspec.json.Decoder(Dead).decode

_WHOLE_BROADCAST = whole("broadcasts")

# Everything that is kept; a row whose `quiet` is 1 stands for several.
ANNOUNCEMENTS = (
    "select position, crc, body, quiet from (select position, crc, body, 0 as quiet from broadcasts"  # noqa: S608 - constants
    f" where {_WHOLE_BROADCAST} union all select position, crc, body, 1 as quiet from lifecycle)"
)
_NEWEST = "coalesce((select max(position) from {}), 0)"
_HEAD = f"select max({_NEWEST.format('broadcasts')}, {_NEWEST.format('lifecycle')})"
_HEARD = (
    "select broadcasts.position, hops, crc, body from inbox join broadcasts on position = inbox.broadcast"  # noqa: S608 - constants
    f" where {whole('inbox')} and {_WHOLE_BROADCAST}"
)
SUBSCRIBED = whole("subscriptions")
_DELAYED = f"select crc, body from delayed where {whole('delayed')}"  # noqa: S608 - constants
_DEAD = f"select body from dead where {whole('dead')}"  # noqa: S608 - constants


def signed_crc(body: bytes, salt: int = 0) -> int:
    crc = crc32(body) ^ (salt & 0xFFFF_FFFF)
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def opened(position: int, crc: int, body: bytes) -> Broadcast | None:
    """None if it is damaged."""
    if signed_crc(body, position) != crc:
        return None
    try:
        return decoded(body)
    except ValueError:
        return None


def opened_lifecycle(position: int, crc: int, body: bytes) -> Lifecycle | None:
    if signed_crc(body, position) != crc:
        return None
    try:
        return unpacked(body)
    except ValueError:
        return None


def expanded(position: int, crc: int, body: bytes, quiet: int) -> list[tuple[int, Broadcast]]:
    """The broadcasts that a row of `ANNOUNCEMENTS` stands for, each with its position; none if it is damaged."""
    if not quiet:
        broadcast = opened(position, crc, body)
        return [(position, broadcast)] if broadcast is not None else []
    lifecycle = opened_lifecycle(position, crc, body)
    broadcasts = broadcasts_of(lifecycle) if lifecycle is not None else []
    return list(enumerate(broadcasts, position - len(broadcasts) + 1))


def lines(position: int, crc: int, body: bytes, quiet: int) -> list[tuple[int, bytes]]:
    """The same as lines of JSON, without their ends."""
    if not quiet:
        return [(position, body)] if signed_crc(body, position) == crc else []
    return [(at, encoded(each)) for at, each in expanded(position, crc, body, quiet)]


class SqliteTables:
    """`bus_rules.Tables` on a connection that is in a transaction."""

    def __init__(self, connection: sqlite3.Connection, remembered: Remembered) -> None:
        self._connection, self._remembered = connection, remembered
        self._execute = connection.execute
        remembered.renew(connection)

    # Broadcasts

    def keep(self, broadcast: Broadcast, hops: int) -> int | None:
        body, position = encoded(broadcast), self.head() + 1
        done = self._execute(
            "insert or ignore into broadcasts (position, id, hops, crc, body) values (?, ?, ?, ?, ?)",
            (position, broadcast.id, hops, signed_crc(body, position), body),
        )
        if done.rowcount != 1:
            return None
        self._remembered.head = position
        return position

    def position_of(self, id: str) -> int | None:  # noqa: A002 - ids are called id everywhere
        found = self._execute("select position from broadcasts where id = ?", (id,)).fetchone()
        return int(found[0]) if found is not None else None

    def head(self) -> int:
        if self._remembered.head is None:
            self._remembered.head = head(self._connection)
        return self._remembered.head

    def keep_quietly(self, lifecycle: Lifecycle) -> None:
        body, position = packed(lifecycle), self.head() + lifecycle.count
        self._execute(
            "insert into lifecycle (position, crc, body) values (?, ?, ?)",
            (position, signed_crc(body, position), body),
        )
        self._remembered.head = position

    def kept_quietly(self, ids: Sequence[str]) -> Set[str]:
        return positions_of_quiet(self._connection, ids).keys()

    def page(self, after: int, limit: int) -> Sequence[Aged]:
        query = f"{ANNOUNCEMENTS} where position > ? order by position limit ?"
        return [_aged(row) for row in self._execute(query, (after, limit))]

    def awaited(self, first: int, last: int) -> Set[int]:
        tables = ("select broadcast from inbox", "select broadcast from deliveries")
        query = " union ".join(f"{each} where broadcast between ? and ?" for each in tables)
        return {position for (position,) in self._execute(query, (first, last) * 2)}

    def forget(self, positions: Iterable[int]) -> None:
        for table in ("broadcasts", "lifecycle"):
            query = f"delete from {table} where position = ?"  # noqa: S608 - constants
            self._connection.executemany(query, [(each,) for each in positions])

    def has_hearers(self) -> bool:
        return len(self._remembered.directory(self._connection)) > 0

    def hearers(self, kind: str, crew: str, agent: str) -> tuple[Hearer, ...]:
        return self._remembered.directory(self._connection).hearers(kind, crew=crew, agent=agent)

    # Inboxes

    def put(self, crew: str, agent: str, position: int) -> int:
        done = self._execute(
            "insert or ignore into inbox (crew, agent, broadcast, taken) values (?, ?, ?, '')", (crew, agent, position)
        )
        return self._count(crew, agent, done.rowcount)

    def _count(self, crew: str, agent: str, more: int) -> int:
        found = self._execute(
            "insert into mailboxes (crew, agent, unread) values (?, ?, ?)"
            " on conflict do update set unread = unread + excluded.unread returning unread",
            (crew, agent, more),
        ).fetchone()
        return int(found[0])

    def oldest_unread(self, crew: str, agent: str) -> Heard | None:
        found = self._execute(
            f"{_HEARD} and crew = ? and agent = ? and taken = '' order by inbox.broadcast limit 1", (crew, agent)
        ).fetchone()
        if found is None:
            return None
        self._execute("delete from inbox where crew = ? and agent = ? and broadcast = ?", (crew, agent, found[0]))
        self._count(crew, agent, -1)
        heard = list(_heard((found,)))
        return heard[0] if heard else None

    def mark(self, crew: str, agent: str, key: str, limit: int) -> None:
        done = self._execute(
            "update inbox set taken = ? where number in (select number from inbox"  # noqa: S608 - constants
            f" where crew = ? and agent = ? and taken = '' and {whole('inbox')} order by broadcast limit ?)",
            (key, crew, agent, limit),
        )
        if done.rowcount:
            self._count(crew, agent, -done.rowcount)

    def marked(self, key: str) -> tuple[Heard, ...]:
        found = self._execute(f"{_HEARD} and taken = ? order by inbox.broadcast", (key,)).fetchall()
        return tuple(_heard(found))

    def strike(self, key: str) -> None:
        self._execute("delete from inbox where taken = ?", (key,))

    def unmark(self, key: str) -> None:
        found = self._execute(
            "select crew, agent, count(*) from inbox where taken = ? group by 1, 2", (key,)
        ).fetchall()
        self._execute("update inbox set taken = '' where taken = ?", (key,))
        for crew, agent, number in found:
            self._count(crew, agent, number)

    # Deliveries

    def queue(self, crew: str, agent: str, position: int) -> int:
        self._execute(
            "insert or ignore into deliveries (crew, agent, broadcast, attempts, try_at) values (?, ?, ?, 0, 0)",
            (crew, agent, position),
        )
        query = "select count(*) from deliveries where crew = ? and agent = ?"
        return int(self._execute(query, (crew, agent)).fetchone()[0])

    def oldest_queued(self, crew: str, agent: str) -> Delivery | None:
        return next(iter(deliveries(self._connection, "crew = ? and agent = ?", (crew, agent))), None)

    def delivery(self, number: int) -> Delivery | None:
        return next(iter(deliveries(self._connection, "number = ?", (number,))), None)

    def drop_delivery(self, number: int) -> None:
        self._execute("delete from deliveries where number = ?", (number,))

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None:
        self._execute("update deliveries set attempts = ?, try_at = ? where number = ?", (attempts, try_at, number))

    def retry_at_once(self, after: int) -> None:
        self._execute("update deliveries set try_at = 0 where try_at > ?", (after,))

    # Who is at work, and how much was announced

    def activate(self, crew: str, agent: str, run: str) -> bool:
        done = self._execute("insert or ignore into active (crew, agent, run) values (?, ?, ?)", (crew, agent, run))
        self._remembered.activated(crew, agent, run)
        return done.rowcount == 1

    def deactivate(self, crew: str, agent: str, run: str) -> bool:
        done = self._execute("delete from active where crew = ? and agent = ? and run = ?", (crew, agent, run))
        self._remembered.deactivated(crew, agent, run)
        return done.rowcount == 1

    def is_active_elsewhere(self, crew: str, agent: str, run: str) -> bool:
        return self._remembered.is_active_elsewhere(self._connection, crew, agent, run)

    def counted(self, crew: str, agent: str) -> tuple[int, int]:
        query = f"select start, number from announced where crew = ? and agent = ? and {whole('announced')}"  # noqa: S608 - constants
        found = self._execute(query, (crew, agent)).fetchone()
        return (found[0], found[1]) if found is not None else (0, 0)

    def count(self, crew: str, agent: str, start: int, number: int) -> None:
        self._execute(
            "insert or replace into announced (crew, agent, start, number) values (?, ?, ?, ?)",
            (crew, agent, start, number),
        )

    # Subscriptions

    def subscribed(self, crew: str, agent: str | None = None) -> Sequence[Subscribed]:
        if agent is None:
            return subscriptions(self._connection, "and crew = ?", (crew,))
        return subscriptions(self._connection, "and crew = ? and agent = ?", (crew, agent))

    def put_subscription(self, subscribed: Subscribed) -> None:
        self._execute(
            "insert or replace into subscriptions (crew, agent, pattern, silent, origin) values (?, ?, ?, ?, ?)",
            (*subscribed.key, int(subscribed.silent), subscribed.origin),
        )
        self._remembered.changed(self._connection, added=subscribed)

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool:
        key = (crew, agent, pattern)
        done = self._execute("delete from subscriptions where crew = ? and agent = ? and pattern = ?", key)
        if done.rowcount:
            self._remembered.changed(self._connection, removed=key)
        return done.rowcount == 1

    def set_crew(self, crew: str, sha: str) -> None:
        self._execute("insert or replace into crew_heads (crew, sha) values (?, ?)", (crew, sha))

    # Signals for later

    def entry(self, id: str) -> Delayed | None:  # noqa: A002
        return self._entry("id = ?", (id,))

    def entry_of(self, kind: str, repeat_key: str) -> Delayed | None:
        return self._entry("type = ? and repeat_key = ?", (kind, repeat_key))

    def _entry(self, test: str, values: tuple[object, ...]) -> Delayed | None:
        found = self._execute(f"{_DELAYED} and {test}", values).fetchone()
        return opened_entry(*found) if found is not None else None

    def put_entry(self, entry: Delayed) -> None:
        body = _encode(entry)
        self._execute(
            "insert or replace into delayed (id, type, repeat_key, due_at, crc, body) values (?, ?, ?, ?, ?, ?)",
            (entry.id, entry.type, entry.repeat_key, entry.due_at, signed_crc(body), body),
        )
        self._note_delayed()

    def drop_entry(self, id: str) -> None:  # noqa: A002
        self._execute("delete from delayed where id = ?", (id,))
        self._note_delayed()

    def entries_ahead(self, now: int) -> Sequence[Delayed]:
        changed = "json_extract(cast(body as text), '$.updatedAt')"
        query = f"{_DELAYED} and due_at > ? and json_valid(cast(body as text)) and {changed} > ?"
        rows = self._execute(query, (now, now)).fetchall()
        return [each for each in (opened_entry(*row) for row in rows) if each is not None]

    def _note_delayed(self) -> None:
        add_one(self._connection, "delayed")

    # Dead letters

    def bury(self, dead: Dead) -> None:
        done = self._execute(
            "insert or replace into dead (id, crew, agent, body) values (?, ?, ?, ?)",
            (dead.id, dead.for_crew, dead.for_agent, _encode(dead)),
        )
        self._execute("delete from dead where number <= ?", ((done.lastrowid or 0) - DEAD_LETTERS_MAX,))

    def dead_under(self, id: str) -> Sequence[Dead]:  # noqa: A002
        found = self._execute(f"{_DEAD} and id = ? order by number", (id,)).fetchall()
        return [_decode_dead(body) for (body,) in found]

    def dig_up(self, id: str) -> None:  # noqa: A002
        self._execute("delete from dead where id = ?", (id,))


# Reading


def head(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_HEAD).fetchone()[0])


def positions_of_quiet(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """Of those of the ids that belong to waking and sleeping that nobody heard; looks at every row of it."""
    if not ids:
        return {}
    wanted, names = set(ids), _encode(sorted({each[:NAME_CHARS] for each in ids})).decode()
    name = f"cast(substr(body, 3, {NAME_CHARS}) as text)"
    query = f"{ANNOUNCEMENTS} where quiet and {name} in (select value from json_each(?))"  # noqa: S608 - constants
    found = [each for row in connection.execute(query, (names,)) for each in expanded(*row)]
    return {broadcast.id: position for position, broadcast in found if broadcast.id in wanted}


def _aged(row: tuple[int, int, bytes, int]) -> Aged:
    found = expanded(*row)
    return Aged(row[0], len(found), found[0][1].created_at if found else None)


def _heard(rows: Sequence[tuple[int, int, int, bytes]]) -> Iterator[Heard]:
    for position, hops, crc, body in rows:
        if (broadcast := opened(position, crc, body)) is not None:
            yield Heard(broadcast=broadcast, hops=hops)


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
        sound = [each for row in rows for _, each in reversed(expanded(*row))]
        found += [each for each in sound if pattern is None or matches(pattern, each.type)]
    return found[:limit][::-1]


def before_newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> int:
    """The position after which the newest stand, as many as that; one row is held at a time."""
    position, left = head(connection), limit
    with closing(connection.execute(f"{ANNOUNCEMENTS} order by position desc")) as rows:
        for row in rows:
            for at, broadcast in reversed(expanded(*row)):
                if left == 0:
                    return position
                if pattern is None or matches(pattern, broadcast.type):
                    left -= 1
                position = at - 1
    return position


def since(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, Broadcast]]:
    with closing(connection.execute(f"{ANNOUNCEMENTS} where position > ? order by position", (position,))) as rows:
        return list(islice(_paged(rows, position), limit))


def _paged(rows: Iterable[tuple[int, int, bytes, int]], position: int) -> Iterator[tuple[int, Broadcast]]:
    """What rows stand for, until there is a page of it."""
    size = 0
    for row in rows:
        found = [each for each in expanded(*row) if each[0] > position]
        yield from found
        size += len(row[2]) if found else 0
        if size >= PAGE_BYTES_MAX:
            return


def subscriptions(connection: sqlite3.Connection, test: str = "", values: tuple[object, ...] = ()) -> list[Subscribed]:
    query = f"select crew, agent, pattern, silent, origin from subscriptions where {SUBSCRIBED} {test} order by 1, 2, 3"  # noqa: S608 - constants
    rows = connection.execute(query, values)
    return [
        Subscribed(crew=crew, agent=agent, pattern=pattern, silent=bool(silent), origin=origin)
        for crew, agent, pattern, silent, origin in rows
    ]


def opened_entry(crc: int, body: bytes) -> Delayed | None:
    if signed_crc(body) != crc:
        return None
    try:
        return _decode_delayed(body)
    except ValueError:
        return None


def delayed(connection: sqlite3.Connection, *, limit: int | None = None) -> list[Delayed]:
    query = f"{_DELAYED} order by due_at limit ?"
    rows = connection.execute(query, (-1 if limit is None else limit,)).fetchall()
    return sorted((each for each in (opened_entry(*row) for row in rows) if each is not None), key=in_order)


def delayed_ids(connection: sqlite3.Connection, *, limit: int) -> list[str]:
    query = "select id from delayed order by due_at, type, id limit ?"
    return [id_ for (id_,) in connection.execute(query, (limit,)).fetchall()]


def delayed_of(connection: sqlite3.Connection, *, ids: Sequence[str]) -> tuple[list[Delayed], int]:
    """A page of those that are still there, and how many ids it took."""
    rows, taken = _bodies(connection, f"{_DELAYED} and id = ?", ids)
    return [entry for entry in (opened_entry(*row) for row in rows) if entry is not None], taken


def dead_numbers(connection: sqlite3.Connection, *, limit: int) -> list[int]:
    query = "select number from dead order by number desc limit ?"
    return [number for (number,) in connection.execute(query, (limit,)).fetchall()]


def dead_of(connection: sqlite3.Connection, *, ids: Sequence[int]) -> tuple[list[Dead], int]:
    rows, taken = _bodies(connection, f"{_DEAD} and number = ?", ids)
    return [_decode_dead(body) for (body,) in rows], taken


def _bodies(connection: sqlite3.Connection, query: str, ids: Sequence[object]) -> tuple[list[tuple[Any, ...]], int]:
    found = (connection.execute(query, (each,)).fetchone() for each in ids)
    page = list(paged(found, lambda row: len(row[-1]) if row is not None else 0))
    return [row for row in page if row is not None], len(page)


def due(connection: sqlite3.Connection, *, now: int, limit: int) -> list[Delayed]:
    rows = connection.execute(f"{_DELAYED} and due_at <= ? order by due_at", (now,))
    sound = (each for each in (opened_entry(*row) for row in rows) if each is not None)
    return sorted(islice(sound, limit), key=in_order)


def next_due(connection: sqlite3.Connection, *, now: int) -> int | None:
    query = (
        f"select min(due_at) from delayed where due_at > ? and {whole('delayed')}"  # noqa: S608 - constants
        f" union all select min(try_at) from deliveries where try_at > ? and {whole('deliveries')}"
    )
    return min((at for (at,) in connection.execute(query, (now, now)) if at is not None), default=None)


def awaiting(connection: sqlite3.Connection, *, now: int) -> list[tuple[str, str]]:
    query = f"select distinct crew, agent from deliveries where try_at <= ? and {whole('deliveries')} order by 1, 2"  # noqa: S608 - constants
    return connection.execute(query, (now,)).fetchall()


def deliveries(connection: sqlite3.Connection, test: str, values: tuple[object, ...], limit: int = 1) -> list[Delivery]:
    columns = "number, crew, agent, attempts, position, hops, crc, body"
    tables = "deliveries join broadcasts on position = deliveries.broadcast"
    test = f"{test} and {whole('deliveries')} and {_WHOLE_BROADCAST}"
    query = f"select {columns} from {tables} where {test} order by deliveries.broadcast, number"  # noqa: S608 - constants
    sound = (
        Delivery(number=number, crew=crew, agent=agent, attempts=attempts, heard=heard)
        for number, crew, agent, attempts, *kept in connection.execute(query, values)
        for heard in _heard((tuple(kept),))
    )
    return list(islice(sound, limit))


def dead(connection: sqlite3.Connection, *, limit: int) -> list[Dead]:
    rows = connection.execute(f"{_DEAD} order by number desc limit ?", (limit,)).fetchall()
    return [_decode_dead(body) for (body,) in rows]


def damaged(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with what reading leaves out."""
    rows = connection.execute(ANNOUNCEMENTS)
    found = [
        f"the broadcast at position {row[0]} is damaged: its crc does not hold" for row in rows if not expanded(*row)
    ]
    later = connection.execute("select id, crc, body from delayed")
    return found + [f"the delayed signal '{row[0]}' is damaged" for row in later if not opened_entry(*row[1:])]
