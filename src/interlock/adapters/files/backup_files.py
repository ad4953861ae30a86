"""All runs of a store in one file: the export of each tree of runs, one after the other.

Rule 1: the first line names the format. Before each export is a line with its run, how far it had come, and its size.
Rule 2: a file is only appended to. What a killed process left of an entry is cut off; of two entries of a run the later
one counts.
Rule 3: every export has its own checksum, which reading it compares.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from interlock.adapters.files.private_files import open_private
from interlock.errors import UsageError

_FORMAT = b'{"format":"interlock-backup","version":1}\n'

# So much of a file tells whether it is one.
FORMAT_BYTES_MAX = 100


class BackupEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An export in a backup. `events` is the number of events of all runs of the tree."""

    run: str
    events: int
    size: int


class BackupFile:
    """A backup that is written. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """`UsageError` if there is another file, or it cannot be written."""
        try:
            self._file = os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT), "r+b")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        self.entries: dict[str, int] = {}
        try:
            self._continue(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "BackupFile":
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def add(self, run: str, events: int, export: bytes) -> None:
        head = msgspec.json.encode(BackupEntry(run=run, events=events, size=len(export)))
        self._file.write(b"".join((head, b"\n", export, b"\n")))
        self._file.flush()
        self.entries[run] = events

    def _continue(self, path: Path) -> None:
        """Finds what is there, and cuts off what a killed process left."""
        start = self._file.read(len(_FORMAT))
        if not _FORMAT.startswith(start):
            raise UsageError(f"{path} exists already and is no backup of runs; name another file")
        end = 0
        if start == _FORMAT:
            end = len(_FORMAT)
            for entry, _, after in _entries(self._file):
                self.entries[entry.run], end = entry.events, after
        self._file.truncate(end)
        self._file.seek(end)
        if not end:
            self._file.write(_FORMAT)


def is_backup_file(start: bytes) -> bool:
    return start.startswith(_FORMAT)


def read_backup(path: Path) -> Iterator[bytes]:
    """The newest export of each run, in the order of the file."""
    with path.open("rb") as file:
        file.seek(len(_FORMAT))
        newest = {entry.run: (begin, entry.size) for entry, begin, _ in _entries(file)}
        for begin, size in sorted(newest.values()):
            file.seek(begin)
            yield file.read(size)


def _entries(file: BinaryIO) -> Iterator[tuple[BackupEntry, int, int]]:
    """Each whole entry, with where its export begins and where the next entry does."""
    length = os.fstat(file.fileno()).st_size
    while line := file.readline():
        try:
            entry = msgspec.json.decode(line, type=BackupEntry)
        except msgspec.DecodeError:
            return
        begin = file.tell()
        after = begin + entry.size + 1
        if after > length:
            return
        yield entry, begin, after
        file.seek(after)
