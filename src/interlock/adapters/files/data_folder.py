"""Opening a data folder: check its mark, repair what can be repaired, and restrict its permissions.

Rule 1: the check for missing records comes before any write: closing a connection that writes would remove the damaged
log, and with it what may still be rescued by hand.
Rule 2: the mark is read before the database: another process may commit in between, and the mark must not be ahead.
Rule 3: rows that follow from other rows are repaired here, with a warning: questions, unread counts, change counts,
the index of records.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from interlock.adapters.files.newest_mark import NEWEST, DamagedMark, NewestMark, StoreProgress, read_mark, shortfall_of
from interlock.adapters.files.owner_files import LOCK, OWNERS
from interlock.adapters.files.private_files import restrict_permissions
from interlock.adapters.files.signal_files import SIGNALS
from interlock.adapters.log.log_file import LOG_FILE
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.bus.change_counts import (
    UNRECORDED,
    change_count_of,
    increment_change_count,
    repair_change_counts,
)
from interlock.adapters.sqlite.failures import DAMAGE
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.runs.places import has_wrong_places, make_places_again, newest_position
from interlock.adapters.sqlite.sealed_tables import has_damage, intact_condition
from interlock.adapters.sqlite.tables import question_rows
from interlock.errors import DamagedRow, RecordsMissing, StoreFailed

DATABASE = "interlock.db"

_log = logging.getLogger("interlock")


def restrict_data_folder(folder: Path) -> None:
    """Restricts an existing folder, and its files, to its owner."""
    if not folder.is_dir():
        return
    beside = ("", "-wal", "-shm", ".new")
    ours = [*(folder / f"{DATABASE}{each}" for each in beside), folder / NEWEST, folder / LOCK]
    for name in (OWNERS, SIGNALS):
        ours += [folder / name, *(folder / name).glob("*")]
    logs = list(folder.glob(f"{LOG_FILE}*"))
    is_ours = (folder / DATABASE).exists() or all(path in logs for path in folder.iterdir())
    restrict_permissions(folder, [*ours, *logs], is_ours=is_ours)


def database_bytes(folder: Path) -> int:
    """The size of the database with its log; missing files count as 0."""
    return sum(path.stat().st_size for each in ("", "-wal") if (path := folder / f"{DATABASE}{each}").exists())


def read_progress(folder: Path, connect: Connect, accepts_loss: bool) -> StoreProgress | None:
    """The progress that the mark shows; None if it is unknown. `RecordsMissing` if the database is behind it."""
    path = folder / DATABASE
    is_there = migrations.has_database(path)
    marked = read_mark(folder)
    if not is_there:
        _require_never_used(path, marked)
        return StoreProgress()
    if isinstance(marked, DamagedMark) or marked is None:
        _warn_unmarked(path, marked, connect)
        return None
    lost = shortfall_in_database(path, marked, connect)
    if not any(lost):
        return marked
    error = RecordsMissing(str(folder), *lost)
    if not accepts_loss:
        raise error
    _log.warning("%s: %d records and %d other changes are lost", error.code, *lost)
    return None


def records_missing_in(folder: Path) -> RecordsMissing | None:
    """The error with which opening the folder would be refused."""
    path, marked = folder / DATABASE, read_mark(folder) if folder.is_dir() else None
    if not isinstance(marked, StoreProgress) or not path.exists():
        return None
    lost = shortfall_in_database(path, marked, migrations.connect)
    return RecordsMissing(str(folder), *lost) if any(lost) else None


def _require_never_used(path: Path, marked: StoreProgress | DamagedMark | None) -> None:
    if isinstance(marked, StoreProgress) and any(marked):
        raise StoreFailed(
            f"'{path}' is gone, but '{NEWEST}' beside it says that it held {marked.position} records; restore it from"
            f" a backup, or move '{NEWEST}' away to start empty"
        )


def _warn_unmarked(path: Path, marked: DamagedMark | None, connect: Connect) -> None:
    with closing(connect(path, "ro")) as connection:
        try:
            is_older = migrations.version_of(connection) < migrations.SEALED_SINCE
        except DAMAGE:
            return  # opening it reports the damage
    if marked is None and is_older:
        return  # an older Interlock kept no mark
    what = "is not there" if marked is None else "is damaged"
    _log.warning("'%s' %s, so earlier losses cannot be detected; it is written again", path.parent / NEWEST, what)


def shortfall_in_database(path: Path, marked: StoreProgress, connect: Connect) -> StoreProgress:
    with closing(connect(path, "ro")) as connection:
        try:
            return shortfall_of(marked, progress_of(connection, marked))
        except DAMAGE:
            return StoreProgress()  # as above


def progress_of(connection: sqlite3.Connection, marked: StoreProgress) -> StoreProgress:
    """The progress of a database; a damaged count is replaced by that of the mark."""
    position = newest_position(connection)
    if migrations.version_of(connection) < migrations.SEALED_SINCE:
        return StoreProgress(position)
    try:
        return StoreProgress(position, change_count_of(connection, UNRECORDED))
    except DamagedRow:
        return StoreProgress(position, marked.unrecorded)


def open_mark(folder: Path, connection: sqlite3.Connection, marked: StoreProgress | None, owner: str) -> NewestMark:
    """Opens the mark of a database that was opened for writing, and advances it. The owner writes a line of its own.

    Without a mark, or with an accepted loss, it is set to the progress of the database.
    """
    repair_damaged_rows(connection, marked or StoreProgress())
    found = progress_of(connection, StoreProgress())
    mark = NewestMark(folder, owner)
    if marked is None:
        mark.reset(found)
    else:
        mark.advance(*found)
    return mark


def repair_damaged_rows(connection: sqlite3.Connection, marked: StoreProgress) -> None:
    """Rebuilds damaged rows from other rows, with a warning."""
    repaired = [what for what, (is_damaged, _) in _REPAIRS.items() if is_damaged(connection)]
    if not repaired:
        return
    connection.execute("begin immediate")
    try:
        for what in repaired:
            _REPAIRS[what][1](connection, marked)
        increment_change_count(connection, UNRECORDED)  # other processes notice it
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    _log.warning("damaged rows were rebuilt from other rows: %s", ", ".join(repaired))


def _repair_questions(connection: sqlite3.Connection, _marked: StoreProgress) -> None:
    question_rows.reset_if_damaged(connection)


def _repair_unread_counts(connection: sqlite3.Connection, _marked: StoreProgress) -> None:
    connection.execute("delete from mailboxes")
    connection.execute(
        "insert into mailboxes (crew, agent, unread) select crew, agent, count(*) from inbox"  # noqa: S608 - constants
        f" where taken = '' and {intact_condition('inbox')} group by 1, 2"
    )


def _repair_change_counts(connection: sqlite3.Connection, marked: StoreProgress) -> None:
    repair_change_counts(connection, marked.unrecorded)


def _has_wrong_places(connection: sqlite3.Connection) -> bool:
    return migrations.is_checked_at_open(connection) and has_wrong_places(connection)


def _repair_places(connection: sqlite3.Connection, _marked: StoreProgress) -> None:
    make_places_again(connection)


# Repairs: how damage is found, and how it is repaired.
_REPAIRS: dict[
    str, tuple[Callable[[sqlite3.Connection], bool], Callable[[sqlite3.Connection, StoreProgress], None]]
] = {
    "questions": (question_rows.has_damaged_rows, _repair_questions),
    "unread counts": (partial(has_damage, table="mailboxes"), _repair_unread_counts),
    "index of records": (_has_wrong_places, _repair_places),
    "change counts": (partial(has_damage, table="bus_changes"), _repair_change_counts),
}
