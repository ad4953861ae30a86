"""How much of the log is not written back to the database, and since when."""

import time

# The log is written back to the database after about this much: 1,000 pages, as SQLite does by itself.
LOG_BYTES = 4 * 1024 * 1024
# Bytes of a commit besides its bodies: a page of records; with every sixth a new one, and the page above. Rows of runs
# and what else goes with some records make it two.
COMMIT_BYTES = 2 * 4096

# With durability "normal": how old a commit may get before it is forced to the disk.
NORMAL_SYNC_S = 1.0


class LogBacklog:
    """`syncs` says that only writing back forces commits to the disk, so it is due after a second at the latest."""

    def __init__(self, *, syncs: bool) -> None:
        self._syncs, self._logged = syncs, 0
        self._unsynced_since: float | None = None

    def add_commit(self, size: int) -> bool:
        """Whether the thread that writes back must wake: it is due, or from now on it waits for a time."""
        self._logged += COMMIT_BYTES + size
        if self._syncs and self._unsynced_since is None:
            self._unsynced_since = time.monotonic()
            return True
        return self._logged >= LOG_BYTES

    def clear(self) -> None:
        """Before writing back: what is committed from now on counts."""
        self._unsynced_since, self._logged = None, 0

    def retry_later(self) -> None:
        """Writing back has failed; it is tried again after a second."""
        self._unsynced_since = time.monotonic()

    def wait_s(self) -> float | None:
        """How long until it is due; None as long as only commits make it due."""
        since = self._unsynced_since
        return None if since is None else max(0.0, since + NORMAL_SYNC_S - time.monotonic())

    def is_due(self) -> bool:
        since = self._unsynced_since
        return self._logged >= LOG_BYTES or (since is not None and time.monotonic() >= since + NORMAL_SYNC_S)
