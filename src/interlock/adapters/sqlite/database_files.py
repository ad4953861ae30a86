"""The files of the database, and whether they are still the files that were opened.

Rule: this process never opens or copies them. Closing any descriptor of them would drop SQLite's locks, and another
process would delete the write-ahead log. So only inodes are compared.
"""

import os
from pathlib import Path


class DatabaseFiles:
    """The database and its write-ahead log as they were when the store was opened."""

    def __init__(self, path: Path) -> None:
        self.database, self._log = str(path), f"{path}-wal"
        self._database_inode, self._log_inode = _inode(self.database), _inode(self._log)

    def is_same_database(self) -> bool:
        return _inode(self.database) == self._database_inode

    def is_same_log(self) -> bool:
        return _inode(self._log) == self._log_inode


def _inode(file: str) -> int:
    """The inode of a file; 0 if there is no such file."""
    try:
        return os.stat(file).st_ino  # noqa: PTH116 - with every commit, and Path.stat takes twice as long
    except FileNotFoundError:
        return 0
