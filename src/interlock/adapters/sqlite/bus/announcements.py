"""All broadcasts in the order of positions: rows of `broadcasts` and `lifecycle`, and those derived from records.

`store_rules/broadcast_rows` has the rules.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from operator import attrgetter

import msgspec

from interlock.adapters.sqlite.bus.record_presence import (
    SELECT_AT,
    presence_below,
    presence_from,
    read_presence,
)
from interlock.adapters.sqlite.runs.places import newest_position, position_at
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules.broadcast_rows import (
    BroadcastRow,
    PresentRecord,
    RowKind,
    newest_in_rows,
    page_of_rows,
    position_before_newest_in_rows,
)
from interlock.adapters.store_rules.positions import before_others, end_of_derived, first_record_after
from interlock.broadcast.naming import NAME_CHARS, place_in_series
from interlock.broadcast.presence import presence_series
from interlock.broadcast.record import Broadcast

INTACT_BROADCAST = intact_condition("broadcasts")

_STORED = (
    "select position, crc, body, kind from (select position, crc, body, 0 as kind from broadcasts"  # noqa: S608 - constants
    f" where {INTACT_BROADCAST} union all select position, crc, body, 1 as kind from lifecycle)"
)
_NEWEST = "coalesce((select max(position) from {}), 0)"
_NEWEST_STORED = f"select max({_NEWEST.format('broadcasts')}, {_NEWEST.format('lifecycle')})"
_LAST_POSITION = 2**63 - 1


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
    return newest_in_rows(rows_below(connection), limit, pattern)


def position_before_newest(connection: sqlite3.Connection, *, limit: int, pattern: str | None) -> int:
    return position_before_newest_in_rows(rows_below(connection), head(connection), limit, pattern)


def since(connection: sqlite3.Connection, *, position: int, limit: int) -> list[tuple[int, Broadcast]]:
    return page_of_rows(rows_after(connection, position), position, limit)


def damage_in_broadcasts(connection: sqlite3.Connection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    return [
        f"the broadcast at position {row.position} is damaged: its crc does not match"
        for row in rows_after(connection, 0)
        if row.is_damaged
    ]
