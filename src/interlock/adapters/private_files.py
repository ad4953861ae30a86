"""Files and folders for their owner alone, whatever the umask says.

Rule 1: what Interlock makes in a data folder, and every copy of it, is 0600 from the moment it is there; folders 0700.
Rule 2: what an older version left wider is made so when the folder is opened for writing, and said once. A folder that
is not Interlock's own is left as it is, and said.
"""

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700

_log = logging.getLogger("interlock")


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that nobody but its owner may read; made so if it was not."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    found = os.fstat(descriptor)
    if stat.S_IMODE(found.st_mode) != FILE_MODE and found.st_uid == os.geteuid():
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def make_private_file(path: Path) -> None:
    """An empty file, for a program that opens it by its name; `FileExistsError` if there is one."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def make_private_folder(folder: Path) -> list[Path]:
    """Makes the folder and those above it that are missing; gives those it made, the outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()][::-1]
    for each in missing:
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
        each.chmod(FOLDER_MODE)
    return missing


def tighten(folder: Path, ours: Iterable[Path], *, is_ours: bool) -> None:
    """Takes from others what they may do in a data folder; says so if that was anything."""
    wide = [path for path in ours if _is_wide(path)]
    for path in wide:
        path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
    if wide:
        names = ", ".join(sorted(path.name for path in wide))
        _log.warning("others could read or write in '%s'; these are for their owner alone now: %s", folder, names)
    if _is_wide(folder):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if is_ours and not mode & stat.S_ISVTX:
            folder.chmod(FOLDER_MODE)
            _log.warning("'%s' was open to others (mode %o); it is for its owner alone now", folder, mode)
        else:
            _log.warning("others may look into '%s' (mode %o), which holds more than Interlock's data", folder, mode)


def _is_wide(path: Path) -> bool:
    """Whether others may do something with what is ours to change."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return is_plain and found.st_uid == os.geteuid() and bool(stat.S_IMODE(found.st_mode) & 0o077)
