"""Threads for tools that are synchronous functions.

Rule 1: their number is limited; further calls wait in order.
Rule 2: a thread cannot be stopped. A caller that stopped waiting continues, and a late result is dropped.
Rule 3: the threads do not keep the process alive: a tool that never returns must not prevent its exit.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from interlock.errors import ToolFailed

# Parallel calls of synchronous functions. They mostly wait for a network or a disk; more would not help.
THREADS_MAX = 32


class ToolThreads:
    """A thread lives as long as there is work for it."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most, self._running = most, 0
        self._waiting: deque[_Job] = deque()
        self._lock = Lock()

    async def call(self, work: Callable[[], Any]) -> Any:
        """Runs the work with the caller's context variables; returns its result or raises its error."""
        job = _Job(work)
        self._enqueue(job)
        return await job.future

    def _enqueue(self, job: "_Job") -> None:
        with self._lock:
            self._waiting.append(job)
            if self._running == self._most:
                return
            self._running += 1
        try:
            Thread(target=self._run_jobs, name="interlock-tool", daemon=True).start()
        except RuntimeError as error:
            self._drop_thread_or_fail(job, error)

    def _drop_thread_or_fail(self, job: "_Job", error: RuntimeError) -> None:
        """Starts a thread if possible. Running threads will take the job; without any, it fails."""
        with self._lock:
            self._running -= 1
            if self._running == 0 and job in self._waiting:
                self._waiting.remove(job)
                raise ToolFailed(f"no thread can be started for it: {error}") from error

    def _run_jobs(self) -> None:
        while (job := self._next_job()) is not None:
            job.run()

    def _next_job(self) -> "_Job | None":
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


class _Job:
    """A call, and the future of its caller in its loop."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._context = work, contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            value = self._context.run(self._work)
        except StopIteration as error:  # a future does not take it, and its caller would wait for ever
            self._deliver(self.future.set_exception, RuntimeError(f"StopIteration: {error}".removesuffix(": ")))
        except BaseException as error:
            self._deliver(self.future.set_exception, error)
        else:
            self._deliver(self.future.set_result, value)

    def _deliver(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self.future.done():
            settle(outcome)
