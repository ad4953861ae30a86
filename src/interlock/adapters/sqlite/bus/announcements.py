"""All broadcasts in the order of positions: rows of `broadcasts` and `lifecycle`, and those derived from records.

Rule 1: a row holds one broadcast or several, and has the position of its last one; the others are before it.
Rule 2: rows are read one at a time. A damaged row hides no other, and the doctor names it.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from enum import IntEnum
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.bus.positions import before_others, end_of_derived, first_record_after
from interlock.adapters.sqlite.bus.record_presence import (
    SELECT_AT,
    PresentRecord,
    presence_below,
    presence_from,
    read_presence,
)
from interlock.adapters.sqlite.runs.places import newest_position, position_at
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.bus_tables import BroadcastAge
from interlock.broadcast.naming import NAME_CHARS, place_in_series
from interlock.broadcast.pattern import matches
from interlock.broadcast.presence import PresenceChange, broadcasts_of, decode_presence, presence_series
from interlock.broadcast.record import Broadcast, decode_broadcast, encode_broadcast
from interlock.limits import PAGE_BYTES_MAX

INTACT_BROADCAST = intact_condition("broadcasts")

_STORED = (
    "select position, crc, body, kind from (select position, crc, body, 0 as kind from broadcasts"  # noqa: S608 - constants
    f" where {INTACT_BROADCAST} union all select position, crc, body, 1 as kind from lifecycle)"
)
_NEWEST = "coalesce((select max(position) from {}), 0)"
_NEWEST_STORED = f"select max({_NEWEST.format('broadcasts')}, {_NEWEST.format('lifecycle')})"
_LAST_POSITION = 2**63 - 1
# A derived broadcast has no size of its own; this is that of its line, more or less.
_DERIVED_BYTES = 120


class RowKind(IntEnum):
    """Where a row is: one broadcast, changes of presence, or changes of presence in a record."""

    BROADCAST = 0
    LIFECYCLE = 1
    RECORD = 2


class BroadcastRow(NamedTuple):
    """A row of broadcasts, not yet verified; `record` is that of the kind `RECORD`, which has no crc and body here."""

    position: int
    crc: int
    body: bytes
    kind: int
    record: PresentRecord | None = None

    @property
    def presence(self) -> PresenceChange | None:
        """The changes of presence in it; None if they are damaged."""
        if self.record is not None:
            return self.record.change
        if crc_as_int32(self.body, self.position) != self.crc:
            return None
        try:
            return decode_presence(self.body)
        except ValueError:
            return None

    @property
    def broadcasts(self) -> list[tuple[int, Broadcast]]:
        """The broadcasts in it, each with its position; none if it is damaged."""
        if self.kind == RowKind.BROADCAST:
            broadcast = broadcast_from_row(self.position, self.crc, self.body)
            return [(self.position, broadcast)] if broadcast is not None else []
        presence = self.presence
        found = broadcasts_of(presence) if presence is not None else []
        return list(enumerate(found, self.position - len(found) + 1))

    @property
    def lines(self) -> list[tuple[int, bytes]]:
        """The same as lines of JSON, without line ends."""
        if self.kind == RowKind.BROADCAST:
            return [(self.position, self.body)] if crc_as_int32(self.body, self.position) == self.crc else []
        return [(at, encode_broadcast(each)) for at, each in self.broadcasts]

    @property
    def age(self) -> BroadcastAge:
        if self.record is not None and self.record.agents is not None:
            return BroadcastAge(self.position, self.record.agents.broadcast_count, self.record.at)
        found = self.broadcasts
        return BroadcastAge(self.position, len(found), found[0][1].created_at if found else None)

    @property
    def is_damaged(self) -> bool:
        return self.presence is None if self.kind != RowKind.BROADCAST else not self.broadcasts


def crc_as_int32(body: bytes, salt: int = 0) -> int:
    crc = (crc32(body) ^ salt ^ salt >> 32) & 0xFFFF_FFFF
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def broadcast_from_row(position: int, crc: int, body: bytes) -> Broadcast | None:
    """A broadcast; None if it is damaged."""
    if crc_as_int32(body, position) != crc:
        return None
    try:
        return decode_broadcast(body)
    except ValueError:
        return None


def rows_after(connection: sqlite3.Connection, position: int) -> Iterator[BroadcastRow]:
    stored = _rows_in_tables(connection, "where position > ? order by position", (position,))
    derived = _rows_from_records(presence_from(connection, first_record_after(position)))
    return heapq.merge(stored, derived, key=attrgetter("position"))


def rows_below(connection: sqlite3.Connection, position: int = _LAST_POSITION) -> Iterator[BroadcastRow]:
    """The newest first."""
    stored = _rows_in_tables(connection, "where position < ? order by position desc", (position,))
    derived = _rows_from_records(presence_below(connection, first_record_after(position - 1)))
    return heapq.merge(stored, derived, key=attrgetter("position"), reverse=True)


def _rows_in_tables(connection: sqlite3.Connection, test: str, values: tuple[object, ...]) -> Iterator[BroadcastRow]:
    with closing(connection.execute(f"{_STORED} {test}", values)) as found:
        yield from map(BroadcastRow._make, ((*row, None) for row in found))


def _rows_from_records(records: Iterable[PresentRecord]) -> Iterator[BroadcastRow]:
    for each in records:
        yield BroadcastRow(end_of_derived(each.position), 0, b"", RowKind.RECORD, each)


def newest_stored(connection: sqlite3.Connection) -> int:
    """The newest position of a stored broadcast."""
    return int(connection.execute(_NEWEST_STORED).fetchone()[0])


def head(connection: sqlite3.Connection) -> int:
    """A position that no broadcast is after."""
    return max(newest_stored(connection), before_others(newest_position(connection)))


def newest_row(connection: sqlite3.Connection) -> int:
    """The position of the newest row that holds a broadcast."""
    return next((row.position for row in rows_below(connection) if row.age.broadcasts), 0)


def presence_positions(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The positions of those ids that are presence changes without subscribers; reads all rows of `lifecycle`."""
    if not ids:
        return {}
    wanted, names = set(ids), msgspec.json.encode(sorted({each[:NAME_CHARS] for each in ids})).decode()
    name = f"cast(substr(body, 3, {NAME_CHARS}) as text)"
    test = f"where kind = {RowKind.LIFECYCLE:d} and {name} in (select value from json_each(?))"  # noqa: S608 - constants
    rows = chain(_rows_in_tables(connection, test, (names,)), _rows_with_ids(connection, ids))
    return {each.id: position for row in rows for position, each in row.broadcasts if each.id in wanted}


