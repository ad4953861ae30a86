"""The one who writes: group commits, on the event loop while that is quick, and in a thread when it is not.

Rule 1: one lock guards the connection, so that the loop and the thread never use it at once. The loop never waits for
it: what it cannot write at once it leaves to the thread, and then writes nothing before the thread has done all that.
Rule 2: the task that writes alone is committed on the spot, until it has held up a tick of the loop for 5 ms. Whoever
else writes in that tick is gathered, and all that was gathered in a tick goes into one transaction, and is
acknowledged after its commit.
Rule 3: the loop is not held up. What is large, what another process keeps locked, and checkpoints go to the thread.
So does everything while the disk is slow: the longest commit counts, and is forgotten by a tenth with every commit.
A disk that takes 100 ms to sync holds up the loop once, and again only after 30 quick commits.
Rule 4: a piece of work refuses before its first write, so that a refusal leaves the others in its transaction alone.
Rule 5: nobody opens or copies the database's files in this process: closing any descriptor of them would drop SQLite's
locks, and another process would delete the write-ahead log under us. So its inode is compared before writing, and
before acknowledging. The database's own inode is compared every 10 ms of writing: whoever replaces that file throws
away all that was ever acknowledged, so that a closer look would save nothing.
Rule 6: how far the database has come is marked beside it, after each commit and before it is acknowledged. A commit
that stored no record is counted in the database for that.
Rule 7: a failed fsync is final. What the disk then holds is unknown, so nothing is acknowledged any more.
"""

import asyncio
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, TypeVar

from interlock.adapters.crash_points import crash_point
from interlock.adapters.newest_mark import NewestMark
from interlock.adapters.remembered_sqlite import UNRECORDED, add_one
from interlock.adapters.sqlite_failures import FINAL, FOREIGN, code_of, failure, is_locked
from interlock.adapters.sqlite_rows import Tips
from interlock.errors import RunError, StoreBroken, StoreFailed

T = TypeVar("T")
Work = Callable[[sqlite3.Connection, Tips], T]

# One transaction of the thread holds at most this much work, so that the first to ask need not wait for thousands.
BATCH_MAX = 1_000

# A commit, or a tick of the loop, that takes longer than this is slow: a hundred live streams would notice.
SLOW_S = 0.005
FORGOTTEN = 0.9

# More than this takes milliseconds to hash and write.
LARGE_BYTES = 1024 * 1024

# Files that were compared so lately need not be compared again before writing; before acknowledging the log always is.
CHECKED_S = 0.01

# How long the thread waits for another process that writes.
LOCKED_WAIT_MS = 5_000

# The log is written back to the database after about this much: 1,000 pages, as SQLite does by itself.
LOG_BYTES = 4 * 1024 * 1024
# What a commit writes besides its bodies: a page of runs, one of records, one of their index. A handoff has two more.
COMMIT_BYTES = 3 * 4096

# With durability "normal": how old a commit may get before it is forced to the disk.
NORMAL_SYNC_S = 1.0


class Job(NamedTuple):
    doing: str
    work: Work[Any]
    future: asyncio.Future[Any]
    size: int


class Outcome(NamedTuple):
    """`result` is what the work gave, or the exception that whoever asked is told."""

    job: Job
    result: Any


# In place of a result: the thread will do it.
LEFT = object()


