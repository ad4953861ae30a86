"""Threads for tools that are plain functions.

Rule 1: at most so many at once; further calls wait, in the order they came.
Rule 2: a thread cannot be stopped. Whoever gave up waiting goes on, and what the thread brings later is dropped.
Rule 3: the threads do not keep the process alive: a tool that never returns must not keep it from ending.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from interlock.errors import ToolFailed

# Calls of plain functions under way at once. They mostly wait for a network or a disk; more would serve nobody.
THREADS_MAX = 32


class ToolThreads:
    """A thread lives as long as there is work for it."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most, self._running = most, 0
        self._waiting: deque[_Job] = deque()
        self._lock = Lock()

    async def call(self, work: Callable[[], Any]) -> Any:
        """What the work returns or raises; it sees the context variables of the caller."""
        job = _Job(work)
        self._ask(job)
        return await job.future

    def _ask(self, job: "_Job") -> None:
        with self._lock:
            self._waiting.append(job)
            if self._running == self._most:
                return
            self._running += 1
        try:
            Thread(target=self._work, name="interlock-tool", daemon=True).start()
        except RuntimeError as error:
            self._do_without_another(job, error)

    def _do_without_another(self, job: "_Job", error: RuntimeError) -> None:
        """Those that run will come to the job; if there are none, nobody will."""
        with self._lock:
            self._running -= 1
            if self._running == 0 and job in self._waiting:
                self._waiting.remove(job)
                raise ToolFailed(f"no thread can be started for it: {error}") from error

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()

    def _next(self) -> "_Job | None":
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


class _Job:
    """A call, and the future of whoever waits for it in its loop."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._context = work, contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            value = self._context.run(self._work)
        except BaseException as error:
            self._deliver(self.future.set_exception, error)
        else:
            self._deliver(self.future.set_result, value)

    def _deliver(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if not self.future.done():
            settle(outcome)
