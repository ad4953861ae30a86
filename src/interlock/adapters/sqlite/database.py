"""The open database of a data folder: its connections, and the lock files of its owner.

Rule 1: this process writes by one connection, reads by another, and writes the log back by a third; `writer` has the
rules of writing.
Rule 2: reading runs in a thread of its own, and all queries of one piece of work see one state.
Rule 3: nothing here crosses a fork.
"""

import asyncio
import ctypes
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from interlock.adapters.files import data_folder
from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.files.mounts import require_local
from interlock.adapters.files.move_marks import read_move_mark
from interlock.adapters.files.newest_mark import NewestMark, StoreProgress
from interlock.adapters.files.owner_files import OWNERS, OwnerFile, lock_folder, remove_dead_owners
from interlock.adapters.files.private_files import make_private_folder
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.failures import as_store_failed
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.runs.tail import fill_at_opening
from interlock.adapters.sqlite.write_jobs import Work
from interlock.adapters.sqlite.writer import Writer
from interlock.adapters.store_rules.moved_tables import require_not_moved
from interlock.errors import StoreBroken, StoreFailed, UsageError
from interlock.ports import NEWEST_FORMAT, RunFormat

T = TypeVar("T")
Query = Callable[[sqlite3.Connection], T]

DURABILITIES = ("full", "normal")  # also the words of SQLite's `synchronous`

# Page cache of the writer. Ids of runs and broadcasts grow with time, so writing touches the newest pages of every
# index; more than this only makes a server seem to grow for days, until its cache is full.
CACHE_KB = 4 * 1024

# The write-ahead log is cut back to this size when a long reader has let it grow.
LOG_BYTES_MAX = 64 * 1024 * 1024


