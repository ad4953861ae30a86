"""Writes to PostgreSQL from one thread with one connection.

Rule 1: jobs are done in the order in which they were given, as far as anybody can tell. While the thread waits for one
call, the next jobs gather; those of a kind become one statement. They may pass batchable jobs of another kind, but none
under the same key: none of these callers knows of another one's job yet.
Rule 2: a transition whose outcome is unknown is sent again on a new connection: appending twice has one effect. So is a
single statement. Other work is repeated only if the failure came before its commit.
Rule 3: a connection that failed is never used again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

from interlock.adapters.crash_points import crash_point
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import Connect, PostgresConnection
from interlock.adapters.postgres.failures import FOREIGN, is_connection_lost, postgres_failure_of
from interlock.errors import InterlockError

T = TypeVar("T")
TransactionWork = Callable[[PostgresConnection], T]

# Transitions in one statement, so that the first does not wait for thousands; and bytes, so that it stays under 5 s.
BATCH_MAX = 1_000
BATCH_BYTES_MAX = 8 * 1024 * 1024


class Batchable(NamedTuple):
    """Work that shares a statement with others of its kind: at most one under each key."""

    kind: str
    key: str
    value: Any


class SingleStatement(NamedTuple):
    """Work that is one statement: it needs no other to begin and to commit, and may be done twice."""

    work: TransactionWork[Any]


class QueuedJob(NamedTuple):
    """`work` is a function of the connection, or one of the values above."""

    doing: str
    work: TransactionWork[Any] | SingleStatement | Batchable
    future: asyncio.Future[Any]
    size: int


# Performs a batch in one statement: its kind, the values, and whether their outcome was unknown before.
PerformBatch = Callable[[PostgresConnection, str, Sequence[Any], bool], Sequence[Any]]


class PostgresWriter:
    """Performs jobs in its thread."""

    def __init__(
        self,
        address: PostgresAddress,
        connect: Connect,
        perform_batch: PerformBatch,
        on_reconnect: Callable[[], None],
    ) -> None:
        """`on_reconnect` is called in the thread, after a new connection was made and before it is used."""
        self._address, self._connect, self._perform_batch = address, connect, perform_batch
        self._on_reconnect = on_reconnect
        self._connection: PostgresConnection | None = connect(address)
        self._jobs: deque[QueuedJob] = deque()
        self._woken, self._stopping = Event(), False
        self._cut_off: tuple[float, float] | None = None
        self._thread = Thread(target=self._serve, name="interlock-writer", daemon=True)
        self._thread.start()

    async def write(self, doing: str, work: TransactionWork[T] | SingleStatement | Batchable, size: int = 0) -> T:
        """Returns when it is committed, or raises why it is not."""
        job = QueuedJob(doing, work, asyncio.get_running_loop().create_future(), size)
        self._jobs.append(job)
        self._woken.set()
        return await job.future  # type: ignore[no-any-return]

    @property
    def round_trips(self) -> int:
        return self._connection.round_trips if self._connection is not None else 0

    def cut_off(self) -> tuple[float, float] | None:
        """When a try was first not answered, and when the last one was not; None if the server answered since."""
        return self._cut_off

    def stop(self) -> None:
        """Returns when the thread has done all its jobs."""
        self._stopping = True
        self._woken.set()
        self._thread.join()
        self._drop_connection()

    # In the thread

    def _serve(self) -> None:
        while not self._stopping or self._jobs:
            if not self._jobs:
                self._woken.wait()
            self._woken.clear()
            while self._jobs:
                jobs = self._next_jobs()
                _resolve_on_loops(jobs, self._perform(jobs))

    def _next_jobs(self) -> list[QueuedJob]:
        """The next job; if it is batchable, with later ones that share its statement."""
        jobs = [self._jobs.popleft()]
        first = jobs[0].work
        if not isinstance(first, Batchable):
            return jobs
        keys, size, passed = {first.key}, jobs[0].size, list[QueuedJob]()
        while self._jobs and len(jobs) + len(passed) < BATCH_MAX and size < BATCH_BYTES_MAX:
            work = self._jobs[0].work
            if not isinstance(work, Batchable):
                break
            job = self._jobs.popleft()
            if work.kind == first.kind and work.key not in keys:
                jobs.append(job)
                size += job.size
            else:
                passed.append(job)
            keys.add(work.key)
        self._jobs.extendleft(reversed(passed))
        return jobs

    def _perform(self, jobs: list[QueuedJob]) -> Sequence[Any]:
        """The result of each job, or the exception for its caller."""
        try:
            first, doing = jobs[0].work, jobs[0].doing
            if isinstance(first, Batchable):
                values = [job.work.value for job in jobs if isinstance(job.work, Batchable)]
                return self._repeat_if_lost(partial(self._send_batch, first.kind, values), doing)
            if isinstance(first, SingleStatement):
                return [self._repeat_if_lost(partial(self._send_statement, first.work), doing)]
            return [self._perform_work(first, doing)]
        except FOREIGN as error:
            failures = [postgres_failure_of(job.doing, error, self._address) for job in jobs]
            if len(jobs) == 1 or failures[0].passes:
                return failures
            return [result for job in jobs for result in self._perform([job])]  # one of them is wrong: find out which
        except Exception as error:  # a refusal; or a mistake of ours, which must not end the thread
            if not isinstance(error, InterlockError):
                self._drop_connection()
            return [error for _ in jobs]

    def _repeat_if_lost(self, send: Callable[[PostgresConnection, bool], T], doing: str) -> T:
        """Sends with the flag whether it is repeated; once more if the connection was lost."""
        try:
            return self._send(send, doing, is_repeated=False)
        except FOREIGN as error:
            if not is_connection_lost(error):
                raise
            return self._send(send, doing, is_repeated=True)

    def _send(self, send: Callable[[PostgresConnection, bool], T], doing: str, *, is_repeated: bool) -> T:
        try:
            connection = self._open_connection()
            crash_point("before statement", doing)
            result = send(connection, is_repeated)
            crash_point("after statement", doing)
        except BaseException as error:
            self._drop_if_lost(error)
            raise
        self._note_answer(is_lost=False)
        return result

    def _send_batch(
        self, kind: str, values: list[Any], connection: PostgresConnection, is_repeated: bool
    ) -> Sequence[Any]:
        return self._perform_batch(connection, kind, values, is_repeated)

    def _send_statement(self, work: TransactionWork[T], connection: PostgresConnection, _is_repeated: bool) -> T:
        return work(connection)

    def _perform_work(self, work: TransactionWork[Any], doing: str) -> Any:
        """Performs work in a transaction; once more if the connection was lost before the commit."""
        try:
            return self._commit_work(work, doing)
        except _LostBeforeCommit:
            try:
                return self._commit_work(work, doing)
            except _LostBeforeCommit as lost:
                raise lost.error from None

    def _commit_work(self, work: TransactionWork[Any], doing: str) -> Any:
        try:
            connection = self._open_connection()
            connection.execute("begin")
            result = self._result_or_rollback(connection, work)
        except FOREIGN as error:
            self._drop_if_lost(error)
            if is_connection_lost(error):
                raise _LostBeforeCommit(error) from None
            raise
        try:
            crash_point("before commit", doing)
            connection.execute("commit")
            crash_point("after commit", doing)
        except BaseException as error:
            self._drop_if_lost(error)
            raise
        self._note_answer(is_lost=False)
        return result

    def _result_or_rollback(self, connection: PostgresConnection, work: TransactionWork[Any]) -> Any:
        try:
            return work(connection)
        except BaseException:
            with suppress(*FOREIGN):
                connection.execute("rollback")
            raise

    def _open_connection(self) -> PostgresConnection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect(self._address)
            self._on_reconnect()
        return self._connection

    def _drop_if_lost(self, error: BaseException) -> None:
        is_lost = not isinstance(error, InterlockError) and (self._connection is None or is_connection_lost(error))
        self._note_answer(is_lost=is_lost)
        if is_lost:
            self._drop_connection()

    def _note_answer(self, *, is_lost: bool) -> None:
        now = time.monotonic()
        self._cut_off = None if not is_lost else (now, now) if self._cut_off is None else (self._cut_off[0], now)

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FOREIGN):
                connection.close()


class _LostBeforeCommit(Exception):
    """The connection was lost and nothing was committed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _resolve_on_loops(jobs: list[QueuedJob], results: Sequence[Any]) -> None:
    """Calls each loop once, however many of its tasks wait."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[QueuedJob, Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by_loop.setdefault(job.future.get_loop(), []).append((job, result))
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(_resolve_futures, its)


def _resolve_futures(outcomes: list[tuple[QueuedJob, Any]]) -> None:
    for job, result in outcomes:
        if job.future.done():  # its caller was cancelled
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
