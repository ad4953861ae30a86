"""The writer: group commits on the event loop while they are quick, else in a thread.

Rule 1: one lock guards the connection, so the loop and the thread never use it at once. The loop never waits for the
lock: it leaves work to the thread, and then writes nothing before the thread has done all of it.
Rule 2: a task that writes alone commits at once, until it has blocked a tick of the loop for 5 ms; a plain append is
one statement then (`runs.lone_append`). Work of other tasks in that tick is gathered. All gathered work of a tick goes
into one transaction, and is acknowledged after its commit.
Rule 3: the loop is not blocked. Large work and work while another process holds the lock go to the thread. So does
everything while the disk is slow: the longest commit counts, and decays by a tenth with every commit. A disk that takes
100 ms to sync blocks the loop once, and again only after 30 quick commits.
Rule 4: a piece of work refuses before its first write, so a refusal does not affect the others in its transaction.
Rule 5: the database's files are never opened or copied in this process (`database_files`). The log is compared before
writing and before acknowledging. The inode of the database is compared every 10 ms of writing: a process that replaces
that file deletes all acknowledged records, so checking more often would save nothing.
Rule 6: the progress of the database is marked beside it, after each commit and before it is acknowledged. Commits
that store no record are counted in the database for that.
Rule 7: a failed fsync is final. The content of the disk is then unknown, so nothing is acknowledged any more.
Rule 8: work waits for two commits at most: what waits when a commit of the thread begins is part of it, in the order in
which it came, up to `write_jobs.GROUP_BYTES`.
Rule 9: SQLite starts the log again only where all of it is written back, and a sync of a log that grows costs twice as
much. So while the disk is quick, commits pause for the millisecond or two in which a thread writes the log back. While
it is slow the thread does so beside them, over a connection of its own, and they pause only if the log grows too much.
"""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from interlock.adapters.crash_points import crash_point
from interlock.adapters.files.newest_mark import NewestMark
from interlock.adapters.sqlite import log_backlog, write_jobs
from interlock.adapters.sqlite.bus.change_counts import UNRECORDED, increment_change_count
from interlock.adapters.sqlite.data_version import DataVersion
from interlock.adapters.sqlite.database_files import DatabaseFiles
from interlock.adapters.sqlite.failures import FINAL, FOREIGN, is_locked, sqlite_code_of, store_failure_of
from interlock.adapters.sqlite.log_backlog import LogBacklog
from interlock.adapters.sqlite.loop_ticks import LoopTicks
from interlock.adapters.sqlite.runs import tail
from interlock.adapters.sqlite.runs.lone_append import append_alone
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.write_jobs import JobOutcome, Work, WriteJob
from interlock.errors import RunError, StoreBroken, StoreFailed
from interlock.ports import AppendResult, AtomicWrites, Record, RunRow

T = TypeVar("T")

# A commit, or a tick of the loop, that takes longer than this is slow: a hundred live streams would notice.
SLOW_S = 0.005
SLOWEST_DECAY = 0.9

# More than this takes milliseconds to hash and write.
LARGE_BYTES = 1024 * 1024

# Files compared within this time are not compared again before writing. The log always is before acknowledging.
CHECKED_S = 0.01

# How long the thread waits while another process writes.
LOCKED_WAIT_MS = 5_000
# Commits pause until all of the log is written back when it has so many times that much.
PAUSE_TIMES, PAGE_BYTES = 8, 4096
# In place of a result: the job was left to the thread.
LEFT_TO_THREAD = object()


