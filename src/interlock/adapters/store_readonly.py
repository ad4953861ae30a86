"""A data folder that this process may only read: on a read-only mount, or of another user.

Rule 1: nothing is written, not even a lock: whoever reads so owns nothing and holds up nobody.
Rule 2: with an empty write-ahead log, or none, the database is read as one that does not change (`immutable=1`), as
SQLite cannot make the shared memory that it needs otherwise. Should another process write to it meanwhile by another
path, what is read may be old, or make no sense: whoever doubts an answer asks again.
Rule 3: with a log that holds something the database is read in the usual way (`mode=ro`), and the log counts.
"""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from interlock.adapters import migrations
from interlock.adapters.data_folder import reached_in
from interlock.adapters.migrations import Connect
from interlock.adapters.mounts import require_local
from interlock.adapters.newest_mark import Reached, missing, read_mark
from interlock.adapters.owner_files import OWNERS
from interlock.adapters.sqlite_failures import as_store_failed
from interlock.adapters.sqlite_writer import Work
from interlock.adapters.store_sqlite import DATABASE, SqliteStore, T
from interlock.errors import RecordsMissing, StoreFailed

READ_AS_IT_IS = "ro&immutable=1"
READ_WITH_LOG = "ro"


def is_read_only(folder: Path) -> bool:
    """Whether there is a database here that this process may read, and something about it that it may not write."""
    needed = (folder, folder / DATABASE, folder / OWNERS)
    return os.access(folder / DATABASE, os.R_OK) and not all(_may_write(path) for path in needed if path.exists())


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


class ReadOnlyStore(SqliteStore):
    """A `SqliteStore` that reads, and refuses whatever would write."""

    def __init__(self, folder: str | os.PathLike[str], *, connect: Connect = migrations.connect) -> None:
        self._set_up(folder, connect)
        path = self.folder / DATABASE
        with as_store_failed(f"read the data folder '{self.folder}'"):
            self._mode = _mode(path)
            self._reading = _connection(path, self._mode, connect)
            self.lost = _lost(self.folder, self._reading)
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

    def _require_unbroken(self) -> None:
        """Nothing is written, so nothing can break."""

    async def _write(self, doing: str, work: Work[T], size: int = 0) -> T:
        raise StoreFailed(f"could not {doing}: '{self.folder}' can only be read by this process")


def _lost(folder: Path, connection: sqlite3.Connection) -> RecordsMissing | None:
    """What is missing, if something is: it can be looked at what is left."""
    try:
        marked = read_mark(folder)
    except PermissionError:
        return None
    if not isinstance(marked, Reached):
        return None
    lost = missing(marked, reached_in(connection, marked))
    return RecordsMissing(str(folder), *lost) if any(lost) else None


def _connection(path: Path, mode: str, connect: Connect) -> sqlite3.Connection:
    connection = connect(path, mode)
    try:
        migrations.require_ours(connection, path)
        migrations.require_newest(connection, path)
        migrations.require_sound(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _mode(path: Path) -> str:
    log, shared = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not log.exists() or log.stat().st_size == 0:
        return READ_AS_IT_IS
    if not shared.exists() and not _may_write(path.parent):
        raise StoreFailed(
            f"'{log}' holds what '{path.name}' lacks, and cannot be read where nothing can be written;"
            " copy the data folder to where it can"
        )
    require_local(path.parent)
    return READ_WITH_LOG
