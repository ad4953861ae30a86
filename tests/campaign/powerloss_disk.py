"""A disk that remembers: every write, cut, sync, creation, removal and renaming in a data folder, in order.

Rule 1: the files are real and SQLite's own; between it and them is a VFS of apsw that only takes notes.
Rule 2: apsw brings its own SQLite, so a store gets at this disk through its `connect`, dressed as `sqlite3`.
Rule 3: a sync is noted when it is done; anything else before it begins. So a prefix of the log is a moment in time.
Rule 4: the `-shm` file is memory and is rebuilt from the log of SQLite, so it is not recorded.
"""

import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import apsw

from interlock.adapters.files.newest_mark import NEWEST
from interlock.adapters.sqlite.sealed_tables import seal_of

SQLITE_VERSION = apsw.sqlite_lib_version()

# As SQLite does unless told: a checkpoint when the log has this many pages.
CHECKPOINT_PAGES = 1_000

# What SQLite syncs the folder for, with the first sync of the file.
NAMED_DURABLY = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class Wrote(NamedTuple):
    inode: int
    offset: int
    data: bytes


class Cut(NamedTuple):
    inode: int
    size: int


class Synced(NamedTuple):
    inode: int


class SyncFailed(NamedTuple):
    """Unheard, if SQLite was at work by itself: it tells nobody what failed in a checkpoint that nobody asked for."""

    inode: int
    unheard: bool


class Made(NamedTuple):
    inode: int
    name: str


class Removed(NamedTuple):
    name: str


class Renamed(NamedTuple):
    old: str
    new: str


class FolderSynced(NamedTuple):
    pass


Naming = Made | Removed | Renamed
Entry = Wrote | Cut | Synced | SyncFailed | Naming | FolderSynced


class Disk:
    """The log of one folder, and the dials by which a test makes it fail or lie.

    `sync_fails` is the number of the sync that fails. The syncs of files whose name ends with one of `unsynced` are
    never made, and statements in `misheard` are replaced on their way to SQLite.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        folder: Path,
        *,
        sync_fails: int = 0,
        unsynced: tuple[str, ...] = (),
        misheard: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.sync_fails, self.unsynced = folder, sync_fails, unsynced
        self.misheard = misheard or {}
        self.log: list[Entry] = []
        self.syncs = 0
        self.unheard = self._is_over = False
        self.names: dict[str, int] = {}
        self.inodes = itertools.count()
        self.vfs = _Vfs(f"recording-{next(self._numbers)}", self)
        self._connections: list[Connection] = []

    def connect(self, path: Path, mode: str = "rw") -> sqlite3.Connection:
        """As `migrations.connect`, on this disk."""
        connection = Connection(self, path, mode)
        self._connections.append(connection)
        return cast(sqlite3.Connection, connection)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Also takes notes of what the store itself does in the folder, without SQLite."""
        with (
            mock.patch.object(os, "rename", self._rename),
            mock.patch.object(os, "unlink", self._unlink),
            mock.patch.object(os, "fsync", self._fsync),
            mock.patch.object(os, "pwrite", self._pwrite),
        ):
            yield

    def inode_of(self, name: str) -> int:
        """That of a file that is there, or of a new one."""
        if name not in self.names:
            self.names[name] = next(self.inodes)
            self.note(Made(self.names[name], name))
        return self.names[name]

    def removed(self, name: str) -> None:
        if self.names.pop(name, None) is not None:
            self.note(Removed(name))

    def note(self, entry: Entry) -> None:
        if not self._is_over:
            self.log.append(entry)

    def release(self) -> None:
        """Ends the log, and closes what a broken store has left open."""
        self._is_over = True
        for connection in self._connections:
            connection.release()

    def _rename(self, old: Any, new: Any, _rename: Any = os.rename, **how: Any) -> None:
        _rename(old, new, **how)
        if Path(old).parent == self.folder:
            self.names[Path(new).name] = self.names.pop(Path(old).name)
            self.note(Renamed(Path(old).name, Path(new).name))

    def _unlink(self, path: Any, _unlink: Any = os.unlink, **how: Any) -> None:
        _unlink(path, **how)
        if Path(path).parent == self.folder:
            self.removed(Path(path).name)

    def _pwrite(self, descriptor: int, data: bytes, offset: int, _pwrite: Any = os.pwrite) -> int:
        """Only the mark is written so; it is never synced."""
        mark = self.folder / NEWEST
        if mark.exists() and os.path.samestat(os.fstat(descriptor), mark.stat()):
            self.note(Wrote(self.inode_of(NEWEST), offset, bytes(data)))
        written: int = _pwrite(descriptor, data, offset)
        return written

    def _fsync(self, descriptor: int, _fsync: Any = os.fsync) -> None:
        _fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), self.folder.stat()):
            self.note(FolderSynced())


