"""The tail: the newest records, which rows of runs and places of records do not cover yet.

Rule 1: an append writes no row if the record tells what the row would be (`row_told_by`); the writer compares before it
leaves the row as it is. So every record after the seq of a row tells the next row, and readers derive it.
Rule 2: only rows of running runs are behind, and never in status, reason, owner and epoch. Lists by status and the
fence of an append need no look at the tail.
Rule 3: the tail has at most `TAIL_MAX` records when a transaction ends: who reaches that fills rows, places, and the
table of active agents. A row is behind by at most `EVENTS_BEHIND_MAX` events: the record after that writes it. Opening
a folder fills the tail before anything is claimed.
Rule 4: filling changes nothing that a reader sees, and may be done twice.
Rule 5: a record that does not match its crc or its seq ends what is derived; reading the run reports it.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from interlock.adapters.sqlite.bus.change_counts import FILLED, PRESENCE_FILLED, change_count_or_none
from interlock.adapters.sqlite.failures import FULL, is_locked, sqlite_code_of
from interlock.adapters.sqlite.runs.places import INSERT_PLACES, newest_position, tail_start
from interlock.adapters.sqlite.runs.run_head import (
    SELECT_RUN,
    UPDATE_ROW,
    RunHead,
    head_from_row,
    read_stored_head,
    row_values,
)
from interlock.adapters.sqlite.runs.tombstones import NO_RUN
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.store_rules.record_format import decode_record, next_link
from interlock.engine.events import Event, ModelReplied, Usage
from interlock.engine.flow.waits import agents_in_record
from interlock.ports import Record

# Each reader of a row looks through so many records at most.
TAIL_MAX = 256
# The events of one run that its row may be behind: so many are decoded to derive it.
EVENTS_BEHIND_MAX = 400
# A record that is larger is not left to readers to decode.
TOLD_BYTES_MAX = 16 * 1024

_OF_RUN = "select seq, crc, link, body from records where position > ? and run = ? and seq > ? order by position"
_OF_ALL = (
    "select records.run, records.seq, records.crc, records.link, body from records"
    " cross join runs on runs.number = records.run"
    " where position > ? and records.seq > runs.seq order by position"
)


def row_told_by(events: Sequence[Event], begun: Sequence[str], agent: str, usage: Usage) -> tuple[str, Usage]:
    """The agent and the usage of a running run after a record, from those before it.

    `begun` are those of `agents_in_record`. Stores rely on it for records that they hold: another rule needs another
    name.
    """
    first = events[0]
    if type(first) is ModelReplied:
        usage += msgspec.structs.replace(first.usage, calls=first.usage.calls + 1)
    return begun[-1] if begun else agent, usage


def head_after(head: RunHead, record: Record, link: bytes) -> RunHead:
    _, begun = agents_in_record(record.events)
    agent, usage = row_told_by(record.events, begun, head.agent, head.usage)
    return head.with_changes(row_values(head.status, head.reason, agent, record.last_seq, record.at, usage, link))


def _next_head(head: RunHead, seq: int, crc: int, link: bytes, body: bytes) -> RunHead | None:
    """The row after a record of the tail; None if the record is damaged."""
    if (crc ^ head.number) & 0xFFFF_FFFF != crc32(body) or seq != head.seq + 1 or link != next_link(head.link, body):
        return None
    try:
        record = decode_record(body)
    except (ValueError, RecursionError):
        return None
    return head_after(head, record, link) if record.seq == seq else None


def read_run_head(connection: sqlite3.Connection, run: str) -> RunHead:
    """The run's row as of its newest record; `RunNotFound` or `DamagedRun`."""
    head = read_stored_head(connection, run)
    if head.status != "running":
        return head
    values = (tail_start(connection), head.number, head.seq)
    for record in connection.execute(_OF_RUN, values).fetchall():
        after = _next_head(head, *record)
        if after is None:
            break
        head = after
    return head


def with_tail(connection: sqlite3.Connection, heads: Iterable[RunHead]) -> list[RunHead]:
    """Rows as of the newest record, in the same order."""
    by_number = {head.number: head for head in heads}
    if any(head.status == "running" for head in by_number.values()):
        _advance_heads(by_number, connection.execute(_OF_ALL, (tail_start(connection),)).fetchall())
    return list(by_number.values())


def _advance_heads(heads: dict[int, RunHead], records: Iterable[tuple[Any, ...]]) -> None:
    ended: set[int] = set()
    for number, *record in records:
        if number in heads and number not in ended:
            after = _next_head(heads[number], *record)
            if after is None:
                ended.add(number)
            else:
                heads[number] = after


def fill_tail(connection: sqlite3.Connection, cache: WriterCache) -> None:
    """In a transaction: brings rows, places and the active agents to the newest record."""
    filled = tail_start(connection)
    _fill_rows(connection, cache, filled)
    _report_misplaced_records(connection, filled)
    if not filled:
        connection.execute("delete from places")
    connection.execute(INSERT_PLACES, (filled,))
    newest = newest_position(connection)
    cache.bus.active_agents(connection).fill_table(connection, newest)
    connection.execute("insert or replace into bus_changes (name, number) values (?, ?)", (FILLED, newest))
    cache.filled = newest


def _fill_rows(connection: sqlite3.Connection, cache: WriterCache, filled: int) -> None:
    """The rows of this store's runs are known. Those of others are derived, and so are all after a restart."""
    for live in cache.behind.values():
        connection.execute(UPDATE_ROW, live.row_update(live.row))
    cache.behind.clear()
    if records := connection.execute(_OF_ALL, (filled,)).fetchall():
        heads = _read_heads(connection, {number for number, *_ in records})
        _advance_heads(heads, records)
        for head in heads.values():
            connection.execute(UPDATE_ROW, head.row_update())


def _read_heads(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, RunHead]:
    """The stored rows by their numbers, without damaged ones."""
    rows = [connection.execute(f"{SELECT_RUN} where number = ?", (number,)).fetchone() for number in numbers]
    return {head.number: head for row in rows if row is not None and (head := head_from_row(row)) is not None}


def fill_at_opening(connection: sqlite3.Connection) -> None:
    """Fills what an earlier process left, before anything is claimed.

    Where the disk is full, or another process writes, that is left to the first commit: a claim fills by itself.
    """
    filled, newest = tail_start(connection), newest_position(connection)
    if filled == newest == change_count_or_none(connection, PRESENCE_FILLED):
        return
    connection.execute("pragma busy_timeout = 0").fetchone()  # as the writer sets it next
    try:
        connection.execute("begin immediate")
        fill_tail(connection, WriterCache())
        connection.execute("commit")
    except sqlite3.OperationalError as error:
        if not is_locked(error) and sqlite_code_of(error) not in FULL:
            raise
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _report_misplaced_records(connection: sqlite3.Connection, filled: int) -> None:
    """A record whose run is damaged is missing from its own run: the row of that one says where it should end.

    The crc of a record covers the number of its run, so it tells the right one.
    """
    query = "select run, crc, link, body from records where position > ? and run <> ?"
    for number, crc, link, body in connection.execute(query, (filled, NO_RUN)):
        right = (crc ^ crc32(body)) & 0xFFFF_FFFF
        if right == number:
            continue
        for head in _read_heads(connection, (right,)).values():
            after = _next_head(head, head.seq + 1, crc, link, body)
            if after is not None:
                connection.execute(UPDATE_ROW, after.row_update())
