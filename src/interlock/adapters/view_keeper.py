"""Keeps the views of the bus current: a thread of its own, woken after commits, that nobody waits for.

Rule 1: writing views never slows or fails a commit. What cannot be written is reported once, and tried again.
Rule 2: it reads by a connection of its own, and rests in proportion to what it has done: a queue of 100,000 signals
is not written out for each of them.
"""

import logging
import sqlite3
import time
from threading import Event, Thread

from interlock.adapters import bus_rows
from interlock.adapters.remembered_sqlite import count_of
from interlock.adapters.signal_files import Busy, Report, SignalFiles
from interlock.adapters.store_sqlite import SqliteStore
from interlock.broadcast.delayed import Delayed
from interlock.broadcast.record import decoded
from interlock.errors import StoreFailed

_log = logging.getLogger("interlock")

# The share of one core that keeping views may take.
REST_PER_WORK = 9
REST_S_MIN = 0.02
BUSY_S = 0.05
# After a failure; a full disk is not emptier a millisecond later.
FAILED_S = 1.0
# How long closing waits for the last refresh.
STOP_S = 5.0


class SqliteTruth:
    """What views are made from, read from the database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def bodies(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Without damaged ones: the doctor names those."""
        query = f"{bus_rows.ANNOUNCEMENTS} where position > ? order by position limit ?"
        rows = self._connection.execute(query, (after, limit)).fetchall()
        sound = [line for row in rows for line in bus_rows.lines(*row) if line[0] > after]
        return sound if sound or not rows else self.bodies(rows[-1][0], limit)

    def start_of_newest(self, bytes_max: int) -> int:
        left = bytes_max
        for row in self._connection.execute(f"{bus_rows.ANNOUNCEMENTS} order by position desc"):
            for position, line in reversed(bus_rows.lines(*row)):
                left -= len(line) + 1
                if left < 0:
                    return position
        return 0

    def position_of(self, body: bytes) -> int | None:
        try:
            name = decoded(body).id
        except ValueError:
            return None
        found = self._connection.execute("select position from broadcasts where id = ?", (name,)).fetchone()
        if found is not None:
            return int(found[0])
        return bus_rows.positions_of_quiet(self._connection, (name,)).get(name)

    def delayed_number(self) -> int:
        return count_of(self._connection, "delayed")

    def delayed(self) -> list[Delayed]:
        return bus_rows.delayed(self._connection)


def logged(message: str) -> None:
    _log.warning("%s", message)


class ViewKeeper:
    """Its thread is started by the first notice, and ends with `stop`."""

    def __init__(self, store: SqliteStore, report: Report = logged) -> None:
        self._store, self._report = store, report
        self._woken, self._stopping = Event(), Event()
        self._thread: Thread | None = None
        self._complaint = ""

    def notice(self) -> None:
        """Something was committed. Costs next to nothing."""
        if self._thread is None and not self._stopping.is_set():
            self._thread = Thread(target=self._keep, name="interlock-views", daemon=True)
            self._thread.start()
        self._woken.set()

    def stop(self) -> None:
        """After a last refresh, unless that takes too long: whoever comes next does it then."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _keep(self) -> None:
        try:
            truth = SqliteTruth(self._store.one_more_connection())
        except (sqlite3.Error, StoreFailed) as error:
            self._report(f"the views of the bus cannot be written: {error}")
            return
        files = SignalFiles(self._store.folder, truth, self._report, lambda: time.time_ns() // 1_000_000)
        try:
            while True:
                self._woken.wait()
                is_last = self._stopping.is_set()
                self._woken.clear()
                rest_s = self._refreshed(files)
                if is_last:
                    return
                self._stopping.wait(rest_s)
                if rest_s in (BUSY_S, FAILED_S) or self._stopping.is_set():
                    self._woken.set()
        finally:
            truth.close()

    def _refreshed(self, files: SignalFiles) -> float:
        """How long to rest after it."""
        began = time.monotonic()
        try:
            files.refresh()
        except Busy:
            return BUSY_S
        except Exception as error:  # whatever it is, the thread goes on and tries again
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._report(f"the views in '{files.folder}' cannot be written now, and will be later: {error}")
            return FAILED_S
        self._complaint = ""
        return max(REST_S_MIN, REST_PER_WORK * (time.monotonic() - began))
