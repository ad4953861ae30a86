"""The mark of a move in a data folder: a file `MOVING` while it is not finished, `MOVED` in a folder that was left."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from interlock.adapters.files.private_files import open_private
from interlock.errors import StoreFailed
from interlock.ports.moving import MoveMark

MOVING, MOVED = "MOVING", "MOVED"


def read_move_mark(folder: Path) -> MoveMark | None:
    """`StoreFailed` if the file holds something else."""
    for name in (MOVED, MOVING):
        with suppress(FileNotFoundError):
            try:
                return msgspec.json.decode((folder / name).read_bytes(), type=MoveMark)
            except msgspec.DecodeError as error:
                raise StoreFailed(f"'{folder / name}' is no mark of a move ({error}); restore the folder") from error
    return None


def write_move_mark(folder: Path, mark: MoveMark | None) -> None:
    """The old mark is removed last: a crash between leaves both, and `MOVED` counts."""
    kept = "" if mark is None else MOVED if mark.state == "left" else MOVING
    if mark is not None:
        _write_durably(folder / kept, msgspec.json.encode(mark) + b"\n")
    for name in {MOVING, MOVED} - {kept}:
        (folder / name).unlink(missing_ok=True)
    _sync(folder)


def _write_durably(path: Path, text: bytes) -> None:
    draft = path.with_name(f"{path.name}.new")
    descriptor = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
