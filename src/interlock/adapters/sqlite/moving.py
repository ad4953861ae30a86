"""A data folder in a move: it is locked, and its rows are read and written in the neutral form.

Rule 1: the folder stays locked for the whole move, so no other process can open it; one that has it open already is
found by its owner file.
Rule 2: the crc of a record or a presence covers the number of its run, which the neutral form has beside it.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.crash_points import crash_point
from interlock.adapters.files import data_folder
from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.files.mounts import require_local
from interlock.adapters.files.move_marks import read_move_mark, write_move_mark
from interlock.adapters.files.owner_files import live_owners, lock_folder
from interlock.adapters.sqlite import checks, migrations
from interlock.adapters.sqlite.bus.change_counts import PRESENCE_FILLED, PRESENCE_NEWEST, increment_change_count
from interlock.adapters.sqlite.bus.record_presence import TOLD, presence_in_column, write_presence
from interlock.adapters.sqlite.database import make_folders, open_database
from interlock.adapters.sqlite.failures import as_store_failed
from interlock.adapters.sqlite.runs.places import make_places_again, newest_position
from interlock.adapters.sqlite.runs.run_head import COLUMNS, INSERT_RUN, as_int32, head_from_row, row_crc
from interlock.adapters.sqlite.runs.tombstones import NO_RUN, tombstone_crc
from interlock.adapters.store_rules.moved_tables import NEWEST_SET_ASIDES, clean_row
from interlock.broadcast.presence import RecordPresence
from interlock.errors import StoreFailed
from interlock.ports import Tombstone
from interlock.ports.moving import MOVED_BYTES_MAX, MOVED_ROWS_MAX, MovedRow, MovedTable, MoveMark

# Tables that are not moved, and columns that are left out of those that are, with the reason.
NOT_MOVED = {
    "places": "an index of the records, made again",
    "bus_changes": "counts of changes in this folder",
    "provider_holds": "over within two minutes",
}
NOT_MOVED_COLUMNS = {
    "runs": {"owner": "a process that is gone", "crc": "made again from the row"},
    "tombstones": {"crc": "made again from the row"},
    "outbox": {"sender": "a process that is gone"},
    "set_asides": {"owner": "a process that is gone"},
    "leaders": {"owner": "a process that is gone"},
    "inbox": {"number": "the order is that of the broadcasts"},
}

_SOURCES = {"set_asides": NEWEST_SET_ASIDES.format("set_asides"), "records": f"records where run <> {NO_RUN:d}"}
# Columns that are not part of the neutral row, with their values.
_ADDED = {"set_asides": {"owner": ""}, "leaders": {"owner": ""}}
_COUNTS_TO_CHANGE = ("subscriptions", "delayed", "presence", "unrecorded")
_RUN_COLUMNS = tuple(COLUMNS.split(", "))

_encode = msgspec.json.Encoder().encode


@contextmanager
def hold_folder(folder: Path, connect: migrations.Connect, *, create: bool) -> Iterator["MovedFolder"]:
    """Locks a data folder for a move. `create` makes one that is not there."""
    path = folder / DATABASE
    if not create and not migrations.has_database(path):
        raise StoreFailed(f"there is no {DATABASE} in '{folder}'; name the data folder")
    with as_store_failed(f"open the data folder '{folder}'"):
        make_folders(folder)
        require_local(folder)
    with lock_folder(folder):
        with as_store_failed(f"open the data folder '{folder}'"):
            marked = data_folder.read_progress(folder, connect, accepts_loss=False)
            reading, writing, mark = open_database(path, "full", connect, marked, owner="")  # the lock is held
        try:
            yield MovedFolder(folder, reading, writing)
        finally:
            with as_store_failed(f"close the data folder '{folder}'"):
                reading.close()
                writing.close()
                mark.close()


class MovedFolder:
    """`MovableStore` of a data folder."""

    def __init__(self, folder: Path, reading: sqlite3.Connection, writing: sqlite3.Connection) -> None:
        self._folder, self._reading, self._writing = folder, reading, writing

    def read_mark(self) -> MoveMark | None:
        return read_move_mark(self._folder)

    def write_mark(self, mark: MoveMark | None) -> None:
        with as_store_failed(f"mark the data folder '{self._folder}'"):
            crash_point("before mark")
            write_move_mark(self._folder, mark)
            crash_point("after mark")

    def require_unused(self) -> None:
        if owners := sorted(live_owners(self._folder)):
            raise StoreFailed(f"process {owners[0].partition('-')[0]} has '{self._folder}' open; stop it first")

    def problems(self) -> Sequence[str]:
        return checks.problems(self._reading)

    def newest_position(self) -> int:
        return newest_position(self._reading)

    def last_key(self, table: MovedTable) -> MovedRow | None:
        down = ", ".join(f"{name} desc" for name in table.key)
        query = f"select {', '.join(table.key)} from {_source_of(table)} order by {down} limit 1"  # noqa: S608 - constants
        with as_store_failed(f"read the table '{table.name}'"):
            found = self._reading.execute(query).fetchone()
        return None if found is None else tuple(found)

    def read_page(self, table: MovedTable, after: MovedRow | None) -> Sequence[MovedRow]:
        key, source = ", ".join(table.key), _source_of(table)
        fence = "" if after is None else f"{_and(source)} ({key}) > ({', '.join('?' * len(table.key))})"
        query = f"select {_columns_to_select(table)} from {source}{fence} order by {key} limit {MOVED_ROWS_MAX:d}"  # noqa: S608 - constants
        rows, size = [], 0
        with as_store_failed(f"read the table '{table.name}'"):
            for found in self._reading.execute(query, after or ()):
                rows.append(clean_row(table, _neutral_row(table, found)))
                size += sum(len(value) for value in found if type(value) is bytes)
                if size >= MOVED_BYTES_MAX:
                    break
        return rows

    def add_page(self, table: MovedTable, rows: Sequence[MovedRow]) -> None:
        added = _ADDED.get(table.name, {})
        statement = _insert_statement((*table.columns, *added), table.name)
        values = [_row_to_store(table, row, tuple(added.values())) for row in rows]
        with self._transaction(f"add to the table '{table.name}'"):
            self._writing.executemany(_STATEMENTS.get(table.name, statement), values)
        with as_store_failed("write the log back"):
            self._writing.execute("pragma wal_checkpoint").fetchone()  # else it grows to the size of the store

    def finish_rows(self, newest_position: int) -> None:
        with self._transaction("finish a move"):
            self._occupy_position(newest_position)
            make_places_again(self._writing)
            newest = "select coalesce(max(position), 0) from records where presence is not null"
            present = self._writing.execute(newest).fetchone()[0]
            for name, number in ((PRESENCE_FILLED, newest_position), (PRESENCE_NEWEST, present)):
                put = "insert or replace into bus_changes (name, number) values (?, ?)"
                self._writing.execute(put, (name, number))
            for name in _COUNTS_TO_CHANGE:
                increment_change_count(self._writing, name)

    def _occupy_position(self, newest: int) -> None:
        """The newest records may have been deleted; a blank keeps their position from being given again."""
        self._writing.execute(
            "insert into records (position, run, seq, crc, link, body) select ?1, ?2, 0, 0, x'', x''"
            " where ?1 > (select coalesce(max(position), 0) from records)",
            (newest, NO_RUN),
        )

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        with as_store_failed(doing):
            self._writing.execute("begin immediate")
            try:
                yield
                crash_point("before commit")
                self._writing.execute("commit")
                crash_point("after commit")
            finally:
                if self._writing.in_transaction:
                    self._writing.execute("rollback")


def _source_of(table: MovedTable) -> str:
    return _SOURCES.get(table.name, table.name)


def _and(source: str) -> str:
    return " and" if " where run <>" in source else " where"


def _columns_to_select(table: MovedTable) -> str:
    """The row of a run is read as a whole, because its crc covers all of it."""
    return f"number, {COLUMNS}, crc" if table.name == "runs" else ", ".join(table.columns)


def _neutral_row(table: MovedTable, found: Sequence[Any]) -> MovedRow:
    if table.name == "runs":
        return _neutral_run(table, found)
    if table.name == "records":
        return _neutral_record(found)
    return tuple(found)


def _neutral_run(table: MovedTable, found: Sequence[Any]) -> MovedRow:
    head = head_from_row(found)
    if head is None:
        raise StoreFailed(f"the row of run '{found[1]}' is damaged; restore it from a backup before it is moved")
    return tuple([getattr(head, name) for name in table.columns])


def _neutral_record(found: Sequence[Any]) -> MovedRow:
    position, number, seq, crc, link, presence, body = found
    if isinstance(presence, bytes):
        at, agents = presence_in_column(presence, number, seq)
        if agents is None:
            raise StoreFailed(f"the presence of the record at position {position} is damaged; run 'interlock doctor'")
        presence = _encode((at, agents.ended, agents.begun, agents.quiet)).decode()
    elif presence is not None:
        presence = str(presence)
    return position, number, seq, (crc ^ number) & 0xFFFF_FFFF, link, presence, body


def _row_to_store(table: MovedTable, row: MovedRow, added: tuple[Any, ...]) -> tuple[Any, ...]:
    if table.name == "runs":
        return _run_to_store(dict(zip(table.columns, row, strict=True)))
    if table.name == "records":
        return _record_to_store(row)
    if table.name == "tombstones":
        left = Tombstone(**dict(zip(table.columns, row, strict=True)))
        return (*row, tombstone_crc(left))
    return (*row, *added)


def _run_to_store(row: dict[str, Any]) -> tuple[Any, ...]:
    values = [row.get(name, "") for name in _RUN_COLUMNS]  # only the owner is not there
    return (row["number"], *values, row_crc(row["number"], values))


def _record_to_store(row: MovedRow) -> tuple[Any, ...]:
    position, number, seq, crc, link, presence, body = row
    stored: bytes | int | None = None
    if presence is not None:
        known = msgspec.json.decode(presence)
        stored = TOLD if known == TOLD else _presence_to_store(known, number, seq)
    return position, number, seq, as_int32(crc ^ (number & 0xFFFF_FFFF)), link, stored, body


def _presence_to_store(known: Sequence[Any], number: int, seq: int) -> bytes:
    at, ended, begun, quiet = known
    return write_presence(at, RecordPresence(tuple(ended), tuple(begun), tuple(quiet)), number, seq)


def _insert_statement(columns: Sequence[str], table: str) -> str:
    return f"insert into {table} ({', '.join(columns)}) values ({', '.join('?' * len(columns))})"  # noqa: S608 - constants


_STATEMENTS = {
    "runs": INSERT_RUN,
    "tombstones": _insert_statement(("run", "crew", "seq", "link", "deleted_at", "crc"), "tombstones"),
}
