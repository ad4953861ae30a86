"""Compaction: SQLite keeps freed pages for later use and never shrinks by itself."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from interlock.adapters.files.owner_files import OWNERS, is_alive
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.runs.places import make_places_again
from interlock.adapters.sqlite.runs.tail import fill_tail
from interlock.adapters.sqlite.runs.writer_cache import WriterCache

# Compacting waits this long for another process that writes; that one then waits for compacting.
WAIT_MS = 60_000


class _SubCrew(msgspec.Struct):
    crew_sha: str = ""


class _Crew(msgspec.Struct):
    """The part of a crew that names the crews it calls."""

    sub_crews: dict[str, _SubCrew] = {}


_calls_of = msgspec.json.Decoder(_Crew).decode


def compact(database: Path, owner: str, connect: Connect) -> tuple[int, int]:
    """Compacts the database. Returns its sizes before and after, in bytes."""
    with closing(connect(database, "rw")) as connection:
        connection.execute(f"pragma busy_timeout = {WAIT_MS:d}").fetchone()
        connection.execute("pragma synchronous = full")
        before = _size(connection)
        if _is_alone(database.parent, owner):
            _drop_unused_crews(connection)
        _make_places_again(connection)
        connection.execute("vacuum")
        # While another connection reads, the file keeps its size; a later checkpoint shrinks it.
        connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return before, _size(connection)


def _make_places_again(connection: sqlite3.Connection) -> None:
    """Makes the index of records again: it may be damaged, and one that is made at once is smaller."""
    connection.execute("begin immediate")
    try:
        make_places_again(connection)
        fill_tail(connection, WriterCache())
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _size(connection: sqlite3.Connection) -> int:
    return int(
        connection.execute("select page_count * page_size from pragma_page_count(), pragma_page_size()").fetchone()[0]
    )


def _is_alone(folder: Path, owner: str) -> bool:
    """Whether no other process has the folder open; another one may be about to use a crew that it stored."""
    return all(file.stem == owner or not is_alive(folder, file.stem) for file in (folder / OWNERS).glob("*.lock"))


def _drop_unused_crews(connection: sqlite3.Connection) -> None:
    """Deletes old crews that no run and no subscription uses."""
    connection.execute("begin immediate")
    try:
        named = "select crew_sha from runs union select sha from crew_heads"
        ahead = [sha for (sha,) in connection.execute(named).fetchall()]
        used: set[str] = set()
        while ahead:
            sha = ahead.pop()
            if sha not in used:
                used.add(sha)
                ahead += _sub_crew_shas(connection, sha)
        every = [sha for (sha,) in connection.execute("select sha from crews").fetchall()]
        connection.executemany("delete from crews where sha = ?", [(sha,) for sha in every if sha not in used])
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _sub_crew_shas(connection: sqlite3.Connection, sha: str) -> list[str]:
    found = connection.execute("select body from crews where sha = ?", (sha,)).fetchone()
    return [] if found is None else [entry.crew_sha for entry in _calls_of(found[0]).sub_crews.values()]
