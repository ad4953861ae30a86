"""A folder whose files are all inside it, whatever links and names say."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.limits import CREW_FILE_BYTES_MAX


class UnreadablePath(Exception):
    """A path that may not, or cannot, be read; the text says why, and `fix` what to do."""

    fix = "make it a readable file of text"


class FileTooLarge(UnreadablePath):
    """A file larger than any that a person writes."""

    fix = "move agents into agents/<id>.yaml, or split the crew into sub-crews"


class LeavesFolder(UnreadablePath):
    """A path that leads out of the folder."""


class ContainedFolder:
    """Reads regular files below `root`. Links are fine as long as they stay inside.

    A folder `within` another is inside that one too, also if it is swapped for a link that leads out meanwhile.
    """

    def __init__(self, root: Path, *, within: "ContainedFolder | None" = None) -> None:
        self.root = Path(os.path.realpath(root))
        self.outermost: Path = within.outermost if within else self.root
        if not _is_below(self.root, self.outermost):
            raise LeavesFolder("leaves the crew's folder")

    def resolve(self, name: str) -> Path:
        """The real path of a name inside the folder."""
        if "\0" in name:
            raise LeavesFolder("holds a NUL character")
        if os.path.isabs(name):
            raise LeavesFolder("is an absolute path")
        real = Path(os.path.realpath(self.root / name))
        if not _is_below(real, self.root):
            raise LeavesFolder("leaves the crew's folder")
        return real

    def read(self, name: str) -> bytes:
        """The content of a regular file, opened without following a link that was swapped in meanwhile."""
        parts = self.resolve(name).relative_to(self.outermost).parts
        with _translate_os_errors():
            here = os.open(self.outermost, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for n, part in enumerate(parts):
                    kind = os.O_DIRECTORY if n < len(parts) - 1 else os.O_NONBLOCK
                    inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=here)
                    os.close(here)
                    here = inner
                return _read_contents(here)
            finally:
                os.close(here)

    def yaml_files(self, name: str) -> list[str]:
        """The names of the YAML files directly in a folder of the folder, sorted; none if there is no such folder."""
        folder = self.resolve(name)
        with _translate_os_errors():
            if not folder.is_dir():
                return []
            names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        return [f"{name}/{file}" for file in names if file.endswith((".yaml", ".yml"))]


def _is_below(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


@contextmanager
def _translate_os_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadablePath(f"cannot be read: {error.strerror}") from error


def _read_contents(descriptor: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UnreadablePath("is not a regular file")
    data = b""
    while len(data) <= CREW_FILE_BYTES_MAX and (piece := os.read(descriptor, CREW_FILE_BYTES_MAX + 1)):
        data += piece
    if len(data) > CREW_FILE_BYTES_MAX:
        raise FileTooLarge(f"is larger than {CREW_FILE_BYTES_MAX // 1024} kB")
    return data
