"""SQL on tombstones: what stays of a deleted run."""

import sqlite3
from zlib import crc32

import msgspec

from interlock.adapters.store_rules.record_format import Tip
from interlock.errors import DamagedRun, RunDeleted, RunExists, RunNotFound
from interlock.ports import Tombstone

# The number of no run: the numbers of runs start at 1.
NO_RUN = 0

_encode = msgspec.json.Encoder().encode


def not_found_error(connection: sqlite3.Connection, run: str) -> RunNotFound:
    """The error for a run that does not exist: deleted, or never there."""
    deleted = connection.execute("select 1 from tombstones where run = ?", (run,)).fetchone()
    return RunDeleted(run) if deleted else RunNotFound(run)


def is_id_taken(connection: sqlite3.Connection, run: str) -> bool:
    """Whether an id is in use. A deleted run keeps its id, so that a repeated request never makes a second run."""
    query = "select 1 from runs where run = ? union all select 1 from tombstones where run = ?"
    return connection.execute(query, (run, run)).fetchone() is not None


def require_free(connection: sqlite3.Connection, run: str, tip: Tip) -> None:
    """`RunExists` unless the id is new, or belongs to a deleted run with the same end of its chain."""
    left = connection.execute("select seq, link from tombstones where run = ?", (run,)).fetchone()
    if is_id_taken(connection, run) and left != (tip.seq, tip.link):
        raise RunExists(run)


def replace_with_tombstone(connection: sqlite3.Connection, number: int, left: Tombstone) -> None:
    connection.execute("delete from runs where number = ?", (number,))
    connection.execute(
        "insert into tombstones (run, crew, seq, link, deleted_at, crc) values (?, ?, ?, ?, ?, ?)",
        (left.run, left.crew, left.seq, left.link, left.deleted_at, tombstone_crc(left)),
    )


def tombstone_crc(left: Tombstone) -> int:
    """The crc that is stored with it."""
    return crc32(_encode((left.run, left.crew, left.seq, left.link, left.deleted_at)))


def tombstones(connection: sqlite3.Connection) -> list[Tombstone]:
    query = "select run, crew, seq, link, deleted_at, crc from tombstones order by deleted_at, run"
    return [_tombstone_from_row(*found) for found in connection.execute(query).fetchall()]


def _tombstone_from_row(run: str, crew: str, seq: int, link: bytes, deleted_at: int, crc: int) -> Tombstone:
    left = Tombstone(run=run, crew=crew, seq=seq, link=link, deleted_at=deleted_at)
    if tombstone_crc(left) != crc:
        raise DamagedRun(run, "the crc of its tombstone does not match")
    return left


def expire_tombstones(connection: sqlite3.Connection, *, before: int) -> int:
    return connection.execute("delete from tombstones where deleted_at < ?", (before,)).rowcount
