"""Files and folders that only their owner may read, whatever the umask.

Rule 1: files that Interlock creates in a data folder, and copies of them, have mode 0600 from the start; folders 0700.
Rule 2: wider modes of an older version are restricted when the folder is opened for writing, with one warning. A folder
that holds more than Interlock's data is left unchanged, with a warning.
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
    """Opens a file that only its owner may read, and restricts its mode if needed."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    found = os.fstat(descriptor)
    if stat.S_IMODE(found.st_mode) != FILE_MODE and found.st_uid == os.geteuid():
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def make_private_file(path: Path) -> None:
    """Creates an empty file, for a program that opens it by name; `FileExistsError` if there is one."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def make_private_folder(folder: Path) -> list[Path]:
    """Creates the folder and missing parents. Returns those it created, the outermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()][::-1]
    for each in missing:
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
        each.chmod(FOLDER_MODE)
    return missing


def restrict_permissions(folder: Path, ours: Iterable[Path], *, is_ours: bool) -> None:
    """Removes the permissions of others in a data folder, with a warning if they had any."""
    wide = [path for path in ours if _is_open_to_others(path)]
    for path in wide:
        path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
    if wide:
        names = ", ".join(sorted(path.name for path in wide))
        _log.warning("others could read or write in '%s'; only their owner may access these now: %s", folder, names)
    if _is_open_to_others(folder):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if is_ours and not mode & stat.S_ISVTX:
            folder.chmod(FOLDER_MODE)
            _log.warning("'%s' was open to others (mode %o); only its owner may access it now", folder, mode)
        else:
            _log.warning("others may read '%s' (mode %o), which holds more than Interlock's data", folder, mode)


def _is_open_to_others(path: Path) -> bool:
    """Whether others have permissions on a file or folder of this user."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return is_plain and found.st_uid == os.geteuid() and bool(stat.S_IMODE(found.st_mode) & 0o077)
