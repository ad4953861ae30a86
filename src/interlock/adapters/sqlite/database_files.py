"""The files of the database, and whether they are still the files that were opened.

Rule 1: this process never opens or copies them. Closing any descriptor of them would drop SQLite's locks, and another
process would delete the write-ahead log. So only inodes are compared.
Rule 2: the log is seldom asked for its inode. Since Linux 6.13 a file whose times were read gets new ones with its next
write, and with a commit each that took as long as half the sync. No file goes or comes without a new time of its
folder, so the folder is asked; its times count the ticks of a clock, so a change within the last ticks is not trusted.
"""

import os
import time
from pathlib import Path

# Longer than a tick of any kernel's clock, of which the slowest has 100 a second.
TICKS_NS = 20_000_000
# Some file systems count whole seconds.
WHOLE_SECOND_NS = 1_000_000_000


class DatabaseFiles:
    """The database and its write-ahead log as they were when the store was opened."""

    def __init__(self, path: Path) -> None:
        self.database, self._log, self._folder = str(path), f"{path}-wal", str(path.parent)
        self._database_inode, self._log_inode = _inode(self.database), _inode(self._log)
        self._folder_seen = (0, 0)

    def is_same_database(self) -> bool:
        return _inode(self.database) == self._database_inode

    def is_same_log(self) -> bool:
        try:
            found = os.stat(self._folder)  # noqa: PTH116 - with every commit, and Path.stat takes twice as long
        except FileNotFoundError:
            return False
        folder = (found.st_ino, found.st_mtime_ns)
        if folder == self._folder_seen:
            return True
        is_same, now = _inode(self._log) == self._log_inode, time.time_ns()
        ticks = TICKS_NS if found.st_mtime_ns % WHOLE_SECOND_NS else 2 * WHOLE_SECOND_NS
        if is_same and now - found.st_mtime_ns > ticks:  # any later change gets another time
            self._folder_seen = folder
        return is_same


def _inode(file: str) -> int:
    """The inode of a file; 0 if there is no such file."""
    try:
        return os.stat(file).st_ino  # noqa: PTH116 - as above
    except FileNotFoundError:
        return 0
