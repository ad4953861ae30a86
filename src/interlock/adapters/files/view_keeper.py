"""Keeps the views of the bus current, in a thread of its own that is woken after commits.

Rule 1: writing views never slows or fails a commit. A failure is reported once, and tried again.
Rule 2: it reads by a connection of its own, and rests in proportion to its work: a queue of 100,000 signals is not
written again for each of them.
"""

import logging
import sqlite3
import time
from itertools import islice
from threading import Event, Thread

from interlock.adapters.files.signal_files import Report, SignalFiles, ViewsBusy
from interlock.adapters.sqlite.bus import announcements, bus_queries
from interlock.adapters.sqlite.bus.change_counts import change_count_of
from interlock.adapters.sqlite.store import SqliteStore
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import decode_broadcast
from interlock.errors import StoreFailed

_log = logging.getLogger("interlock")

# The share of one core that views may use.
REST_PER_WORK = 9
REST_S_MIN = 0.02
BUSY_S = 0.05
# After a failure; a full disk is not emptier a millisecond later.
FAILED_S = 1.0
# How long closing waits for the last refresh.
STOP_S = 5.0


class SqliteSignalSource:
    """The source of the views, read from the database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def bodies(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Leaves out damaged ones, which the doctor reports."""
        rows = list(islice(announcements.rows_after(self._connection, after), limit))
        sound = [line for row in rows for line in row.lines if line[0] > after]
        return sound if sound or not rows else self.bodies(rows[-1].position, limit)

    def start_of_newest(self, bytes_max: int) -> int:
        left = bytes_max
        for row in announcements.rows_below(self._connection):
            for position, line in reversed(row.lines):
                left -= len(line) + 1
                if left < 0:
                    return position
        return 0

    def position_of(self, body: bytes) -> int | None:
        try:
            name = decode_broadcast(body).id
        except ValueError:
            return None
        found = self._connection.execute("select position from broadcasts where id = ?", (name,)).fetchone()
        if found is not None:
            return int(found[0])
        return announcements.presence_positions(self._connection, (name,)).get(name)

    def queue_version(self) -> int:
        return change_count_of(self._connection, "delayed")

    def list_delayed(self) -> list[DelayedBroadcast]:
        return bus_queries.list_delayed(self._connection)


def log_warning(message: str) -> None:
    _log.warning("%s", message)


class ViewKeeper:
    """The thread starts with the first notice, and ends with `stop`."""

    def __init__(self, store: SqliteStore, report: Report = log_warning) -> None:
        self._store, self._report = store, report
        self._woken, self._stopping = Event(), Event()
        self._thread: Thread | None = None
        self._complaint = ""

    def on_commit(self) -> None:
        """Notes a commit. It is cheap."""
        if self._thread is None and not self._stopping.is_set():
            self._thread = Thread(target=self._run_loop, name="interlock-views", daemon=True)
            self._thread.start()
        self._woken.set()

    def stop(self) -> None:
        """Ends after a last refresh, unless that takes too long: then the next process does it."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _run_loop(self) -> None:
        try:
            source = SqliteSignalSource(self._store.open_reader())
        except (sqlite3.Error, StoreFailed) as error:
            self._report(f"the views of the bus cannot be written: {error}")
            return
        files = SignalFiles(self._store.folder, source, self._report, lambda: time.time_ns() // 1_000_000)
        try:
            while True:
                self._woken.wait()
                is_last = self._stopping.is_set()
                self._woken.clear()
                rest_s = self._refresh_once(files)
                if is_last:
                    return
                self._stopping.wait(rest_s)
                if rest_s in (BUSY_S, FAILED_S) or self._stopping.is_set():
                    self._woken.set()
        finally:
            source.close()

    def _refresh_once(self, files: SignalFiles) -> float:
        """Refreshes the views. Returns how long to rest after it."""
        began = time.monotonic()
        try:
            files.refresh()
        except ViewsBusy:
            return BUSY_S
        except Exception as error:  # whatever it is, the thread continues and tries again
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._report(f"the views in '{files.folder}' cannot be written now; trying again later: {error}")
            return FAILED_S
        self._complaint = ""
        return max(REST_S_MIN, REST_PER_WORK * (time.monotonic() - began))
