"""The table `places`: where the records of a run are, in the order of their seqs.

Rule 1: a row stands for records of one run that follow each other in the order of positions, `length` of them, from
`position` on; `seq` is that of the first. It is an index: all of it follows from the records.
Rule 2: it covers the records up to the position stored under `FILLED`. Those after it, the tail, are few and are looked
through. While that position is damaged or 0, no row counts, and all records are looked through.
Rule 3: rows have no seal. What is read through them has a crc and a chain, and the doctor compares all of them with the
records; they are made again when a folder is opened, or compacted.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from interlock.adapters.sqlite.bus.change_counts import FILLED, change_count_or_none
from interlock.adapters.sqlite.runs.tombstones import NO_RUN

# The most records that a row stands for is 1 << this: to find a seq, so many are looked through.
LENGTH_BITS = 6

# So many records are looked through before the rows of a run are: those who follow a run ask for the newest ones.
LOOKED_THROUGH_MAX = 256

# Makes rows for the records after a position.
INSERT_PLACES = (
    "insert or ignore into places (run, seq, position, length)"  # noqa: S608 - constants
    " select run, min(seq), min(position), count(*) from (select run, seq, position,"
    " position - row_number() over (partition by run order by position) as gap from records"
    f" where position > ?) group by run, gap, (position - 1) >> {LENGTH_BITS:d}"
)

PLACES: tuple[str, tuple[str, ...]] = (
    "026_places",
    (
        "drop index records_by_run",
        """create table places (
            run integer not null,
            seq integer not null,
            position integer not null,
            length integer not null,
            primary key (run, seq)
        ) strict, without rowid""",
        INSERT_PLACES.replace("?", "0"),
        "insert or replace into bus_changes (name, number)"
        " values ('filled', (select coalesce(max(position), 0) from records)),"
        " ('presence_newest', (select coalesce(max(position), 0) from records where presence is not null))",
    ),
)

_IN_TAIL = "select position from records where position > ? and run = ? and seq <= ? order by position desc limit 1"
_IN_PLACES = (
    "select records.position from places cross join records"
    " on records.position between places.position and places.position + length - 1"
    " where places.run = ?1 and places.seq = (select max(seq) from places where run = ?1 and seq <= ?2)"
    " and records.run = ?1 and records.seq <= ?2 order by records.position desc limit 1"
)
_ROWS_IN_PLACES = (
    "select {} from places cross join records"
    " on records.position between places.position and places.position + length - 1"
    " where places.run = ?1 and places.seq >= coalesce((select max(seq) from places where run = ?1 and seq <= ?2), 0)"
    " and records.run = ?1 and records.position >= ?3 order by places.seq"
)
_ROWS_IN_TAIL = "select {} from records where position > ? and run = ? and position >= ? order by position"
_WRONG_PLACE = (
    "select 1 from places where length + 1 <> (select count(*) + total(records.seq = places.seq) from records"
    " where records.position between places.position and places.position + length - 1 and records.run = places.run"
    " and records.seq >= places.seq) limit 1"
)


def tail_start(connection: sqlite3.Connection) -> int:
    """The position after which the tail starts: rows of runs and places are filled up to it. 0 if it is damaged."""
    return change_count_or_none(connection, FILLED) or 0


def newest_position(connection: sqlite3.Connection) -> int:
    return int(connection.execute("select coalesce(max(position), 0) from records").fetchone()[0])


def position_at(connection: sqlite3.Connection, number: int, seq: int) -> int | None:
    """The position of a run's last record that begins at a seq or before it."""
    filled = tail_start(connection)
    found = connection.execute(_IN_TAIL, (filled, number, seq)).fetchone()
    if found is None and filled:
        found = connection.execute(_IN_PLACES, (number, seq)).fetchone()
    return None if found is None else int(found[0])


def rows_from(
    connection: sqlite3.Connection, columns: str, number: int, seq: int = 0, position: int = 0
) -> Iterator[Sequence[Any]]:
    """The records of a run in their order, from a position on; `seq` is that of the record there."""
    filled = tail_start(connection)
    named = ", ".join(f"records.{each}" for each in columns.split(", "))
    stored = connection.execute(_ROWS_IN_PLACES.format(named), (number, seq, position)) if filled else iter(())
    return chain(stored, connection.execute(_ROWS_IN_TAIL.format(named), (filled, number, position)))


def positions_after(connection: sqlite3.Connection, numbers: Iterable[int], position: int) -> Iterator[int]:
    """The positions of records of some runs, in their order."""
    filled, runs = tail_start(connection), msgspec.json.encode(list(numbers)).decode()
    of_runs = "run in (select value from json_each(?))"
    if filled and position < newest_position(connection) - LOOKED_THROUGH_MAX:
        query = f"select position, length from places where {of_runs} and position + length - 1 > ? order by position"  # noqa: S608 - constants
        for first, length in connection.execute(query, (runs, position)):
            yield from range(max(first, position + 1), first + length)
        position = max(filled, position)
    query = f"select position from records where position > ? and {of_runs} order by position"  # noqa: S608 - constants
    for (each,) in connection.execute(query, (position, runs)):
        yield each


def delete_run_records(connection: sqlite3.Connection, number: int) -> None:
    """Deletes the records of a run. The tail is filled.

    A blank keeps the newest position of all records occupied, so that no position is used twice.
    """
    newest = newest_position(connection)
    for position in list(positions_after(connection, (number, NO_RUN), 0)):
        if position != newest:
            # A row of `places` may be damaged: records of other runs stay.
            connection.execute("delete from records where position = ? and run in (?, ?)", (position, number, NO_RUN))
    connection.execute("delete from places where run in (?, ?)", (number, NO_RUN))
    connection.execute(
        "update records set run = ?, seq = 0, crc = 0, link = x'', presence = null, body = x''"
        " where position = ? and run in (?, ?)",
        (NO_RUN, newest, number, NO_RUN),
    )
    connection.execute(
        "insert into places (run, seq, position, length) select run, 0, position, 1 from records"
        " where position = ? and run = ?",
        (newest, NO_RUN),
    )


def make_places_again(connection: sqlite3.Connection) -> None:
    """In a transaction: the next filling makes all rows."""
    connection.execute("delete from places")
    connection.execute("insert or replace into bus_changes (name, number) values (?, 0)", (FILLED,))


def has_wrong_places(connection: sqlite3.Connection) -> bool:
    """Whether the table differs from the records; reads all of them."""
    filled = tail_start(connection)
    if not filled:
        return False
    if connection.execute(_WRONG_PLACE).fetchone() is not None:
        return True
    counts = "select (select coalesce(sum(length), 0) from places), (select count(*) from records where position <= ?)"
    in_places, in_records = connection.execute(counts, (filled,)).fetchone()
    return bool(in_places != in_records)