class Writer:
    """Commits work; `broken` says why it no longer does."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        write_back: sqlite3.Connection,
        path: Path,
        durability: str,
        mark: NewestMark,
    ) -> None:
        self.connection, self._write_back, self._mark = connection, write_back, mark
        self.broken: str | None = None
        self._files = DatabaseFiles(path)
        self._checked_at = 0.0
        self._cache = WriterCache()
        self._lock = Lock()
        self._transaction_version: int | None = None
        self._data_version = DataVersion(connection, mark)
        self._ticks, self._gathered = LoopTicks(), list[WriteJob]()
        self._slowest_s = 0.0
        self._backlog = LogBacklog(syncs=durability == "normal")
        self._left: deque[WriteJob] = deque()
        self._woken, self._stopping = Event(), False
        self.connection.execute("pragma busy_timeout = 0").fetchone()
        self._log_woken, self._is_pause_due = Event(), False
        self._threads = (
            Thread(target=self._serve, name="interlock-writer", daemon=True),
            Thread(target=self._serve_log, name="interlock-log", daemon=True),
        )
        for thread in self._threads:
            thread.start()

    async def write(self, doing: str, work: Work[T], size: int = 0) -> T:
        """Returns when it is committed, or raises why it is not."""
        loop = asyncio.get_running_loop()
        if is_alone := self._is_alone(loop):
            result = self._write_alone(doing, work, size)
            if result is not LEFT_TO_THREAD:
                return result  # type: ignore[no-any-return]
        job = WriteJob(doing, work, loop.create_future(), size)
        if is_alone or self._ticks.home is not loop:
            self._leave_to_thread([job])
        else:
            self._gather(job, loop)
        try:
            return await job.future  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._data_version.note_unheard(1)  # it may be committed already
            raise

    def version(self, *, also_in_commits: bool = True) -> int | None:
        """A number that changes with commits that no caller here was told of; None while it is unknown.
        In a commit of the thread it may be older than what another process has just committed.
        """
        if self.broken is not None:
            return None
        if not self._lock.acquire(blocking=False):
            return self._data_version.with_unheard(self._transaction_version) if also_in_commits else None
        try:
            return self._data_version.read(CHECKED_S)
        except sqlite3.Error:  # the next write reports it
            return None
        finally:
            self._lock.release()

    def append_alone(
        self, row: RunRow, record: Record, body: bytes, also: AtomicWrites, doing: str
    ) -> AppendResult | None:
        """Appends by one statement if the running task writes alone; None with nothing written if it needs `write`."""
        size = len(body)
        if self._gathered or self._ticks.in_company:
            return None
        if not self._is_alone(asyncio.get_running_loop()) or not self._try_lock_on_loop(size):
            return None
        try:
            if self.broken is not None:
                raise StoreBroken(self.broken)
            began = time.perf_counter()
            if began > self._checked_at + CHECKED_S:
                self._require_same_files()
                began = self._checked_at
            appended = append_alone(self.connection, self._cache, row, record, body, also)
            if appended is None:
                return None
            took_s = time.perf_counter() - began
            self._confirm(appended.position, 0)
            self._note_commit(size, took_s)
            return appended
        except BaseException as error:
            self._undo(error)
            if not isinstance(error, FOREIGN):
                raise
            if is_locked(error):
                return None
            raise store_failure_of(doing, error) from error
        finally:
            self._lock.release()

    def hand_over_to_thread(self) -> None:
        """On the loop: leaves gathered jobs that are not written yet to the thread."""
        jobs, self._gathered = self._gathered, []
        self._leave_to_thread(jobs)

    def stop(self) -> None:
        """Returns when the threads have done all their jobs, and the log is written back or `broken` says why not.

        Closing the connections would write it back too, but not report a failure.
        """
        self._stopping = True
        self._woken.set()
        self._log_woken.set()
        for thread in self._threads:
            thread.join()
        if self.broken is None:
            self._checkpoint()

    # On the event loop

    def _is_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the running task is the only one that writes in this tick, and may continue."""
        ticks = self._ticks
        if ticks.home is not loop:
            if ticks.set_home(loop):
                self.hand_over_to_thread()  # what the closed loop left
            if ticks.home is not loop:
                return False
        return not ticks.in_company and not self._gathered and ticks.is_alone(loop, SLOW_S)

    def _gather(self, job: WriteJob, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(job)
        if len(self._gathered) == 1:
            loop.call_soon(self._write_gathered)

    def _write_gathered(self) -> None:
        jobs, self._gathered = self._gathered, []
        self._ticks.in_company = len(jobs) > 1
        if jobs:
            self._resolve(self._write_on_loop(jobs))

    def _resolve(self, outcomes: list[JobOutcome]) -> None:
        self._data_version.note_unheard(write_jobs.resolve_futures(outcomes))

    def _write_alone(self, doing: str, work: Work[Any], size: int) -> Any:
        """Returns the result of the work, or `LEFT_TO_THREAD`."""
        if not self._try_lock_on_loop(size):
            return LEFT_TO_THREAD
        try:
            (result,) = self._commit((work,), size)
        except FOREIGN as error:
            if is_locked(error):
                return LEFT_TO_THREAD
            raise store_failure_of(doing, error) from error
        finally:
            self._lock.release()
        if isinstance(result, RunError):
            raise result
        return result

    def _write_on_loop(self, jobs: list[WriteJob]) -> list[JobOutcome]:
        """Returns the outcomes, without jobs that are left to the thread."""
        if not self._try_lock_on_loop(write_jobs.size_of(jobs)):
            self._leave_to_thread(jobs)
            return []
        try:
            outcomes = self._perform(jobs)
        finally:
            self._lock.release()
        locked = [each for each in outcomes if isinstance(each.result, Exception) and write_jobs.is_locked_out(each)]
        self._leave_to_thread([each.job for each in locked])
        return [each for each in outcomes if each not in locked] if locked else outcomes

    def _try_lock_on_loop(self, size: int) -> bool:
        """Takes the lock if the loop may write. The thread holds it until all jobs that it took are done."""
        is_quick = not self._left and self._slowest_s <= SLOW_S and size <= LARGE_BYTES
        return is_quick and self._lock.acquire(blocking=False)

    def _leave_to_thread(self, jobs: list[WriteJob]) -> None:
        if jobs:
            self._left.extend(jobs)
            self._woken.set()

    # In the threads

    def _serve(self) -> None:
        while not self._stopping or self._left:
            if not self._left:
                self._woken.wait()
            self._woken.clear()
            with self._lock:
                jobs = write_jobs.take_group(self._left)
                outcomes = self._perform_patiently(jobs) if jobs else []
            write_jobs.resolve_on_loops(outcomes, self._resolve)  # without the lock: a resumed task may write at once
            if self._is_pause_due and self.broken is None:
                with self._lock:
                    self._checkpoint()

    def _serve_log(self) -> None:
        while not self._stopping and self.broken is None:
            self._log_woken.wait(self._backlog.wait_s())
            self._log_woken.clear()
            if not self._backlog.is_due():
                continue
            if self._slowest_s > SLOW_S:
                self._write_back_beside_commits()
            else:
                with self._lock:
                    self._checkpoint()

    def _write_back_beside_commits(self) -> None:
        self._backlog.clear()
        try:
            if not self._files.is_same_database():
                return  # the next commit reports it
            _, pages, _ = self._write_back.execute("pragma wal_checkpoint(passive)").fetchone()
        except (sqlite3.Error, OSError) as error:
            self._note_final_failure(error)
            self._backlog.retry_later()
            return
        if pages * PAGE_BYTES >= PAUSE_TIMES * log_backlog.LOG_BYTES:
            self._is_pause_due = True
            self._woken.set()

    def _perform_patiently(self, jobs: list[WriteJob]) -> list[JobOutcome]:
        """Commits jobs, and waits while another process writes."""
        self.connection.execute(f"pragma busy_timeout = {LOCKED_WAIT_MS:d}").fetchone()
        try:
            return self._perform(jobs)
        finally:
            self.connection.execute("pragma busy_timeout = 0").fetchone()

    # Wherever the lock is held

    def _perform(self, jobs: list[WriteJob]) -> list[JobOutcome]:
        """Commits all jobs in one transaction; if that fails, each in its own, so that only the failing one errs."""
        try:
            results = self._commit([job.work for job in jobs], write_jobs.size_of(jobs))
            return [JobOutcome(job, result) for job, result in zip(jobs, results, strict=True)]
        except Exception as error:
            failed = [JobOutcome(job, write_jobs.error_for_job(job, error)) for job in jobs]
            if len(jobs) == 1 or self.broken is not None or write_jobs.is_locked_out(failed[0]):
                return failed
            return [outcome for job in jobs for outcome in self._perform([job])]

    def _commit(self, works: Sequence[Work[Any]], size: int) -> list[Any]:
        """Returns the result of each, or its refusal."""
        if self.broken is not None:
            raise StoreBroken(self.broken)
        try:
            if time.perf_counter() > self._checked_at + CHECKED_S:
                self._require_same_files()
            changes = self.connection.total_changes
            self.connection.execute("begin immediate")
            self._transaction_version = self._cache.refresh(self.connection)
            results = [write_jobs.result_of(work, self.connection, self._cache) for work in works]
            if self._cache.newest >= self._cache.filled + tail.TAIL_MAX:
                tail.fill_tail(self.connection, self._cache)
            unrecorded = self._count_unrecorded_commit(changes)
            crash_point("before commit")
            began = time.perf_counter()
            self.connection.execute("commit")
            self._transaction_version, took_s = None, time.perf_counter() - began
            self._confirm(self._cache.newest, unrecorded)
        except BaseException as error:
            self._undo(error)
            raise
        finally:
            self._transaction_version = None
        self._note_commit(size, took_s)
        return results

    def _confirm(self, newest: int, unrecorded: int) -> None:
        """After a commit: raises unless it may be acknowledged, and marks it."""
        crash_point("after commit")
        if self.broken is not None:  # meanwhile, by the thread of the log
            raise StoreBroken(self.broken)
        if not self._files.is_same_log():
            raise self._fail_as_replaced()
        self._mark.advance(newest, unrecorded)

    def _count_unrecorded_commit(self, changes_before: int) -> int:
        """The number of this commit among those without a record; 0 if it has one, or changes nothing."""
        if self._cache.newest or self.connection.total_changes == changes_before:
            return 0
        self._cache.unrecorded = increment_change_count(self.connection, UNRECORDED)
        return self._cache.unrecorded

    def _note_commit(self, size: int, took_s: float) -> None:
        """Notes how quick the disk is, and wakes the thread of the log if it is due."""
        decayed_s = self._slowest_s * SLOWEST_DECAY
        self._slowest_s = took_s if took_s > decayed_s else decayed_s
        if self._backlog.add_commit(size):
            self._log_woken.set()

    def _undo(self, error: BaseException) -> None:
        """Rolls back, and records failures after which nothing may be acknowledged."""
        if self.connection.in_transaction or not is_locked(error):  # else another process kept it from beginning
            self._cache.reset()
        self._note_final_failure(error)
        # SQLite may have rolled back by itself, and a rollback may fail like any other statement.
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("rollback")

    def _note_final_failure(self, error: BaseException) -> None:
        if sqlite_code_of(error) in FINAL:
            self.broken = f"the disk failed to keep what was written ({error}); check it, then start again"

    def _require_same_files(self) -> None:
        if not self._files.is_same_database() or not self._files.is_same_log():
            raise self._fail_as_replaced()
        self._checked_at = time.perf_counter()

    def _fail_as_replaced(self) -> StoreFailed:
        self.broken = (
            f"'{self._files.database}' or its log was deleted or replaced while it was in use; nothing more is written,"
            " start again and run 'interlock doctor'"
        )
        return StoreBroken(self.broken)

    def _checkpoint(self) -> None:
        """Writes all of the log back; with durability "normal" only writing back forces commits to the disk."""
        self._backlog.clear()
        self._is_pause_due = False
        try:
            self._require_same_files()
            self.connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except (sqlite3.Error, OSError, StoreFailed) as error:
            self._undo(error)
            self._backlog.retry_later()
