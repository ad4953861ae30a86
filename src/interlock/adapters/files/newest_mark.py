"""The file `newest` marks the progress of the database, so that a damaged, cut or deleted log is noticed.

Rule 1: the mark is written after a commit and before it is acknowledged, so it is never ahead of a sound database. A
crash between the two leaves it behind, which is harmless.
Rule 2: each process has a line of its own, which it writes in place, without a lock and without reading: the mark is
the greatest of all lines. The line of a process that has ended is given to a later one, under the lock of the folder,
and begins with the greatest of all lines. So the mark only ever grows.
Rule 3: it is never synced. After a loss of power it may be old or torn: then it is written again, with a warning.
Rule 4: a mark that cannot be written fails no commit. There is one warning.
Rule 5: only accepting a loss lowers it. Lines of living processes stay.
Rule 6: every commit that changes something changes the line of its process before it is acknowledged. So one read of
this file tells nearly always that no other process has committed; who must know it asks the database now and then.
"""

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from interlock.adapters.files.owner_files import live_owners
from interlock.adapters.files.private_files import open_private

NEWEST = "newest"

# More lines than there have ever been processes on one folder.
FILE_BYTES_MAX = 1 << 20
# A process writes a line in a microsecond.
READS_MAX = 10

_log = logging.getLogger("interlock")


class StoreProgress(NamedTuple):
    """The progress of a database: the position of its newest record, and the number of commits without a record."""

    position: int = 0
    unrecorded: int = 0


class DamagedMark(NamedTuple):
    """A mark that cannot be read."""


class MarkLine(NamedTuple):
    """What one process has written; an older Interlock wrote no owner."""

    owner: str
    progress: StoreProgress


def read_mark(folder: Path) -> StoreProgress | DamagedMark | None:
    """Reads the mark; None if there is none."""
    try:
        descriptor = os.open(folder / NEWEST, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        _, lines = _read_lines(descriptor)
    finally:
        os.close(descriptor)
    return _greatest_of([each for each in lines if each is not None]) if lines and None not in lines else DamagedMark()


def shortfall_of(marked: StoreProgress, found: StoreProgress) -> StoreProgress:
    """By how much a database is behind the mark."""
    return StoreProgress(max(0, marked.position - found.position), max(0, marked.unrecorded - found.unrecorded))


class NewestMark:
    """The line of this process in the mark of an open data folder. It is used by one thread at a time."""

    def __init__(self, folder: Path, owner: str) -> None:
        """Call it under the lock of the folder; the file of the owner is there and locked."""
        self._path, self._owner = folder / NEWEST, owner.encode("ascii")
        self._descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        found, lines = _read_lines(self._descriptor)
        self._position, self._unrecorded = _greatest_of([each for each in lines if each is not None])
        ended = _reusable_places(folder, lines, owner)
        place = min(ended, default=len(lines))
        self._start, self._ended = place * SIZE, [each for each in ended if each != place]
        self._is_said = False
        # The file as this process knows it: the lines before and after its own, and all of it.
        self._before, self._after = found[: self._start], found[self._start + SIZE :]
        self._seen = b""
        self._write()
        self._cut_after(max({*range(len(lines)), place} - set(self._ended)))

    def advance(self, position: int, unrecorded: int) -> None:
        """Advances the mark after a commit; 0 for a number that did not change."""
        if position > self._position:
            self._position = position
        if unrecorded > self._unrecorded:
            self._unrecorded = unrecorded
        self._write()

    def reset(self, reached: StoreProgress) -> None:
        """Sets the mark to the progress of the database, whatever it was before."""
        self._position, self._unrecorded = reached
        self._write()
        try:
            for place in self._ended:
                os.pwrite(self._descriptor, _encode_line(0, 0, b""), place * SIZE)
        except OSError as error:
            self._warn(error)

    def has_changed(self) -> bool:
        """Whether another process may have written since the last call, or since the mark was opened."""
        try:
            found = os.pread(self._descriptor, len(self._seen) + SIZE, 0)
        except OSError:
            return True
        if found == self._seen:
            return False
        self._seen, self._before, self._after = found, found[: self._start], found[self._start + SIZE :]
        return True

    def close(self) -> None:
        """Tries to write what could not be written before."""
        self._write()
        self.close_descriptor()

    def close_descriptor(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def _write(self) -> None:
        line = _encode_line(self._position, self._unrecorded, self._owner)
        try:
            if os.pwrite(self._descriptor, line, self._start) != SIZE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._warn(error)
        self._seen = self._before + line + self._after

    def _cut_after(self, place: int) -> None:
        """Removes lines that are not needed: most folders are used by one process at a time, so that there is one."""
        self._ended = [each for each in self._ended if each < place]
        size = (place + 1) * SIZE
        if len(self._seen) <= size:
            return
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._is_said:
            self._is_said = True
            _log.warning("'%s' cannot be written: %s; a loss may go unnoticed", self._path, error.strerror)


def _reusable_places(folder: Path, lines: list[MarkLine | None], owner: str) -> list[int]:
    """The places of lines whose process has ended. A damaged one may belong to any process that lives."""
    alive = live_owners(folder).keys() - {owner}
    return [place for place, line in enumerate(lines) if (not alive if line is None else line.owner not in alive)]


def _read_lines(descriptor: int) -> tuple[bytes, list[MarkLine | None]]:
    """The file and its lines. A line that is being written may look damaged: then it is read again."""
    for _ in range(READS_MAX):
        found = os.pread(descriptor, FILE_BYTES_MAX, 0)
        lines = _decode_lines(found)
        if None not in lines:
            break
    return found, lines


def _greatest_of(lines: list[MarkLine]) -> StoreProgress:
    """The greatest numbers of all lines."""
    found = [each.progress for each in lines]
    return StoreProgress(max([at for at, _ in found], default=0), max([number for _, number in found], default=0))


def _encode_line(position: int, unrecorded: int, owner: bytes) -> bytes:
    text = b"interlock %020d %020d %-40s " % (position, unrecorded, owner)
    return text + b"%08x\n" % crc32(text)


SIZE = len(_encode_line(0, 0, b""))
_NUMBERS = slice(10, 30), slice(31, 51)
_OWNER = slice(52, 92)
# The whole file of an older Interlock: a line without an owner.
_OLDER_SIZE = 61


def _decode_lines(data: bytes) -> list[MarkLine | None]:
    """The lines of the file; None for a damaged one."""
    if len(data) == _OLDER_SIZE:
        return [_decode_line(data)]
    return [_decode_line(data[start : start + SIZE]) for start in range(0, len(data), SIZE)]


def _decode_line(line: bytes) -> MarkLine | None:
    text = line[:-9]
    if len(line) not in (SIZE, _OLDER_SIZE) or line != text + b"%08x\n" % crc32(text):
        return None
    position, unrecorded = (int(text[each]) for each in _NUMBERS)
    return MarkLine(text[_OWNER].decode("ascii").strip(), StoreProgress(position, unrecorded))
