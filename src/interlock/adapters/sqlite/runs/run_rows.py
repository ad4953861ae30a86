"""SQL that creates runs, appends records and changes owners. Each function refuses before its first write.

Rule 1: a record's crc is stored xored with the number of its run, so a record that ends up in another run is noticed
as soon as that record is read.
Rule 2: a record is added by one fenced statement (`fenced_insert`).
Rule 3: a row is written with a record only if the record does not tell what it would be (`tail`).
"""

import sqlite3
from pathlib import Path
from zlib import crc32

from interlock.adapters.files.owner_files import is_alive
from interlock.adapters.sqlite.atomic_writes import apply_writes
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.bus.presence_writes import NO_PRESENCE, PresenceWrite, change_presence
from interlock.adapters.sqlite.runs import tombstones
from interlock.adapters.sqlite.runs.fenced_insert import INSERT_FENCED, insert_fenced, is_told
from interlock.adapters.sqlite.runs.places import position_at
from interlock.adapters.sqlite.runs.run_format import note_run_format
from interlock.adapters.sqlite.runs.run_head import (
    INSERT_RUN,
    UPDATE_ROW,
    UPDATE_STATUS,
    RunHead,
    as_int32,
    head_of,
    row_crc,
    row_values,
)
from interlock.adapters.sqlite.runs.tail import fill_tail, read_run_head
from interlock.adapters.sqlite.runs.writer_cache import LiveHead, WriterCache
from interlock.adapters.store_rules import record_format
from interlock.adapters.store_rules.bus_rules import require_queued
from interlock.adapters.store_rules.record_format import Tip
from interlock.engine.flow.waits import agents_in_record
from interlock.errors import OwnedElsewhere, RunExists
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, ClaimedRun, Record, RunRow

INSERT_RECORD = "insert into records (run, seq, crc, link, presence, body) values (?, ?, ?, ?, ?, ?)"


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
    made = LiveHead(insert_run(connection, row, Tip(seq=record.last_seq, epoch=row.epoch, link=link), owner), row)
    cache.put_head(row.run, made)
    if not cache.has_run_format:
        note_run_format(connection, row)
        cache.has_run_format = True
    presence = NO_PRESENCE
    if also.ended or also.begun:
        told = agents_in_record(record.events)
        presence = change_presence(connection, cache.bus, made.number, row, record, also, told)
    made.position = insert_record(connection, cache, made.number, record.seq, crc32(body), link, body, presence.stored)
    return _finish_append(connection, cache, row, also, made.position, presence)


def append(
    connection: sqlite3.Connection, cache: WriterCache, *, row: RunRow, record: Record, body: bytes, also: AtomicWrites
) -> AppendResult:
    known = cache.heads.get(row.run)
    if known is not None and known.epoch == row.epoch and known.seq + 1 == record.seq:
        appended = _try_append(connection, cache, known, row, record, body, also)
        if appended is not None:
            return appended
    head = read_run_head(connection, row.run)
    if head.epoch == row.epoch and head.seq == record.last_seq:
        position = _position_of(connection, head.number, record.seq, body)
        if position is not None:
            return _finish_append(connection, cache, row, also.to_repeat(), position, NO_PRESENCE)
    record_format.require_next(head.tip, row, record)
    connection.execute(UPDATE_ROW, head.row_update())
    known = LiveHead(head, head.as_row())
    cache.forget_run(row.run)
    cache.put_head(row.run, known)
    appended = _try_append(connection, cache, known, row, record, body, also)
    assert appended is not None, "the row was read in this transaction"
    return appended


def _position_of(connection: sqlite3.Connection, number: int, seq: int, body: bytes) -> int | None:
    """The position of this record if it is stored already: its append succeeded, but the answer was lost."""
    position = position_at(connection, number, seq)
    query = "select 1 from records where position = ? and seq = ? and body = ?"
    return position if connection.execute(query, (position, seq, body)).fetchone() is not None else None


def _try_append(
    connection: sqlite3.Connection,
    cache: WriterCache,
    known: LiveHead,
    row: RunRow,
    record: Record,
    body: bytes,
    also: AtomicWrites,
) -> AppendResult | None:
    """Appends; None with nothing written if the run is not as `known`."""
    presence, told = NO_PRESENCE, agents_in_record(record.events)
    if also.ended or also.begun:
        presence = change_presence(connection, cache.bus, known.number, row, record, also, told)
    may_wait = is_told(known, row, record, len(body), told[1])
    position = insert_fenced(connection, INSERT_FENCED, known, record, body, presence.stored)
    if position is None:
        cache.bus.reset()  # it counts the presence of this record already
        return None
    cache.newest = cache.newest_known = position
    if may_wait:
        cache.behind[row.run] = known
    else:
        if row.status != known.row.status:
            connection.execute(UPDATE_STATUS, (row.status, known.number))
        connection.execute(UPDATE_ROW, known.row_update(row))
        cache.behind.pop(row.run, None)
    known.row = row
    return _finish_append(connection, cache, row, also, position, presence)


def _finish_append(
    connection: sqlite3.Connection,
    cache: WriterCache,
    row: RunRow,
    also: AtomicWrites,
    position: int,
    presence: PresenceWrite,
) -> AppendResult:
    """Applies what goes with a record that is stored."""
    if also is NO_WRITES:
        return AppendResult(position)
    if presence is not NO_PRESENCE:
        cache.bus.active_agents(connection).on_record(position, row.crew, row.run, also.ended, also.begun)
    return apply_writes(connection, cache.bus, also, position, presence)


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
    cache.newest = cache.newest_known = done.lastrowid
    return done.lastrowid


def insert_run(connection: sqlite3.Connection, row: RunRow, tip: Tip, owner: str) -> RunHead:
    values = (
        *(row.run, row.crew, row.crew_sha, row.created_at, row.continues, row.organization),
        *(row.rules, row.format, int(row.private), owner, tip.epoch),
        *row_values(row.status, row.reason, row.agent, tip.seq, row.updated_at, row.usage, tip.link),
    )
    number = connection.execute("select coalesce(max(number), 0) + 1 from runs").fetchone()[0]
    connection.execute(INSERT_RUN, (number, *values, row_crc(number, values)))
    return head_of(number, values)


def claim(connection: sqlite3.Connection, cache: WriterCache, *, run: str, owner: str, folder: Path) -> ClaimedRun:
    found = read_run_head(connection, run)
    require_claimable(found, owner, folder)
    owner_died = found.owner not in ("", owner)
    if owner_died:  # a damaged record among its last ones must not go unseen
        fill_tail(connection, cache)
        found = read_run_head(connection, run)
    epoch = found.epoch + 1
    cache.forget_run(run)
    cache.put_head(run, LiveHead(_set_owner(connection, found, owner, epoch), found.as_row()))
    return ClaimedRun(run=run, epoch=epoch, owner_died=owner_died)


def release(connection: sqlite3.Connection, cache: WriterCache, *, run: str, owner: str) -> None:
    if connection.execute("select 1 from runs where run = ? and owner = ?", (run, owner)).fetchone() is not None:
        found = read_run_head(connection, run)
        _set_owner(connection, found, "", found.epoch)
    cache.forget_run(run)


def require_claimable(found: RunHead, owner: str, folder: Path) -> None:
    if found.owner not in ("", owner) and is_alive(folder, found.owner):
        raise OwnedElsewhere(found.run, found.owner)


def _set_owner(connection: sqlite3.Connection, found: RunHead, owner: str, epoch: int) -> RunHead:
    """Writes the whole row: another process must find the newest link there."""
    connection.execute(UPDATE_ROW, found.row_update())
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
