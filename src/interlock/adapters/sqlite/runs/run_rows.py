"""SQL that creates runs, appends records and changes owners. Each function refuses before its first write.

Rule 1: a record's crc is stored xored with the number of its run, so a record that ends up in another run is noticed
as soon as that record is read.
Rule 2: `WriterCache` only saves a query. An append that uses a cached row writes nothing unless the stored row has the
same owner, epoch, seq and link; the link stands for the run's id and all that was ever appended to it.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from interlock.adapters.files.owner_files import is_alive
from interlock.adapters.sqlite.atomic_writes import apply_writes
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.bus.presence_writes import NO_PRESENCE, PresenceWrite, change_presence
from interlock.adapters.sqlite.runs import tombstones
from interlock.adapters.sqlite.runs.run_head import (
    INSERT_RUN,
    RunHead,
    as_int32,
    crc_with_changing,
    head_of,
    read_run_head,
    row_crc,
    usage_values,
)
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.bus_rules import require_queued
from interlock.adapters.store_rules.record_format import Tip
from interlock.errors import OwnedElsewhere, RunExists
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, Record, RunRow

INSERT_RECORD = "insert into records (run, seq, crc, link, presence, body) values (?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "update runs set {more}reason = ?, agent = ?, seq = ?, updated_at = ?,"
    " calls = ?, input_tokens = ?, output_tokens = ?, cost_micros = ?, link = ?, unpriced_calls = ?,"
    " cache_read_tokens = ?, cache_write_tokens = ?, reasoning_tokens = ?, crc = ?"
    " where number = ? and owner = ? and epoch = ? and seq = ? and link = ?"
)
# Two statements, because the status is indexed and seldom changes.
UPDATE, UPDATE_WITH_STATUS = _UPDATE.format(more=""), _UPDATE.format(more="status = ?, ")


def create(
    connection: sqlite3.Connection,
    cache: WriterCache,
    *,
    row: RunRow,
    record: Record,
    body: bytes,
    owner: str,
    also: AtomicWrites,
) -> AppendResult:
    if also.heard:
        require_queued(SqliteBusTables(connection, cache.bus), row.run, also)
    if tombstones.is_id_taken(connection, row.run):
        raise RunExists(row.run)
    record_format.require_first(row.run, record)
    link = record_format.next_link(record_format.first_link(row.run), body)
    made = insert_run(connection, row, Tip(seq=record.last_seq, epoch=row.epoch, link=link), owner)
    cache.put_head(row.run, made)
    appended = _insert_with_presence(connection, cache, made, row, record, link, body, also)
    return _apply_writes(connection, cache, also, appended)


def append(
    connection: sqlite3.Connection, cache: WriterCache, *, row: RunRow, record: Record, body: bytes, also: AtomicWrites
) -> AppendResult:
    return _apply_writes(connection, cache, also, _append(connection, cache, row, record, body, also))


def _apply_writes(
    connection: sqlite3.Connection, cache: WriterCache, also: AtomicWrites, appended: "AppendedRecord"
) -> AppendResult:
    position, presence = appended
    if also is NO_WRITES:
        return AppendResult(position)
    return apply_writes(connection, cache.bus, also, position, presence)


class AppendedRecord(NamedTuple):
    """The position of a record, and the presence that was stored with it."""

    position: int
    presence: PresenceWrite = NO_PRESENCE


def _append(
    connection: sqlite3.Connection, cache: WriterCache, row: RunRow, record: Record, body: bytes, also: AtomicWrites
) -> AppendedRecord:
    known = cache.heads.get(row.run)
    if known is not None and known.epoch == row.epoch and known.seq + 1 == record.seq:
        appended = _try_append(connection, cache, known, row, record, body, also)
        if appended is not None:
            return appended
    known = read_run_head(connection, row.run)
    if known.epoch == row.epoch and known.seq == record.last_seq:
        position = _position_of(connection, known.number, record.seq, body)
        if position is not None:
            return AppendedRecord(position)
    record_format.require_next(known.tip, row, record)
    appended = _try_append(connection, cache, known, row, record, body, also)
    assert appended is not None, "the row was read in this transaction"
    return appended


def _position_of(connection: sqlite3.Connection, number: int, seq: int, body: bytes) -> int | None:
    """The position of this record if it is stored already: its append succeeded, but the answer was lost."""
    query = "select position, body from records where run = ? and seq = ?"
    found = connection.execute(query, (number, seq)).fetchone()
    return found[0] if found is not None and found[1] == body else None


def _try_append(
    connection: sqlite3.Connection,
    cache: WriterCache,
    known: RunHead,
    row: RunRow,
    record: Record,
    body: bytes,
    also: AtomicWrites,
) -> AppendedRecord | None:
    """Appends; None with nothing written if the stored row differs from `known`."""
    usage, link = row.usage, record_format.next_link(known.link, body)
    changing = (row.status, row.reason, row.agent, record.last_seq, row.updated_at, *usage_values(usage, link))
    crc = crc_with_changing(known.fixed_crc, changing)
    values = (*changing[1:], crc, known.number, known.owner, known.epoch, known.seq, known.link)
    if row.status == known.status:
        done = connection.execute(UPDATE, values)
    else:
        done = connection.execute(UPDATE_WITH_STATUS, (row.status, *values))
    if done.rowcount != 1:
        return None
    cache.put_head(row.run, known.with_changes(changing))
    return _insert_with_presence(connection, cache, known, row, record, link, body, also)


def _insert_with_presence(
    connection: sqlite3.Connection,
    cache: WriterCache,
    known: RunHead,
    row: RunRow,
    record: Record,
    link: bytes,
    body: bytes,
    also: AtomicWrites,
) -> AppendedRecord:
    number, crc = known.number, crc32(body)
    if not also.ended and not also.begun:
        return AppendedRecord(insert_record(connection, cache, number, record.seq, crc, link, body))
    presence = change_presence(connection, cache.bus, number, row, record, also)
    position = insert_record(connection, cache, number, record.seq, crc, link, body, presence.stored)
    active = cache.bus.active_agents(connection)
    active.on_record(connection, position, row.crew, row.run, also.ended, also.begun)
    return AppendedRecord(position, presence)


def insert_record(
    connection: sqlite3.Connection,
    cache: WriterCache,
    number: int,
    seq: int,
    crc: int,
    link: bytes,
    body: bytes,
    presence: bytes | int | None = None,
) -> int:
    stored_crc = as_int32(crc ^ (number & 0xFFFF_FFFF))
    done = connection.execute(INSERT_RECORD, (number, seq, stored_crc, link, presence, body))
    assert done.lastrowid is not None, "an insert has a rowid"
    cache.newest = done.lastrowid
    return done.lastrowid


def insert_run(connection: sqlite3.Connection, row: RunRow, tip: Tip, owner: str) -> RunHead:
    values = (
        *(row.run, row.crew, row.crew_sha, row.created_at, row.continues, row.organization, owner, tip.epoch),
        *(row.status, row.reason, row.agent, tip.seq, row.updated_at),
        *usage_values(row.usage, tip.link),
    )
    number = connection.execute("select coalesce(max(number), 0) + 1 from runs").fetchone()[0]
    connection.execute(INSERT_RUN, (number, *values, row_crc(number, values)))
    return head_of(number, values)


def claim(connection: sqlite3.Connection, cache: WriterCache, *, run: str, owner: str, folder: Path) -> int:
    found = read_run_head(connection, run)
    require_claimable(found, owner, folder)
    epoch = found.epoch + 1
    cache.put_head(run, _set_owner(connection, found, owner, epoch))
    return epoch


def release(connection: sqlite3.Connection, cache: WriterCache, *, run: str, owner: str) -> None:
    cache.heads.pop(run, None)
    if connection.execute("select 1 from runs where run = ? and owner = ?", (run, owner)).fetchone() is not None:
        found = read_run_head(connection, run)
        _set_owner(connection, found, "", found.epoch)


def require_claimable(found: RunHead, owner: str, folder: Path) -> None:
    if found.owner not in ("", owner) and is_alive(folder, found.owner):
        raise OwnedElsewhere(found.run, found.owner)


def _set_owner(connection: sqlite3.Connection, found: RunHead, owner: str, epoch: int) -> RunHead:
    changed = found._replace(owner=owner, epoch=epoch)
    values = changed[1:-1]
    connection.execute(
        "update runs set owner = ?, epoch = ?, crc = ? where number = ?",
        (owner, epoch, row_crc(found.number, values), found.number),
    )
    return head_of(found.number, values)


def put_crew(connection: sqlite3.Connection, cache: WriterCache, *, sha: str, body: bytes) -> None:
    connection.execute("insert or ignore into crews (sha, body) values (?, ?)", (sha, body))


def limit_bytes(connection: sqlite3.Connection, cache: WriterCache, *, bytes_max: int) -> None:
    page_size = connection.execute("pragma page_size").fetchone()[0]
    connection.execute(f"pragma max_page_count = {max(1, bytes_max // page_size):d}")
