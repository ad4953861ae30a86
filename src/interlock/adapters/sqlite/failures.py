"""Translates errors of SQLite and the file system to the errors of a port."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.errors import StorageFull, StoreFailed

FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
FINAL = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# Besides errors of SQLite and of files: a value that SQLite cannot hold.
FOREIGN = (sqlite3.Error, OSError, OverflowError, UnicodeError)

# What a damaged database raises. The latter if SQLite quotes bytes of it that are no text.
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)


@contextmanager
def as_store_failed(doing: str) -> Iterator[None]:
    """Raises errors of SQLite and of the file system as `StoreFailed`."""
    try:
        yield
    except FOREIGN as error:
        raise store_failure_of(doing, error) from error


def store_failure_of(doing: str, error: Exception) -> StoreFailed:
    if isinstance(error, OSError):
        kind = StorageFull if error.errno in NO_ROOM else StoreFailed
        return kind(f"could not {doing}: {error.strerror}")
    if isinstance(error, UnicodeDecodeError):
        return StoreFailed(f"could not {doing}: the database is damaged, a name or a statement in it is no text")
    kind = StorageFull if sqlite_code_of(error) in FULL else StoreFailed
    return kind(f"could not {doing}: {error}")


def sqlite_code_of(error: BaseException | None) -> int:
    """SQLite's extended code, or 0 for what does not come from SQLite."""
    return getattr(error, "sqlite_errorcode", None) or 0


def is_locked(error: BaseException | None) -> bool:
    return sqlite_code_of(error) & 0xFF == sqlite3.SQLITE_BUSY


def is_corrupt(error: BaseException | None) -> bool:
    return sqlite_code_of(error) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
