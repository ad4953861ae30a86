"""All broadcasts in the order of positions: rows of `broadcasts` and `lifecycle`, and those derived from records.

`store_rules/broadcast_rows` has the rules. Rows are fetched some at a time, so that a page that ends early
has read little more.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.broadcast_rows import (
    BroadcastRow,
    PresentRecord,
    RowKind,
    newest_in_rows,
    page_of_rows,
    position_before_newest_in_rows,
)
from interlock.adapters.store_rules.positions import before_others, end_of_derived, first_record_after
from interlock.adapters.store_rules.record_format import decode_record
from interlock.broadcast.naming import NAME_CHARS, place_in_series
from interlock.broadcast.presence import RecordPresence, presence_series, require_quiet_places
from interlock.broadcast.record import Broadcast
from interlock.engine.flow.waits import agents_in_record

# Rows of one query. A row has at most the data of one broadcast, or a record.
FETCHED_MAX = 200
_RUNS_FETCHED_MAX = 1_000

# In place of a presence that follows from the events.
TOLD = 1

_LAST_POSITION = 2**63 - 1
_STORED = (
    "select position, crc, body, kind from (select position, crc, body, 0 as kind from broadcasts"
    " union all select position, crc, body, 1 as kind from lifecycle) as stored"
)
_NEWEST_STORED = (
    "select greatest(coalesce((select max(position) from broadcasts), 0),"
    " coalesce((select max(position) from lifecycle), 0))"
)
# The body of a row of `lifecycle` begins with the name of its series.
_NAMED = (
    "select position, crc, body, 1 from lifecycle where substring(body from 3 for %s::integer) = any(%s)"
    " order by position"
)
_PRESENT = (
    "select records.position, runs.run, runs.crew, records.seq, presence,"
    " case when presence = '1' then records.crc end, case when presence = '1' then body end"
    " from records join runs on runs.number = records.run where presence is not null"
)


class _WrittenPresence(msgspec.Struct, frozen=True, array_like=True):
    """The column `presence` of a record whose events do not tell it."""

    at: int
    ended: tuple[str, ...]
    begun: tuple[str, ...]
    quiet: tuple[int, ...]


def rows_after(connection: PostgresConnection, position: int) -> Iterator[BroadcastRow]:
    stored = _fetch_in_parts(
        lambda at: _rows_of_tables(connection, "where position > %s order by position limit %s", at), position
    )
    derived = _fetch_in_parts(
        lambda at: _rows_of_records(
            connection, "and position >= %s order by position limit %s", first_record_after(at), FETCHED_MAX
        ),
        position,
    )
    return heapq.merge(stored, derived, key=attrgetter("position"))


def rows_below(connection: PostgresConnection, position: int = _LAST_POSITION) -> Iterator[BroadcastRow]:
    """The newest first."""
    stored = _fetch_in_parts(
        lambda at: _rows_of_tables(connection, "where position < %s order by position desc limit %s", at), position
    )
    derived = _fetch_in_parts(
        lambda at: _rows_of_records(
            connection, "and position < %s order by position desc limit %s", first_record_after(at - 1), FETCHED_MAX
        ),
        position,
    )
    return heapq.merge(stored, derived, key=attrgetter("position"), reverse=True)


def _fetch_in_parts(fetch: Callable[[int], list[BroadcastRow]], position: int) -> Iterator[BroadcastRow]:
    while found := fetch(position):
        yield from found
        if len(found) < FETCHED_MAX:
            return
        position = found[-1].position


def _rows_of_tables(connection: PostgresConnection, test: str, position: int) -> list[BroadcastRow]:
    rows = connection.execute(f"{_STORED} {test}", (position, FETCHED_MAX)).fetchall()
    return [BroadcastRow(*row) for row in rows]


def _rows_of_records(connection: PostgresConnection, test: str, *values: object) -> list[BroadcastRow]:
    return [
        BroadcastRow(end_of_derived(each.position), 0, b"", RowKind.RECORD, each)
        for each in present_records(connection, test, *values)
    ]


def present_records(connection: PostgresConnection, test: str, *values: object) -> list[PresentRecord]:
    """Records with presence."""
    rows = connection.execute(f"{_PRESENT} {test}", values).fetchall()
    return [
        PresentRecord(position, run, crew, seq, *_presence_of(seq, presence, crc, body))
        for position, run, crew, seq, presence, crc, body in rows
    ]


def _presence_of(seq: int, presence: Any, crc: int | None, body: bytes | None) -> tuple[int, RecordPresence | None]:
    """Time and agents; None in their place if they are damaged."""
    try:
        if presence != TOLD:
            written = msgspec.convert(presence, _WrittenPresence)
            return written.at, require_quiet_places(RecordPresence(written.ended, written.begun, written.quiet))
        assert body is not None, "it was selected"
        record = decode_record(body) if crc32(body) == crc else None
    except (ValueError, RecursionError):
        return 0, None
    if record is None or record.seq != seq:
        return 0, None
    return record.at, RecordPresence(*agents_in_record(record.events))


def newest_stored(connection: PostgresConnection) -> int:
    """The newest position of a stored broadcast."""
    return _number(connection, _NEWEST_STORED)


def newest_record(connection: PostgresConnection) -> int:
    return _number(connection, "select position from heads where name = 'records'")


def head(connection: PostgresConnection) -> int:
    """A position that no broadcast is after."""
    return max(newest_stored(connection), before_others(newest_record(connection)))


def _number(connection: PostgresConnection, query: str) -> int:
    found = connection.execute(query).fetchone()
    assert found is not None, "the row is there from the start"
    return int(found[0])


def newest_row(connection: PostgresConnection) -> int:
    """The position of the newest row that holds a broadcast."""
    return next((row.position for row in rows_below(connection) if row.age.broadcasts), 0)


def presence_positions(connection: PostgresConnection, ids: Sequence[str]) -> dict[str, int]:
    """The positions of those ids that are presence changes without subscribers; reads all rows of `lifecycle`."""
    if not ids:
        return {}
    wanted, names = set(ids), sorted({each[:NAME_CHARS].encode() for each in ids})
    stored = (BroadcastRow(*row) for row in connection.execute(_NAMED, (NAME_CHARS, names)))
    rows = chain(stored, _rows_with_ids(connection, ids))
    return {each.id: position for row in rows for position, each in row.broadcasts if each.id in wanted}


def _rows_with_ids(connection: PostgresConnection, ids: Sequence[str]) -> Iterator[BroadcastRow]:
    """The rows that these ids would be derived from: an id tells the seq, and a run the start of its ids."""
    seqs: dict[str, set[int]] = {}
    for each in ids:
        if place := place_in_series(each):
            seqs.setdefault(each[:NAME_CHARS], set()).add(place)
    before = _LAST_POSITION
    while seqs:
        query = "select number, run from runs where number < %s order by number desc limit %s"
        runs = connection.execute(query, (before, _RUNS_FETCHED_MAX)).fetchall()
        if not runs:
            return
        before = runs[-1][0]
        for number, run in runs:
            if found := seqs.pop(presence_series(run), None):
                test = "and records.run = %s and records.seq = any(%s) order by position"
                yield from _rows_of_records(connection, test, number, sorted(found))


def newest(connection: PostgresConnection, *, limit: int, pattern: str | None) -> list[Broadcast]:
    return newest_in_rows(rows_below(connection), limit, pattern)


def position_before_newest(connection: PostgresConnection, *, limit: int, pattern: str | None) -> int:
    return position_before_newest_in_rows(rows_below(connection), head(connection), limit, pattern)


def since(connection: PostgresConnection, *, position: int, limit: int) -> list[tuple[int, Broadcast]]:
    return page_of_rows(rows_after(connection, position), position, limit)


def damage_in_broadcasts(connection: PostgresConnection) -> list[str]:
    """The damaged rows, which reading leaves out."""
    return [
        f"the broadcast at position {row.position} is damaged: its crc does not match"
        for row in rows_after(connection, 0)
        if row.is_damaged
    ]