def _rows_with_ids(connection: sqlite3.Connection, ids: Sequence[str]) -> Iterator[BroadcastRow]:
    """The rows that these ids would be derived from: an id tells the seq, and a run the start of its ids."""
    seqs: dict[str, set[int]] = {}
    for each in ids:
        seqs.setdefault(each[:NAME_CHARS], set()).add(place_in_series(each))
    with closing(connection.execute("select number, run from runs order by number desc")) as runs:
        for number, run in runs:
            for seq in sorted(seqs.pop(presence_series(run), ())):
                position = position_at(connection, number, seq) or 0
                yield from _rows_from_records(read_presence(connection, SELECT_AT, position))
            if not seqs:
                return


def newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> list[Broadcast]:
    found = (each for row in rows_below(connection) for _, each in reversed(row.broadcasts))
    chosen = (each for each in found if pattern is None or matches(pattern, each.type))
    return list(islice(chosen, limit))[::-1]


def position_before_newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> int:
    """The position before the newest `limit` broadcasts; holds one row at a time."""
    position, left = head(connection), limit
    for row in rows_below(connection):
        for at, broadcast in reversed(row.broadcasts):
            if left == 0:
                return position
            if pattern is None or matches(pattern, broadcast.type):
                left -= 1
            position = at - 1
    return position


def since(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, Broadcast]]:
    return list(islice(_first_page_of_rows(rows_after(connection, position), position), limit))


def _first_page_of_rows(rows: Iterable[BroadcastRow], position: int) -> Iterator[tuple[int, Broadcast]]:
    """The broadcasts in rows, until there is a page of them."""
    size = 0
    for row in rows:
        found = [each for each in row.broadcasts if each[0] > position]
        yield from found
        size += max(len(row.body), _DERIVED_BYTES * len(found)) if found else 0
        if size >= PAGE_BYTES_MAX:
            return


def damage_in_broadcasts(connection: sqlite3.Connection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    return [
        f"the broadcast at position {row.position} is damaged: its crc does not match"
        for row in rows_after(connection, 0)
        if row.is_damaged
    ]
