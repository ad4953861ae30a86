"""Files replaced as a whole: at any moment, whatever happens, a file holds all of the old bytes or all of the new."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.errors import UsageError

Replacement = tuple[Path, bytes, bytes]  # the file, what it held when it was read, what it shall hold


def replace_files(replacements: Iterable[Replacement]) -> None:
    """Puts new files into the places of the old ones, once all are ready. `UsageError` where one may not be written."""
    ready: list[tuple[Path, str]] = []
    try:
        for file, before, after in replacements:
            with _refusing(file):
                _require_unchanged(file, before)
                ready.append((file, _beside(file, after)))
        for file, name in ready:
            with _refusing(file):
                os.replace(name, file)  # noqa: PTH105 - as unlink below
                _sync_folder(file.parent)
    finally:
        for _, name in ready:
            _remove(name)


@contextmanager
def _refusing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; it is as it was") from error


def _require_unchanged(file: Path, before: bytes) -> None:
    if not os.access(file, os.W_OK):
        raise UsageError(f"{file} may not be written; nothing was changed")
    if file.read_bytes() != before:
        raise UsageError(f"{file} has changed meanwhile; nothing was changed, try again")


def _beside(file: Path, data: bytes) -> str:
    """A file with the new bytes and the old one's rights, safe on disk, in the same folder."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(data)
            new.flush()
            os.fchmod(handle, stat.S_IMODE(file.stat().st_mode))
            os.fsync(handle)
    except BaseException:
        _remove(name)
        raise
    return name


def _remove(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)  # noqa: PTH108 - mkstemp gives a name


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
