"""Lock files of a data folder: one per owner of runs, and one held while the folder is opened.

Rule 1: a lock shows that a process is alive, never a file alone: the system releases a lock however its holder ends.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.adapters.files.private_files import open_private
from interlock.errors import StoreFailed

LOCK = "interlock.lock"
OWNERS = "owners"

# In the file of a process that claims runs that wait; other files are empty.
WORKER = b"worker\n"

# Opening takes milliseconds; a process that holds the folder's lock for longer is stuck.
LOCK_WAIT_S = 5.0


class OwnerFile:
    """A file that is locked for as long as its owner lives."""

    def __init__(self, folder: Path) -> None:
        self.id = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._path = _owner_path(folder, self.id)
        self.descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def announce_worker(self) -> None:
        """Writes into the file that its owner claims runs that wait."""
        os.pwrite(self.descriptor, WORKER, 0)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


def _owner_path(folder: Path, owner: str) -> Path:
    return folder / OWNERS / f"{owner}.lock"


def is_alive(folder: Path, owner: str) -> bool:
    """Whether an owner is alive. Uses a shared lock, so that two callers do not mistake each other for the owner."""
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


def live_owners(folder: Path) -> dict[str, bool]:
    """The owners that are alive, each with whether it is a worker."""
    found = {}
    for file in (folder / OWNERS).glob("*.lock"):
        if is_alive(folder, file.stem):
            with suppress(FileNotFoundError):  # it has ended since
                found[file.stem] = file.read_bytes() == WORKER
    return found


def remove_dead_owners(folder: Path) -> None:
    for file in sorted((folder / OWNERS).glob("*.lock")):
        if not is_alive(folder, file.stem):
            file.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lets one process at a time create, upgrade and open a data folder."""
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
