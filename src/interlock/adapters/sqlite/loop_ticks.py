"""Who writes in a tick of the event loop: one task alone, or several.

Rule: one loop writes by itself: the first one, and after it is closed the next one.
"""

import asyncio
import time
from typing import Any


class LoopTicks:
    """The loop that writes, and the task that writes alone in its present tick."""

    def __init__(self) -> None:
        self.home: asyncio.AbstractEventLoop | None = None
        self.in_company = False
        self._writes_alone: asyncio.Task[Any] | None = None
        self._tick_began = 0.0

    def set_home(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Makes it the loop that writes, if that is closed, or there was none. Returns whether it is a new one."""
        if self.home is loop or (self.home is not None and not self.home.is_closed()):
            return False
        self.home, self.in_company, self._writes_alone = loop, False, None
        return True

    def is_alone(self, loop: asyncio.AbstractEventLoop, longest_s: float) -> bool:
        """Whether the running task is the first to write in this tick, and has not held the loop for too long."""
        task = asyncio.current_task(loop)
        if self._writes_alone is None:
            self._writes_alone, self._tick_began = task, time.perf_counter()
            loop.call_soon(self._end_tick)
            return True
        return self._writes_alone is task and time.perf_counter() - self._tick_began < longest_s

    def _end_tick(self) -> None:
        self._writes_alone = None
