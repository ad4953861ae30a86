"""`newest`, beside the database: how far it has come, so that a log that was damaged, cut or deleted is noticed.

Rule 1: the mark is written after a commit and before it is acknowledged, so it is never ahead of a sound database. A
crash between the two leaves it behind, which says nothing.
Rule 2: after a commit it only ever grows. Several processes write it in place, each under the mark's own lock, after a
look at what is there. Nobody waits for that lock: whoever finds it taken writes the mark with the next commit.
Rule 3: it is never synced. After a loss of power it may be old, or torn: then it is written anew, with a warning.
Rule 4: a mark that cannot be written fails no commit. It is said once.
Rule 5: only accepting a loss lowers it.
"""

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from interlock.adapters.private_files import open_private

NEWEST = "newest"

# Another process holds the lock for a few microseconds. One that was stopped in between must not stop us.
TRIES = 20

_log = logging.getLogger("interlock")


class Reached(NamedTuple):
    """How far a database has come: the position of its newest record, and its commits that stored none."""

    position: int = 0
    unrecorded: int = 0


class Damaged(NamedTuple):
    """A mark that cannot be read."""


def read_mark(folder: Path) -> Reached | Damaged | None:
    """What the mark says; None where there is none."""
    try:
        descriptor = os.open(folder / NEWEST, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _decoded(os.pread(descriptor, 2 * SIZE, 0)) or Damaged()
    finally:
        os.close(descriptor)


def missing(marked: Reached, found: Reached) -> Reached:
    """What a database lacks of what the mark says."""
    return Reached(max(0, marked.position - found.position), max(0, marked.unrecorded - found.unrecorded))


class NewestMark:
    """The mark of an open data folder. `grow` is called by whoever writes, one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NEWEST
        self._descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        self._reached = Reached()
        self._is_said = False

    def grow(self, position: int, unrecorded: int) -> None:
        """After a commit; 0 for what it did not change."""
        known = self._reached
        self._reached = Reached(max(position, known.position), max(unrecorded, known.unrecorded))
        self._write(self._reached)

    def put(self, reached: Reached) -> None:
        """When a folder is opened: what its database holds, whatever the mark said before."""
        self._reached = reached
        self._write(reached, is_final=True)

    def close(self) -> None:
        """What could not be written so far is written, if it can be."""
        self._write(self._reached)
        self.let_go()

    def let_go(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    def _write(self, reached: Reached, *, is_final: bool = False) -> None:
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

    def _write_locked(self, reached: Reached, is_final: bool) -> None:
        there = _decoded(os.pread(self._descriptor, 2 * SIZE, 0))
        if there is None:
            os.ftruncate(self._descriptor, 0)
        elif not is_final:
            reached = Reached(max(reached[0], there[0]), max(reached[1], there[1]))
        if reached != there:
            os.pwrite(self._descriptor, _encoded(reached), 0)


def _encoded(reached: Reached) -> bytes:
    text = b"interlock %020d %020d " % reached
    return text + b"%08x\n" % crc32(text)


SIZE = len(_encoded(Reached()))


def _decoded(data: bytes) -> Reached | None:
    if len(data) != SIZE or data != _line(data):
        return None
    return Reached(int(data[10:30]), int(data[31:51]))


def _line(data: bytes) -> bytes:
    """As it would be written, if all but its crc is right."""
    return data[:52] + b"%08x\n" % crc32(data[:52])
