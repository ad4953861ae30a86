"""Who is alive in a data folder: a file for every owner of runs, and one for whoever is opening the folder.

Rule 1: a lock says who is alive, never a file by itself: the system lets go of a lock whatever way its holder ends.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.adapters.private_files import open_private
from interlock.errors import StoreFailed

LOCK = "interlock.lock"
OWNERS = "owners"

# Opening takes milliseconds; whoever holds the folder's lock for longer is stuck.
LOCK_WAIT_S = 5.0


class OwnerFile:
    """A file that is locked for as long as its owner lives."""

    def __init__(self, folder: Path) -> None:
        self.id = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._path = _owner_path(folder, self.id)
        self.descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


def _owner_path(folder: Path, owner: str) -> Path:
    return folder / OWNERS / f"{owner}.lock"


def is_alive(folder: Path, owner: str) -> bool:
    """Asks by a shared lock, so that two who ask at once do not take each other for the owner."""
    try:
        descriptor = os.open(_owner_path(folder, owner), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_dead_owners(folder: Path) -> None:
    for file in sorted((folder / OWNERS).glob("*.lock")):
        if not is_alive(folder, file.stem):
            file.unlink(missing_ok=True)


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """One process at a time makes, upgrades and joins a data folder."""
    descriptor = open_private(folder / LOCK, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + LOCK_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreFailed(f"another process keeps '{folder / LOCK}' locked; stop it") from None
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)
