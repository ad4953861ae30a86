"""Atomic writes of files: at any moment a file holds all of the old bytes or all of the new ones."""

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.errors import UsageError

Replacement = tuple[Path, bytes, bytes]  # the file, its content when it was read, its new content


def replace_files(replacements: Iterable[Replacement]) -> None:
    """Replaces files once all new ones are ready. `UsageError` if one may not be written."""
    ready: list[tuple[Path, str]] = []
    try:
        for file, before, after in replacements:
            with _translate_os_errors(file):
                _require_unchanged(file, before)
                ready.append((file, _write_beside(file, after)))
        for file, name in ready:
            with _translate_os_errors(file):
                os.replace(name, file)  # noqa: PTH105 - as unlink below
                _sync_folder(file.parent)
    finally:
        for _, name in ready:
            _remove(name)


@contextmanager
def _translate_os_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; it was not changed") from error


def _require_unchanged(file: Path, before: bytes) -> None:
    if not os.access(file, os.W_OK):
        raise UsageError(f"{file} may not be written; nothing was changed")
    if file.read_bytes() != before:
        raise UsageError(f"{file} has changed meanwhile; nothing was changed, try again")


def _write_beside(file: Path, data: bytes) -> str:
    """Writes the new bytes to a file in the same folder, with the old permissions, synced to disk."""
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