class _Vfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        self.name, self._disk = name, disk
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.removed(Path(filename).name)
        if syncdir:
            self._disk.note(FolderSynced())


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "a store has no temporary files"
        self._disk, self._name = disk, Path(path).name
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & NAMED_DURABLY)
        super().__init__("", name, flags)
        self._inode = disk.inode_of(self._name)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.note(Wrote(self._inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.note(Cut(self._inode, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._name.endswith(self._disk.unsynced):
            return
        self._disk.syncs += 1
        if self._disk.syncs == self._disk.sync_fails:
            self._disk.note(SyncFailed(self._inode, self._disk.unheard))
            raise _sync_error()
        super().xSync(flags)
        self._disk.note(Synced(self._inode))
        if self._syncs_folder:
            self._disk.note(FolderSynced())
            self._syncs_folder = False


def _sync_error() -> apsw.Error:
    failure: Any = apsw.IOError("disk I/O error")
    failure.extendedresult = apsw.SQLITE_IOERR_FSYNC  # apsw makes of it what SQLite is told
    return cast(apsw.Error, failure)


# Dressed as sqlite3


class Cursor:
    """All rows at once, whether or not the store reads them all."""

    def __init__(self, rows: list[tuple[Any, ...]], lastrowid: int, rowcount: int) -> None:
        self._rows, self.lastrowid, self.rowcount = iter(rows), lastrowid, rowcount

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        """Nothing is held open."""

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Connection:
    """As much of `sqlite3.Connection` as a store uses."""

    def __init__(self, disk: Disk, path: Path, mode: str) -> None:
        self._disk = disk
        flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE
        with _as_sqlite3():
            self._inner = apsw.Connection(f"{path.as_uri()}?mode={mode}", flags=_flags(flags, mode), vfs=disk.vfs.name)
            self._inner.set_busy_timeout(5_000)
        self._inner.create_scalar_function("interlock_seal", seal_of, deterministic=True)
        self._inner.set_wal_hook(self._checkpoint)

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    @property
    def total_changes(self) -> int:
        return self._inner.total_changes()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Cursor:
        with _as_sqlite3():
            rows = self._inner.execute(self._disk.misheard.get(statement, statement), tuple(values)).fetchall()
        return Cursor(rows, self._inner.last_insert_rowid(), self._inner.changes())

    def close(self) -> None:
        with self._unheard():
            self._inner.close()

    def release(self) -> None:
        with self._unheard():
            self._inner.close(True)

    def _checkpoint(self, connection: apsw.Connection, name: str, pages: int) -> int:
        """What SQLite does by itself when its log is long."""
        if pages >= CHECKPOINT_PAGES:
            with self._unheard():
                connection.wal_checkpoint(name, apsw.SQLITE_CHECKPOINT_PASSIVE)
        return apsw.SQLITE_OK

    @contextmanager
    def _unheard(self) -> Iterator[None]:
        """For checkpoints that nobody asked for: SQLite tells nobody of their failures, and apsw would."""
        self._disk.unheard = True
        try:
            with suppress(apsw.IOError):
                yield
        finally:
            self._disk.unheard = False


def _flags(flags: int, mode: str) -> int:
    return flags | (apsw.SQLITE_OPEN_CREATE if mode == "rwc" else 0)


@contextmanager
def _as_sqlite3() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        code = getattr(error, "extendedresult", 0)
        kind = sqlite3.IntegrityError if isinstance(error, apsw.ConstraintError) else sqlite3.OperationalError
        dressed = kind(str(error))
        dressed.sqlite_errorcode = code
        raise dressed from error
