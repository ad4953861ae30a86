"""Whole runs in the SQLite store: tombstones of deleted ones, a check of everything, a copy of everything."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec

from interlock.adapters import migrations
from interlock.adapters.journal_format import Tip
from interlock.adapters.migrations import Connect
from interlock.adapters.private_files import make_private_file
from interlock.errors import DamagedRun, RunDeleted, RunExists, RunNotFound, StoreFailed
from interlock.ids import CHILD_MARK
from interlock.ports import Tombstone

# Copied at a time; between two pieces whoever writes may go on.
BACKUP_PAGES = 1_000

# The number of no run: those of runs begin with 1.
NOBODY = 0

_encode = msgspec.json.Encoder().encode


def missing(connection: sqlite3.Connection, run: str) -> RunNotFound:
    """Why there is no such run."""
    buried = connection.execute("select 1 from tombstones where run = ?", (run,)).fetchone()
    return RunDeleted(run) if buried else RunNotFound(run)


def is_taken(connection: sqlite3.Connection, run: str) -> bool:
    """A deleted run keeps its id, so that asking twice for one run never makes two."""
    query = "select 1 from runs where run = ? union all select 1 from tombstones where run = ?"
    return connection.execute(query, (run, run)).fetchone() is not None


def require_free(connection: sqlite3.Connection, run: str, tip: Tip) -> None:
    """`RunExists` unless the id is new, or that of a deleted run whose chain ended just here."""
    left = connection.execute("select seq, link from tombstones where run = ?", (run,)).fetchone()
    if is_taken(connection, run) and left != (tip.seq, tip.link):
        raise RunExists(run)


def bury(connection: sqlite3.Connection, number: int, left: Tombstone) -> None:
    _drop_records(connection, number)
    connection.execute("delete from runs where number = ?", (number,))
    connection.execute(
        "insert into tombstones (run, crew, seq, link, deleted_at, crc) values (?, ?, ?, ?, ?, ?)",
        (left.run, left.crew, left.seq, left.link, left.deleted_at, _crc(left)),
    )


def _drop_records(connection: sqlite3.Connection, number: int) -> None:
    """The newest place in the order of all records stays taken, by a blank: a position is never given twice."""
    newest = connection.execute("select max(position) from records").fetchone()[0]
    connection.execute("delete from records where run in (?, ?) and position < ?", (number, NOBODY, newest))
    connection.execute(
        "update records set run = ?, seq = 0, crc = 0, link = x'', body = x'' where run = ?", (NOBODY, number)
    )


def _crc(left: Tombstone) -> int:
    return crc32(_encode((left.run, left.crew, left.seq, left.link, left.deleted_at)))


def tombstones(connection: sqlite3.Connection) -> list[Tombstone]:
    query = "select run, crew, seq, link, deleted_at, crc from tombstones order by deleted_at, run"
    return [_checked(*found) for found in connection.execute(query).fetchall()]


def _checked(run: str, crew: str, seq: int, link: bytes, deleted_at: int, crc: int) -> Tombstone:
    left = Tombstone(run=run, crew=crew, seq=seq, link=link, deleted_at=deleted_at)
    if _crc(left) != crc:
        raise DamagedRun(run, "the crc of its tombstone does not hold")
    return left


def finished_before(connection: sqlite3.Connection, *, before: int, after: str, limit: int) -> list[str]:
    query = (
        "select run from runs where run > ? and updated_at < ? and status not in ('running', 'paused')"
        " and instr(run, ?) = 0 order by run limit ?"
    )
    return [run for (run,) in connection.execute(query, (after, before, CHILD_MARK, limit)).fetchall()]


def expire_tombstones(connection: sqlite3.Connection, *, before: int) -> int:
    return connection.execute("delete from tombstones where deleted_at < ?", (before,)).rowcount


def back_up(database: Path, mode: str, file: Path, connect: Connect) -> None:
    """Under another name first, so that a copy that breaks off is never taken for a whole one."""
    if os.path.lexists(file):
        raise StoreFailed(f"'{file}' exists already; a backup overwrites nothing")
    draft = file.with_name(f"{file.name}.part")
    draft.unlink(missing_ok=True)
    make_private_file(draft)
    try:
        with closing(connect(database, mode)) as source, closing(connect(draft, "rwc")) as copy:
            copy.execute("pragma synchronous = extra")
            source.execute("begin")  # one moment for the whole copy, whoever writes meanwhile
            source.backup(copy, pages=BACKUP_PAGES)
            copy.execute("pragma journal_mode = delete").fetchone()
            migrations.require_sound(copy, file)
        draft.rename(file)
        migrations.sync_folder(file.absolute().parent)
    finally:
        draft.unlink(missing_ok=True)
