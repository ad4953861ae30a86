"""A data folder that this process may only read: on a read-only mount, or of another user.

Rule 1: nothing is written, not even a lock. Such a reader owns nothing and blocks no other process.
Rule 2: with an empty write-ahead log, or none, the database is opened as immutable (`immutable=1`), because SQLite
cannot create the shared memory that it needs otherwise. If another process writes by another path at the same time,
answers may be old or inconsistent; ask again.
Rule 3: with a log that is not empty the database is opened with `mode=ro`, and the log is read too.
"""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from interlock.adapters.files.data_folder import progress_of
from interlock.adapters.files.mounts import require_local
from interlock.adapters.files.move_marks import read_move_mark
from interlock.adapters.files.newest_mark import StoreProgress, read_mark, shortfall_of
from interlock.adapters.files.owner_files import OWNERS
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.failures import as_store_failed
from interlock.adapters.sqlite.migrations import Connect
from interlock.adapters.sqlite.store import DATABASE, SqliteStore, T
from interlock.adapters.sqlite.write_jobs import Work
from interlock.adapters.store_rules.moved_tables import require_not_moved
from interlock.errors import RecordsMissing, StoreFailed
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, Record, RunRow

READ_AS_IT_IS = "ro&immutable=1"
READ_WITH_LOG = "ro"


def is_read_only(folder: Path) -> bool:
    """Whether this process may read the database in a folder, but not write all of it."""
    needed = (folder, folder / DATABASE, folder / OWNERS)
    return os.access(folder / DATABASE, os.R_OK) and not all(_may_write(path) for path in needed if path.exists())


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


class ReadOnlyStore(SqliteStore):
    """A `SqliteStore` that refuses every write."""

    def __init__(self, folder: str | os.PathLike[str], *, connect: Connect = migrations.connect) -> None:
        self._set_up(folder, connect)
        path = self.folder / DATABASE
        with as_store_failed(f"read the data folder '{self.folder}'"):
            require_not_moved(read_move_mark(self.folder), str(self.folder))
            self._mode = _choose_mode(path)
            self._reading = _open_connection(path, self._mode, connect)
            self.lost = _records_missing_in(self.folder, self._reading)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="interlock-reader")

    @property
    def owner(self) -> str:
        return ""

    async def close(self) -> None:
        self._require_this_process()
        if not self._closed:
            self._closed = True
            self._reader.shutdown()
            self._reading.close()

    def version(self) -> int | None:
        """Nothing is followed: there is no writer that counts commits."""
        return None

    version_at_rest = version

    def _require_unbroken(self) -> None:
        """Does nothing: a reader cannot break."""

    async def append(self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        raise StoreFailed(f"could not append to run '{row.run}': '{self.folder}' can only be read by this process")

    async def write(self, doing: str, work: Work[T], size: int = 0) -> T:
        raise StoreFailed(f"could not {doing}: '{self.folder}' can only be read by this process")


def _records_missing_in(folder: Path, connection: sqlite3.Connection) -> RecordsMissing | None:
    """The records that are missing, if any; the rest can still be read."""
    try:
        marked = read_mark(folder)
    except PermissionError:
        return None
    if not isinstance(marked, StoreProgress):
        return None
    lost = shortfall_of(marked, progress_of(connection, marked))
    return RecordsMissing(str(folder), *lost) if any(lost) else None


def _open_connection(path: Path, mode: str, connect: Connect) -> sqlite3.Connection:
    connection = connect(path, mode)
    try:
        migrations.require_ours(connection, path)
        migrations.require_newest(connection, path)
        migrations.require_sound(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _choose_mode(path: Path) -> str:
    log, shared = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not log.exists() or log.stat().st_size == 0:
        return READ_AS_IT_IS
    if not shared.exists() and not _may_write(path.parent):
        raise StoreFailed(
            f"'{log}' holds changes that '{path.name}' lacks, and cannot be read in a folder without write access;"
            " copy the data folder to a writable place"
        )
    require_local(path.parent)
    return READ_WITH_LOG
