"""The `data_version` of the writing connection: it changes when another connection has committed.

So it does for a commit of this process whose caller was cancelled.
"""

import sqlite3
import time

from interlock.adapters.files.newest_mark import NewestMark

# Added for a commit whose caller was cancelled. SQLite counts in 32 bits.
UNHEARD = 1 << 32


class DataVersion:
    """Every step of a run asks for it, and SQLite takes locks to tell.

    Another process changes the mark with each commit, before it acknowledges that, so one read of the mark tells nearly
    always that nothing is new. A process that cannot write its mark, or was killed before it did, is noticed a moment
    later.
    """

    def __init__(self, connection: sqlite3.Connection, mark: NewestMark) -> None:
        self._connection, self._mark = connection, mark
        self._version, self._unheard, self._looked_at = 0, 0, 0.0

    def read(self, trusted_s: float) -> int:
        """`trusted_s` is how long the mark alone is trusted."""
        now = time.perf_counter()
        if self._mark.has_changed() or now > self._looked_at + trusted_s:
            self._looked_at = 0.0  # unless this succeeds
            self._version = int(self._connection.execute("pragma data_version").fetchone()[0])
            self._looked_at = now
        return self._version + self._unheard

    def with_unheard(self, version: int | None) -> int | None:
        """The same for a version that was read in a transaction."""
        return None if version is None else version + self._unheard

    def note_unheard(self, commits: int) -> None:
        """Commits of this process whose callers were cancelled, so that nothing was told of them."""
        self._unheard += commits * UNHEARD
