"""Commands in progress: a caller may disappear, a command that has started is completed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from interlock.ports import Clock


class TrackedTasks:
    """Tasks that must end before the process stops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Starts a task that only the shutdown waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run_shielded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Completes the work even if the caller is cancelled."""
        return await asyncio.shield(self.spawn(work))

    async def wait_for_all(self) -> None:
        """Waits for the tasks of this moment; their failures belong to their callers."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self, within_ms: int) -> None:
        """Waits for all tasks, and cancels those that take too long, as with a store that is away."""
        if not self._tasks:
            return
        alarm = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ms() + within_ms))
        while self._tasks and not alarm.done():
            await asyncio.wait({*self._tasks, alarm}, return_when=asyncio.FIRST_COMPLETED)
        for task in (alarm, *self._tasks):
            task.cancel()
        await asyncio.gather(alarm, *self._tasks, return_exceptions=True)