def leak_connection(connection: sqlite3.Connection) -> None:
    """Never closes it: closing would write to files that belong to another process by now."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class ThisProcess:
    """The id of this process, which a fork changes: to ask for it with every use would be a system call each."""

    pid = os.getpid()


_open_databases: "WeakSet[Database]" = WeakSet()


def _after_fork_in_child() -> None:
    ThisProcess.pid = os.getpid()
    for database in list(_open_databases):
        database.release_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Database:
    """Opens a data folder, and runs work on its connections. The tables of a store are classes that inherit from it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        durability: str = "full",
        accepts_loss: bool = False,
        connect: Connect = migrations.connect,
        knows: RunFormat = NEWEST_FORMAT,
    ) -> None:
        """Creates the folder and the database if there are none; `StoreFailed`, with nothing changed, if it cannot.

        `RecordsMissing` for a database that has lost records or changes, unless the loss is accepted.
        `connect` opens every connection; tests of faults pass their own. `knows` is less for an older version.
        """
        if durability not in DURABILITIES:
            raise UsageError(f"there is no durability '{durability}'; use one of {', '.join(DURABILITIES)}")
        self._set_up(folder, connect, knows)
        path = self.folder / DATABASE
        with as_store_failed(f"open the data folder '{self.folder}'"):
            make_folders(self.folder)
            require_local(self.folder)
            with lock_folder(self.folder):
                require_not_moved(read_move_mark(self.folder), str(self.folder))
                marked = data_folder.read_progress(self.folder, connect, accepts_loss or durability == "normal")
                remove_dead_owners(self.folder)
                self._owner = OwnerFile(self.folder, knows)
                try:
                    self._reading, self._writing, self._mark = open_database(
                        path, durability, connect, marked, self._owner.id
                    )
                    self._write_back = connect(path, "rw")
                except BaseException:
                    self._owner.close()
                    raise
        self._writer = Writer(self._writing, self._write_back, path, durability, self._mark)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="interlock-reader")
        _open_databases.add(self)

    def _set_up(self, folder: str | os.PathLike[str], connect: Connect, knows: RunFormat = NEWEST_FORMAT) -> None:
        self.folder, self.knows = Path(folder).absolute(), knows
        self._pid = ThisProcess.pid
        self._closed = False
        self._connect, self._mode = connect, "rw"
        self._more: list[sqlite3.Connection] = []

    @property
    def owner(self) -> str:
        """The id under which this store owns runs."""
        return self._owner.id

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def write(self, doing: str, work: Work[T], size: int = 0) -> T:
        """Runs a piece of work in a transaction; returns when it is committed, or raises why it is not."""
        self._require_usable()
        return await self._writer.write(doing, work, size)

    async def read(self, doing: str, work: Query[T]) -> T:
        """Runs queries in the reader thread."""
        self._require_usable()
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read_now, doing, work)

    def _read_now(self, doing: str, work: Query[T]) -> T:
        """Runs the queries of one piece of work in one transaction, so that they see one state."""
        with as_store_failed(doing):
            self._reading.execute("begin")
            try:
                return work(self._reading)
            finally:
                with suppress(sqlite3.Error):
                    if self._reading.in_transaction:
                        self._reading.execute("commit")

    def version(self) -> int | None:
        """A number that changes when another process has committed; None while it is unknown."""
        return None if self._closed else self._writer.version()

    def version_at_rest(self) -> int | None:
        """The same, and None while a commit is in progress."""
        return None if self._closed else self._writer.version(also_in_commits=False)

    def open_reader(self) -> sqlite3.Connection:
        """A connection to read with, in a thread of the caller; a forked child leaks it like the others."""
        self._require_usable()
        connection = self._connect(self.folder / DATABASE, "rw")
        connection.execute("pragma query_only = on")
        self._more.append(connection)
        return connection

    async def close(self) -> None:
        """Finishes all requested writes, then closes. Other processes can claim the runs of this store from now on.

        `StoreFailed` if the disk did not keep what was written, also if a caller got that error before: with durability
        "normal" what was acknowledged since the last checkpoint may be lost.
        """
        self._require_this_process()
        if self._closed:
            return
        self._closed = True
        self._writer.hand_over_to_thread()
        with as_store_failed(f"close the data folder '{self.folder}'"):
            await asyncio.get_running_loop().run_in_executor(self._reader, self._close_all)
        self._reader.shutdown(wait=False)
        self._require_unbroken()

    def release_after_fork(self) -> None:
        """In a forked child: drops everything without touching what the parent uses."""
        for connection in (self._reading, self._writing, self._write_back, *self._more):
            leak_connection(connection)
        self._mark.close_descriptor()
        with suppress(OSError):
            os.close(self._owner.descriptor)

    def _close_all(self) -> None:
        self._writer.stop()
        for connection in (self._reading, self._write_back, self._writing):
            if self._writer.broken is None:
                connection.close()
            else:
                leak_connection(connection)
        _open_databases.discard(self)
        self._mark.close()
        self._owner.close()

    def _require_this_process(self) -> None:
        if ThisProcess.pid != self._pid:
            raise StoreFailed("the store was opened before a fork and cannot be used after it; open it in the child")

    def _require_usable(self) -> None:
        self._require_this_process()
        if self._closed:
            raise StoreFailed(f"the store in '{self.folder}' is closed; open it again")
        self._require_unbroken()

    def _require_unbroken(self) -> None:
        if self._writer.broken is not None:
            raise StoreBroken(self._writer.broken)


def open_database(
    path: Path, durability: str, connect: Connect, marked: StoreProgress | None, owner: str
) -> tuple[sqlite3.Connection, sqlite3.Connection, NewestMark]:
    """Opens a connection to read and one to write, to a valid database of the newest schema, and its mark."""
    if not migrations.has_database(path):
        migrations.make_database(path, connect)
    reading, writing = connect(path, "rw"), connect(path, "rw")
    try:
        migrations.require_ours(writing, path)
        migrations.require_sound(writing, path)
        for setting in _settings(durability):
            writing.execute(f"pragma {setting}").fetchone()
        migrations.migrate(writing)
        reading.execute("pragma query_only = on")
        mark = data_folder.open_mark(path.parent, writing, marked, owner)
        fill_at_opening(writing)
        return reading, writing, mark
    except BaseException:
        reading.close()
        writing.close()
        raise


def _settings(durability: str) -> tuple[str, ...]:
    """The writer makes checkpoints: SQLite would make them during a commit, and not report a failure."""
    log = (f"journal_size_limit = {LOG_BYTES_MAX}", "wal_autocheckpoint = 0")
    return ("journal_mode = wal", f"synchronous = {durability}", f"cache_size = -{CACHE_KB}", *log)


def make_folders(folder: Path) -> None:
    """Creates the folder of a database, if there is none, and restricts it to its owner."""
    data_folder.restrict_data_folder(folder)
    for each in make_private_folder(folder / OWNERS):
        migrations.sync_folder(each.parent)
