"""Files of the server in a data folder: its lock, and its key.

Rule 1: the lock shows that a server runs, never the file alone: the system releases it however the server ends.
Rule 2: the key is created once, in a file that only its owner may read; a file that others may read, or that holds
something else, is refused and left unchanged.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.adapters.files.private_files import make_private_folder, open_private
from interlock.errors import FolderServed, StoreFailed, UsageError

SERVER_LOCK = "server.lock"
SERVER_KEY = "server.key"

# 256 random bits, with a prefix that identifies the key.
KEY_PREFIX = "ilk_"
_KEY = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}")
_HOW = (
    f"which is '{KEY_PREFIX}' and 43 letters, digits, '-' or '_'; make one with:"
    f""" python3 -c "import secrets; print('{KEY_PREFIX}' + secrets.token_urlsafe(32))\""""
)


@contextmanager
def hold_server_lock(folder: Path) -> Iterator[None]:
    """Holds the lock of the server of this folder; `FolderServed` if another process has it."""
    try:
        make_private_folder(folder)
        descriptor = open_private(folder / SERVER_LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        why = f"{error.strerror}; --data names another"
        raise StoreFailed(f"could not open the data folder '{folder}': {why}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderServed(str(folder), os.read(descriptor, 32).decode("ascii", "replace") or "?") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def ensure_server_key(folder: Path) -> str:
    """The key of the data folder; created if there is none."""
    path = folder / SERVER_KEY
    try:
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return _read_key(path)
    except OSError as error:
        raise StoreFailed(f"could not write '{path}': {error.strerror}") from error
    key = new_key()
    try:
        os.write(descriptor, f"{key}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return key


def _read_key(path: Path) -> str:
    try:
        mode, text = path.stat().st_mode & 0o777, path.read_text("ascii", "replace").strip()
    except OSError as error:
        raise StoreFailed(f"could not read '{path}': {error.strerror}") from error
    if mode & 0o077:
        raise UsageError(f"'{path}' may be read by others (mode {mode:o}); make it 600, or delete it to get a new key")
    if not _KEY.fullmatch(text):
        raise UsageError(f"'{path}' holds no key; delete it to get a new one")
    return text


def require_key(variable: str, value: str) -> str:
    """The key that a variable holds; `UsageError` if it is no key."""
    if not value:
        raise UsageError(f"{variable} is not set; all servers of a PostgreSQL store need the same key there, {_HOW}")
    if not _KEY.fullmatch(value):
        raise UsageError(f"{variable} does not hold a key, {_HOW}")
    return value
