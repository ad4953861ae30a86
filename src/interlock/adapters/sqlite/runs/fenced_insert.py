"""The statement that appends a record.

Rule: it adds nothing unless the run has the same owner and epoch, and its newest record the same link, which stands for
the run's id, its seq and all that was ever appended to it. Which record is the newest is cached, and dropped as soon as
another process has stored one of that run.
"""

import sqlite3
from collections.abc import Sequence
from zlib import crc32

from interlock.adapters.sqlite.runs.run_head import as_int32
from interlock.adapters.sqlite.runs.tail import EVENTS_BEHIND_MAX, TOLD_BYTES_MAX, row_told_by
from interlock.adapters.sqlite.runs.writer_cache import LiveHead
from interlock.adapters.store_rules.record_format import next_link
from interlock.ports import Record, RunRow

# The run of the row is null, which the table refuses, unless the fence holds. A subquery in place of a select from the
# same table, which SQLite would copy first.
_INSERT = (
    "insert or ignore into records (run, seq, crc, link, presence, body) values ("
    "(select number from runs where number = ? and owner = ? and epoch = ?"
    " and coalesce((select link from records where position = ? and run = number), link) = ?{}), ?, ?, ?, ?, ?)"
)
INSERT_FENCED = _INSERT.format("")
# Besides, it adds nothing if another process has stored a record, or made a change without one.
INSERT_LONE = _INSERT.format(
    " and (select max(position) from records) = ? and (select number from bus_changes where name = 'unrecorded') = ?"
)


def insert_fenced(
    connection: sqlite3.Connection,
    statement: str,
    known: LiveHead,
    record: Record,
    body: bytes,
    presence: bytes | int | None,
    more: tuple[int, ...] = (),
) -> int | None:
    """Stores a record at the end of its run; None with nothing written if the fence does not hold."""
    number, link = known.number, next_link(known.link, body)
    crc = as_int32(crc32(body) ^ (number & 0xFFFF_FFFF))
    fence = (number, known.owner, known.epoch, known.position, known.link, *more)
    done = connection.execute(statement, (*fence, record.seq, crc, link, presence, body))
    if done.rowcount != 1:
        return None
    position = done.lastrowid
    assert position is not None, "an insert has a rowid"
    known.seq, known.link, known.position = known.seq + len(record.events), link, position
    return position


def is_told(known: LiveHead, row: RunRow, record: Record, size: int, begun: Sequence[str]) -> bool:
    """Whether the row of a run need not be written: it follows from the row before and the record.

    Ask it before the record is stored. `begun` are those of `agents_in_record`.
    """
    before = known.row
    return (
        row.status == before.status == "running"
        and known.seq + len(record.events) - known.row_seq <= EVENTS_BEHIND_MAX
        and row.reason == before.reason
        and row.updated_at == record.at
        and size <= TOLD_BYTES_MAX
        and row_told_by(record.events, begun, before.agent, before.usage) == (row.agent, row.usage)
    )
