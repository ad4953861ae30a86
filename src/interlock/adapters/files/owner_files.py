"""Lock files of a data folder: one per owner of runs, and one held while the folder is opened.

Rule 1: a lock shows that a process is alive, never a file alone: the system releases a lock however its holder ends.
"""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from interlock import __version__
from interlock.adapters.files.private_files import open_private
from interlock.errors import StoreFailed
from interlock.ports import ProcessLoad, RunFormat

LOCK = "interlock.lock"
OWNERS = "owners"

# A second line in the file of a process that claims runs that wait; the first one tells of the process.
WORKER = b"worker\n"

# Of a process whose file cannot be read, nothing is known, so that it is taken for an older one.
UNKNOWN = RunFormat(0, 0)

# Opening takes milliseconds; a process that holds the folder's lock for longer is stuck.
LOCK_WAIT_S = 5.0


class OwnerFile:
    """A file that is locked for as long as its owner lives."""

    def __init__(self, folder: Path, knows: RunFormat) -> None:
        self.id = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._path = _owner_path(folder, self.id)
        self.descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        self._note = _encode_note(self.id, knows)
        os.pwrite(self.descriptor, self._note, 0)

    def announce_worker(self) -> None:
        """Writes into the file that its owner claims runs that wait."""
        os.pwrite(self.descriptor, WORKER, len(self._note))

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


def _encode_note(owner: str, knows: RunFormat) -> bytes:
    note = ProcessLoad(
        owner=owner,
        runs=0,
        is_worker=False,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        knows=knows,
    )
    return msgspec.json.encode(note) + b"\n"


def _read_note(owner: str, content: bytes) -> ProcessLoad:
    first, _, rest = content.partition(b"\n")
    try:
        note = msgspec.json.decode(first, type=ProcessLoad)
    except msgspec.MsgspecError:  # it is being written, or another version writes it otherwise
        pid = owner.partition("-")[0]
        note = ProcessLoad(
            owner=owner,
            runs=0,
            is_worker=False,
            host=socket.gethostname(),
            pid=int(pid) if pid.isdecimal() else 0,
            version="unknown",
            knows=UNKNOWN,
        )
    return msgspec.structs.replace(note, owner=owner, is_worker=rest == WORKER)


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


def live_owners(folder: Path) -> dict[str, ProcessLoad]:
    """The processes that are alive, by their name as an owner; their runs are not counted."""
    found = {}
    for file in (folder / OWNERS).glob("*.lock"):
        if is_alive(folder, file.stem):
            with suppress(FileNotFoundError):  # it has ended since
                found[file.stem] = _read_note(file.stem, file.read_bytes())
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
