"""How a data folder is joined: what the mark beside its database says, what may be mended, and who may look into it.

Rule 1: whether something is missing is asked before anybody may write: closing a connection that writes would tidy away
the damaged log, and with it what may still be rescued by hand.
Rule 2: the mark is read before the database: another process may commit in between, and never the other way round.
Rule 3: what can be told from other rows is mended here, and said: lists of questions, counts of mail and of changes.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from interlock.adapters import migrations, questions_sqlite, sqlite_rows
from interlock.adapters.log_file import LOG_FILE
from interlock.adapters.migrations import Connect
from interlock.adapters.newest_mark import NEWEST, Damaged, NewestMark, Reached, missing, read_mark
from interlock.adapters.owner_files import LOCK, OWNERS
from interlock.adapters.private_files import tighten
from interlock.adapters.remembered_sqlite import UNRECORDED, count_of, mend_counts
from interlock.adapters.sealed_tables import has_damage, whole
from interlock.adapters.signal_files import SIGNALS
from interlock.errors import DamagedRow, RecordsMissing, StoreFailed

DATABASE = "interlock.db"

_log = logging.getLogger("interlock")


def tighten_data(folder: Path) -> None:
    """An existing folder, and what is in it, for its owner alone."""
    if not folder.is_dir():
        return
    beside = ("", "-wal", "-shm", ".new")
    ours = [*(folder / f"{DATABASE}{each}" for each in beside), folder / NEWEST, folder / LOCK]
    for name in (OWNERS, SIGNALS):
        ours += [folder / name, *(folder / name).glob("*")]
    logs = list(folder.glob(f"{LOG_FILE}*"))
    is_ours = (folder / DATABASE).exists() or all(path in logs for path in folder.iterdir())
    tighten(folder, [*ours, *logs], is_ours=is_ours)


def database_bytes(folder: Path) -> int:
    """The size of the database with its log; what is not there has none."""
    return sum(path.stat().st_size for each in ("", "-wal") if (path := folder / f"{DATABASE}{each}").exists())


def read_reached(folder: Path, connect: Connect, accepts_loss: bool) -> Reached | None:
    """What the database is known to have reached; None if nobody knows. `RecordsMissing` if it lacks some of it."""
    path = folder / DATABASE
    is_there = migrations.exists(path)
    marked = read_mark(folder)
    if not is_there:
        _require_never_used(path, marked)
        return Reached()
    if isinstance(marked, Damaged) or marked is None:
        _say_unmarked(path, marked, connect)
        return None
    lost = what_is_missing(path, marked, connect)
    if not any(lost):
        return marked
    error = RecordsMissing(str(folder), *lost)
    if not accepts_loss:
        raise error
    _log.warning("%s: %d records and %d other changes are given up", error.code, *lost)
    return None


def lost_records(folder: Path) -> RecordsMissing | None:
    """What opening the folder would be refused with."""
    path, marked = folder / DATABASE, read_mark(folder) if folder.is_dir() else None
    if not isinstance(marked, Reached) or not path.exists():
        return None
    lost = what_is_missing(path, marked, migrations.connect)
    return RecordsMissing(str(folder), *lost) if any(lost) else None


def _require_never_used(path: Path, marked: Reached | Damaged | None) -> None:
    if isinstance(marked, Reached) and any(marked):
        raise StoreFailed(
            f"'{path}' is gone, and '{NEWEST}' beside it says that it held {marked.position} records; restore it from a"
            f" backup, or move '{NEWEST}' away to begin with nothing"
        )


def _say_unmarked(path: Path, marked: Damaged | None, connect: Connect) -> None:
    with closing(connect(path, "ro")) as connection:
        try:
            is_older = migrations.version_of(connection) < migrations.SEALED_SINCE
        except sqlite3.DatabaseError:
            return  # whoever opens it says what is wrong with it
    if marked is None and is_older:
        return  # an older Interlock kept no mark
    what = "is not there" if marked is None else "is damaged"
    _log.warning("'%s' %s, so what was lost before now cannot be told; it is written anew", path.parent / NEWEST, what)


def what_is_missing(path: Path, marked: Reached, connect: Connect) -> Reached:
    with closing(connect(path, "ro")) as connection:
        try:
            return missing(marked, reached_in(connection, marked))
        except sqlite3.DatabaseError:
            return Reached()  # as above


def reached_in(connection: sqlite3.Connection, marked: Reached) -> Reached:
    """How far a database has come; a count that is damaged is taken for what the mark says."""
    position = sqlite_rows.newest_position(connection)
    if migrations.version_of(connection) < migrations.SEALED_SINCE:
        return Reached(position)
    try:
        return Reached(position, count_of(connection, UNRECORDED))
    except DamagedRow:
        return Reached(position, marked.unrecorded)


def open_mark(folder: Path, connection: sqlite3.Connection, marked: Reached | None) -> NewestMark:
    """The mark of a database that was opened for writing, brought up to it.

    Without a mark to go by, or with a loss that was accepted, it is put where the database is.
    """
    mend(connection, marked or Reached())
    found = reached_in(connection, Reached())
    mark = NewestMark(folder)
    if marked is None:
        mark.put(found)
    else:
        mark.grow(*found)
    return mark


def mend(connection: sqlite3.Connection, marked: Reached) -> None:
    """Makes damaged rows anew from what else is known, and says so."""
    mended = [what for what, (is_damaged, _) in _MENDED.items() if is_damaged(connection)]
    if not mended:
        return
    connection.execute("begin immediate")
    try:
        for what in mended:
            _MENDED[what][1](connection, marked)
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    _log.warning("damaged rows were made anew from what else is known: %s", ", ".join(mended))


def _mend_questions(connection: sqlite3.Connection, _marked: Reached) -> None:
    questions_sqlite.unlist_damaged(connection)


def _mend_mail(connection: sqlite3.Connection, _marked: Reached) -> None:
    connection.execute("delete from mailboxes")
    connection.execute(
        "insert into mailboxes (crew, agent, unread) select crew, agent, count(*) from inbox"  # noqa: S608 - constants
        f" where taken = '' and {whole('inbox')} group by 1, 2"
    )


def _mend_counts(connection: sqlite3.Connection, marked: Reached) -> None:
    mend_counts(connection, marked.unrecorded)


# What can be mended: how its damage is found, and how it is made anew.
_MENDED: dict[str, tuple[Callable[[sqlite3.Connection], bool], Callable[[sqlite3.Connection, Reached], None]]] = {
    "questions": (questions_sqlite.is_damaged, _mend_questions),
    "counts of mail": (partial(has_damage, table="mailboxes"), _mend_mail),
    "counts of changes": (partial(has_damage, table="bus_changes"), _mend_counts),
}
