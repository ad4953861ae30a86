"""The file `newest` marks the progress of the database, so that a damaged, cut or deleted log is noticed.

Rule 1: the mark is written after a commit and before it is acknowledged, so it is never ahead of a sound database. A
crash between the two leaves it behind, which is harmless.
Rule 2: after a commit it only ever grows. Several processes write it in place, each under the mark's own lock, after
reading it. No process waits for that lock: if it is held, the mark is written with the next commit.
Rule 3: it is never synced. After a loss of power it may be old or torn: then it is written again, with a warning.
Rule 4: a mark that cannot be written fails no commit. There is one warning.
Rule 5: only accepting a loss lowers it.
"""

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from interlock.adapters.files.private_files import open_private

NEWEST = "newest"

# Another process holds the lock for microseconds. One that was stopped meanwhile must not block us.
TRIES = 20

_log = logging.getLogger("interlock")


class StoreProgress(NamedTuple):
    """The progress of a database: the position of its newest record, and the number of commits without a record."""

    position: int = 0
    unrecorded: int = 0


class DamagedMark(NamedTuple):
    """A mark that cannot be read."""


def read_mark(folder: Path) -> StoreProgress | DamagedMark | None:
    """Reads the mark; None if there is none."""
    try:
        descriptor = os.open(folder / NEWEST, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _decode_mark(os.pread(descriptor, 2 * SIZE, 0)) or DamagedMark()
    finally:
        os.close(descriptor)


def shortfall_of(marked: StoreProgress, found: StoreProgress) -> StoreProgress:
    """By how much a database is behind the mark."""
    return StoreProgress(max(0, marked.position - found.position), max(0, marked.unrecorded - found.unrecorded))


class NewestMark:
    """The mark of an open data folder. `advance` is called by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NEWEST
        self._descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        self._reached = StoreProgress()
        # What this process wrote last, and as what bytes: mostly no other one has written since.
        self._written = StoreProgress()
        self._written_as: bytes | None = None
        self._is_said = False

    def advance(self, position: int, unrecorded: int) -> None:
        """Advances the mark after a commit; 0 for a number that did not change."""
        known = self._reached
        self._reached = StoreProgress(max(position, known.position), max(unrecorded, known.unrecorded))
        self._write(self._reached)

    def reset(self, reached: StoreProgress) -> None:
        """Sets the mark to the progress of the database, whatever it was before."""
        self._reached = reached
        self._write(reached, is_final=True)

    def close(self) -> None:
        """Tries to write what could not be written before."""
        self._write(self._reached)
        self.close_descriptor()

    def close_descriptor(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def _write(self, reached: StoreProgress, *, is_final: bool = False) -> None:
        try:
            for _ in range(TRIES):
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                try:
                    self._write_locked(reached, is_final)
                finally:
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                return
        except OSError as error:
            if not self._is_said:
                self._is_said = True
                _log.warning("'%s' cannot be written: %s; a loss may go unnoticed", self._path, error.strerror)

    def _write_locked(self, reached: StoreProgress, is_final: bool) -> None:
        found = os.pread(self._descriptor, 2 * SIZE, 0)
        there = self._written if found == self._written_as else _decode_mark(found)
        if there is None:
            os.ftruncate(self._descriptor, 0)
        elif not is_final:
            reached = StoreProgress(max(reached[0], there[0]), max(reached[1], there[1]))
        if reached != there:
            encoded = _encode_mark(reached)
            os.pwrite(self._descriptor, encoded, 0)
            self._written, self._written_as = reached, encoded


def _encode_mark(reached: StoreProgress) -> bytes:
    text = b"interlock %020d %020d " % reached
    return text + b"%08x\n" % crc32(text)


SIZE = len(_encode_mark(StoreProgress()))


def _decode_mark(data: bytes) -> StoreProgress | None:
    if len(data) != SIZE or data != _with_valid_crc(data):
        return None
    return StoreProgress(int(data[10:30]), int(data[31:51]))


def _with_valid_crc(data: bytes) -> bytes:
    """The same bytes with the crc that they should have."""
    return data[:52] + b"%08x\n" % crc32(data[:52])