class Writer:
    """Commits what it is asked for; `broken` says why it no longer does."""

    def __init__(self, connection: sqlite3.Connection, path: Path, durability: str, mark: NewestMark) -> None:
        self.connection, self._mark = connection, mark
        self.broken: str | None = None
        self._database, self._log = str(path), f"{path}-wal"
        self._database_inode, self._log_inode = _inode(self._database), _inode(self._log)
        self._checked_at = 0.0
        self._tips = Tips()
        self._lock = Lock()
        self._home: asyncio.AbstractEventLoop | None = None
        self._gathered: list[Job] = []
        self._in_company = False
        self._writes_alone: asyncio.Task[Any] | None = None
        self._tick_began = 0.0
        self._slowest_s = 0.0
        self._logged = 0
        self._syncs = durability == "normal"
        self._unsynced_since: float | None = None
        self._left: deque[Job] = deque()
        self._woken, self._stopping = Event(), False
        self.connection.execute("pragma busy_timeout = 0").fetchone()
        self._thread = Thread(target=self._serve, name="interlock-writer", daemon=True)
        self._thread.start()

    async def write(self, doing: str, work: Work[T], size: int = 0) -> T:
        """Returns when it is committed, or raises why it is not."""
        loop = asyncio.get_running_loop()
        if is_alone := self._is_alone(loop):
            result = self._written_alone(doing, work, size)
            if result is not LEFT:
                return result  # type: ignore[no-any-return]
        job = Job(doing, work, loop.create_future(), size)
        if is_alone or self._home is not loop:
            self._leave([job])
        else:
            self._gather(job, loop)
        return await job.future  # type: ignore[no-any-return]

    def version(self) -> int | None:
        """A number that changes when another connection has committed; None while the thread is writing."""
        if self.broken is not None or not self._lock.acquire(blocking=False):
            return None
        try:
            return int(self.connection.execute("pragma data_version").fetchone()[0])
        except sqlite3.Error:  # the next write reports it
            return None
        finally:
            self._lock.release()

    def hand_over(self) -> None:
        """On the loop: what was gathered and is not written yet is left to the thread."""
        jobs, self._gathered = self._gathered, []
        self._leave(jobs)

    def stop(self) -> None:
        """Returns when the thread has done all that was left to it, and the log is written back or `broken` says why.

        Closing the connections would write it back as well, and tell nobody if that fails.
        """
        self._stopping = True
        self._woken.set()
        self._thread.join()
        if self.broken is None:
            self._checkpoint()

    # On the event loop

    def _is_home(self, loop: asyncio.AbstractEventLoop) -> bool:
        """One loop writes by itself: the first one, then whoever comes after it was closed."""
        if self._home is loop:
            return True
        if self._home is not None and not self._home.is_closed():
            return False
        self._home, self._in_company, self._writes_alone = loop, False, None
        self.hand_over()
        return True

    def _is_alone(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the running task is the only one that writes in this tick, and may go on doing so."""
        if not self._is_home(loop) or self._in_company or self._gathered:
            return False
        task = asyncio.current_task(loop)
        if self._writes_alone is None:
            self._writes_alone, self._tick_began = task, time.perf_counter()
            loop.call_soon(self._end_tick)
            return True
        return self._writes_alone is task and time.perf_counter() - self._tick_began < SLOW_S

    def _end_tick(self) -> None:
        self._writes_alone = None

    def _gather(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(job)
        if len(self._gathered) == 1:
            loop.call_soon(self._write_gathered)

    def _write_gathered(self) -> None:
        jobs, self._gathered = self._gathered, []
        self._in_company = len(jobs) > 1
        if jobs:
            _deliver(self._written_here(jobs))

    def _written_alone(self, doing: str, work: Work[Any], size: int) -> Any:
        """What the work gives; `LEFT` if it is to be left to the thread."""
        if not self._may_write_here(size):
            return LEFT
        try:
            (result,) = self._commit((work,), size)
        except FOREIGN as error:
            if is_locked(error):
                return LEFT
            raise failure(doing, error) from error
        finally:
            self._lock.release()
        if isinstance(result, RunError):
            raise result
        return result

    def _written_here(self, jobs: list[Job]) -> list[Outcome]:
        """Without what is left to the thread."""
        if not self._may_write_here(_size(jobs)):
            self._leave(jobs)
            return []
        try:
            outcomes = self._perform(jobs)
        finally:
            self._lock.release()
        locked = [each.job for each in outcomes if _is_locked(each)]
        self._leave(locked)
        return [each for each in outcomes if not _is_locked(each)] if locked else outcomes

    def _may_write_here(self, size: int) -> bool:
        """If so, the lock is taken. The thread holds it until all that it took from `_left` is done."""
        is_quick = not self._left and self._slowest_s <= SLOW_S and size <= LARGE_BYTES
        return is_quick and self._lock.acquire(blocking=False)

    def _leave(self, jobs: list[Job]) -> None:
        if jobs:
            self._left.extend(jobs)
            self._woken.set()

    # In the thread

    def _serve(self) -> None:
        while not self._stopping or self._left:
            if not self._left:
                self._woken.wait(self._wait_s())
            self._woken.clear()
            with self._lock:
                outcomes = self._perform_some()
            _deliver_all(outcomes)  # without the lock: whoever is told may write at once
            if self._is_checkpoint_due():
                with self._lock:
                    self._checkpoint()

    def _perform_some(self) -> list[Outcome]:
        jobs = [self._left.popleft() for _ in range(min(len(self._left), BATCH_MAX))]
        return self._perform_patiently(jobs) if jobs else []

    def _wait_s(self) -> float | None:
        since = self._unsynced_since
        return None if since is None else max(0.0, since + NORMAL_SYNC_S - time.monotonic())

    def _perform_patiently(self, jobs: list[Job]) -> list[Outcome]:
        """Waits while another process writes."""
        self.connection.execute(f"pragma busy_timeout = {LOCKED_WAIT_MS:d}").fetchone()
        try:
            return self._perform(jobs)
        finally:
            self.connection.execute("pragma busy_timeout = 0").fetchone()

    # Wherever the lock is held

    def _perform(self, jobs: list[Job]) -> list[Outcome]:
        """All in one transaction; if that fails, each in its own, so that only the culprit is told."""
        try:
            results = self._commit([job.work for job in jobs], _size(jobs))
            return [Outcome(job, result) for job, result in zip(jobs, results, strict=True)]
        except Exception as error:
            failed = [Outcome(job, _told(job, error)) for job in jobs]
            if len(jobs) == 1 or self.broken is not None or _is_locked(failed[0]):
                return failed
            return [outcome for job in jobs for outcome in self._perform([job])]

    def _commit(self, works: Sequence[Work[Any]], size: int) -> list[Any]:
        """What each gives, or its refusal."""
        if self.broken is not None:
            raise StoreBroken(self.broken)
        try:
            if time.perf_counter() > self._checked_at + CHECKED_S:
                self._require_same_files()
            changes, self._tips.newest = self.connection.total_changes, 0
            self.connection.execute("begin immediate")
            results = [self._result(work) for work in works]
            unrecorded = self._counted_unless_recorded(changes)
            crash_point("before commit")
            began = time.perf_counter()
            self.connection.execute("commit")
            took_s = time.perf_counter() - began
            crash_point("after commit")
            self._require_same_log()
            self._mark.grow(self._tips.newest, unrecorded)
        except BaseException as error:
            self._undo(error)
            raise
        self._note(size, took_s)
        return results

    def _result(self, work: Work[Any]) -> Any:
        try:
            return work(self.connection, self._tips)
        except RunError as refusal:
            return refusal

    def _counted_unless_recorded(self, changes_before: int) -> int:
        """The number of this commit among those that store no record; 0 if it does, or changes nothing."""
        if self._tips.newest or self.connection.total_changes == changes_before:
            return 0
        return add_one(self.connection, UNRECORDED)

    def _note(self, size: int, took_s: float) -> None:
        """How quick the disk is, and whether a checkpoint is due; if so the thread is woken."""
        self._slowest_s = max(took_s, self._slowest_s * FORGOTTEN)
        self._logged += COMMIT_BYTES + size
        if self._logged >= LOG_BYTES:
            self._woken.set()
        if self._syncs and self._unsynced_since is None:
            self._unsynced_since = time.monotonic()
            self._woken.set()

    def _undo(self, error: BaseException) -> None:
        """Leaves no transaction behind, and remembers the failures after which nothing may be acknowledged."""
        self._tips.forget()
        if code_of(error) in FINAL:
            self.broken = f"the disk failed to keep what was written ({error}); check it, then start again"
        # SQLite may have rolled back by itself, and a rollback may fail like any other statement.
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("rollback")

    def _require_same_files(self) -> None:
        if _inode(self._database) != self._database_inode:
            raise self._replaced()
        self._require_same_log()
        self._checked_at = time.perf_counter()

    def _require_same_log(self) -> None:
        if _inode(self._log) != self._log_inode:
            raise self._replaced()

    def _replaced(self) -> StoreFailed:
        self.broken = (
            f"'{self._database}' or its log was deleted or replaced while it was in use; nothing more is written,"
            " start again and run 'interlock doctor'"
        )
        return StoreBroken(self.broken)

    def _is_checkpoint_due(self) -> bool:
        since = self._unsynced_since
        is_old = since is not None and time.monotonic() >= since + NORMAL_SYNC_S
        return self.broken is None and (is_old or self._logged >= LOG_BYTES)

    def _checkpoint(self) -> None:
        """Writes the log back to the database; with durability "normal" only this forces commits to the disk."""
        self._unsynced_since, self._logged = None, 0
        try:
            self._require_same_files()
            self.connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except (sqlite3.Error, StoreFailed) as error:
            self._undo(error)


def _inode(file: str) -> int:
    """0 for a file that is not there."""
    try:
        return os.stat(file).st_ino  # noqa: PTH116 - with every commit, and Path.stat takes twice as long
    except FileNotFoundError:
        return 0


def _told(job: Job, error: Exception) -> Exception:
    """What whoever asked for the job is told of an error that is common to a transaction."""
    if not isinstance(error, FOREIGN):
        return error
    told = failure(job.doing, error)
    told.__cause__ = error
    return told


def _is_locked(outcome: Outcome) -> bool:
    return isinstance(outcome.result, Exception) and is_locked(outcome.result.__cause__)


def _size(jobs: list[Job]) -> int:
    return sum([job.size for job in jobs])


def _deliver_all(outcomes: list[Outcome]) -> None:
    """One call a loop, however many wait in it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.future.get_loop(), []).append(outcome)
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_deliver, its)


def _deliver(outcomes: list[Outcome]) -> None:
    for job, result in outcomes:
        if job.future.done():  # whoever asked was cancelled
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
