"""The cache of the writer beside its connection."""

import sqlite3
from typing import Any

from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.bus.change_counts import UNRECORDED, change_count_or_none
from interlock.adapters.sqlite.runs.places import newest_position
from interlock.adapters.sqlite.runs.run_head import RunHead, row_values, update_values
from interlock.ports import RunRow

# In place of a count that is not known, or damaged; no count is equal to it.
NO_COUNT = -1

# Runs whose rows are cached. Released runs are removed, so only live ones count.
CACHED_RUNS_MAX = 10_000


# The runs that have records after a position.
_RUNS_AFTER = (
    "select distinct runs.run from records cross join runs on runs.number = records.run where records.position > ?"
)


class LiveHead:
    """The end of a run: its row as of the newest record, and where that record is.

    Position 0 stands for the row: it holds the link of the newest record.
    """

    __slots__ = ("epoch", "fixed_crc", "link", "number", "owner", "position", "row", "row_seq", "seq")

    def __init__(self, head: RunHead, row: RunRow) -> None:
        self.number, self.owner, self.epoch, self.fixed_crc = head.number, head.owner, head.epoch, head.fixed_crc
        self.row = row
        self.seq, self.link, self.position = head.seq, head.link, 0
        self.row_seq = head.seq  # as far as the stored row has come

    def row_update(self, row: RunRow) -> tuple[Any, ...]:
        """The values of `UPDATE_ROW` that bring the stored row to this one, at the newest record."""
        self.row_seq = self.seq
        changing = row_values(row.status, row.reason, row.agent, self.seq, row.updated_at, row.usage, self.link)
        return update_values(self.fixed_crc, changing, self.number, self.owner, self.epoch)


class WriterCache:
    """The rows of live runs by their ids, the state of the bus, and how far records and the tail have come."""

    def __init__(self) -> None:
        self.heads: dict[str, LiveHead] = {}
        self.behind: dict[str, LiveHead] = {}  # those whose row is behind
        self.bus = BusCache()
        self._version = -1  # changes when another connection has committed
        self.newest = 0  # the position of the newest record of this transaction
        self.newest_known = 0  # that of the newest record of all, unless another process has committed since
        self.unrecorded = NO_COUNT  # the number of commits without a record
        self.filled = 0  # the position to which the tail was filled, as far as is known
        self.has_run_format = False  # the format of runs is stored; it is never removed

    def refresh(self, connection: sqlite3.Connection) -> int:
        """Drops what another process has changed, and returns the `data_version`. Call it first in a transaction."""
        self.newest = 0
        version: int = connection.execute("pragma data_version").fetchone()[0]
        if version == self._version:
            return version
        self._version = version
        self.bus.refresh()
        if self.heads:
            for (run,) in connection.execute(_RUNS_AFTER, (self.newest_known,)).fetchall():
                self.forget_run(run)
        self.newest_known = newest_position(connection)
        count = change_count_or_none(connection, UNRECORDED)
        self.unrecorded = NO_COUNT if count is None else count
        return version

    def put_head(self, run: str, head: LiveHead) -> None:
        if len(self.heads) >= CACHED_RUNS_MAX:
            self.heads.clear()
        self.heads[run] = head

    def forget_run(self, run: str) -> None:
        self.heads.pop(run, None)
        self.behind.pop(run, None)

    def reset(self) -> None:
        self.heads.clear()
        self.behind.clear()
        self.bus.reset()
        self._version, self.unrecorded, self.has_run_format = -1, NO_COUNT, False
        self.newest = self.newest_known = self.filled = 0
