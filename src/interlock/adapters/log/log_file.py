"""The log file of a data folder: JSON lines, readable by its owner only, rotated by size.

Rule 1: several processes write to one file. Each line is one append; rotation takes a lock, and a process whose file
was moved, by another process of ours or by logrotate, opens a new one: no signal is needed.
Rule 2: a log that cannot be written never stops the work: one warning on standard error, until it can be written again.
"""

import fcntl
import logging
import os
import sys
from pathlib import Path

from interlock.adapters.files.private_files import make_private_folder, open_private

LOG_FILE = "interlock.log"
LOG_LOCK = "interlock.log.lock"


class LogFile(logging.Handler):
    """`interlock.log` is the newest; `interlock.log.1` came before it, and so on."""

    def __init__(self, folder: Path, bytes_max: int, files: int) -> None:
        super().__init__()
        self._folder, self._path = folder, folder / LOG_FILE
        self._name = str(self._path)
        self._bytes_max, self._files = bytes_max, files
        self._descriptor = -1
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(f"{self.format(record)}\n".encode())
            self._has_failed = False
        except OSError as error:
            self._report_once(error)

    def _write(self, line: bytes) -> None:
        if (size := self._current_size()) is None:
            self._open()
            size = os.fstat(self._descriptor).st_size
        if size + len(line) > self._bytes_max:
            self._rotate()
        os.write(self._descriptor, line)

    def _current_size(self) -> int | None:
        """The size of the file of that name; None if it is not the open one: another process may have rotated it."""
        if self._descriptor < 0:
            return None
        try:
            found = os.stat(self._name)  # noqa: PTH116 - with every line
        except FileNotFoundError:
            return None
        return found.st_size if os.path.samestat(found, os.fstat(self._descriptor)) else None

    def _open(self) -> None:
        self._close_file()
        make_private_folder(self._folder)
        self._descriptor = open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _rotate(self) -> None:
        lock = open_private(self._folder / LOG_LOCK, os.O_WRONLY | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._current_size():
                self._shift_files()
        finally:
            os.close(lock)
        self._open()

    def _shift_files(self) -> None:
        for n in range(self._files - 1, 0, -1):
            older = self._path if n == 1 else self._rotation_path(n - 1)
            if older.exists():
                older.replace(self._rotation_path(n))
        if self._files == 1:
            self._path.unlink()

    def _rotation_path(self, n: int) -> Path:
        return self._folder / f"{LOG_FILE}.{n}"

    def _report_once(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            advice = "nothing is logged there until it can be written again"
            sys.stderr.write(f"interlock: {self._path} cannot be written: {error.strerror}; {advice}\n")

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        self._close_file()
        super().close()
