"""One heap of deadlines for all runs, and one task that waits for the next."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

from interlock.ports import Clock

# Cancelled deadlines stay in the heap until there are this many more of them than of the others.
# Most are an hour away, and a paused run must cost nothing until then.
GIVEN_UP_MAX = 100


class Timers:
    """Calls back at a deadline. A cancelled deadline is skipped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, str]] = []
        self._calls: dict[str, Callable[[], None]] = {}
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def set(self, key: str, duration_ms: int, call: Callable[[], None]) -> None:
        due = self._clock.monotonic_ms() + duration_ms
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._calls[key] = call
        if self._heap[0][2] == key:
            self._changed.set()

    def cancel(self, key: str) -> None:
        self._calls.pop(key, None)
        if len(self._heap) > 2 * len(self._calls) + GIVEN_UP_MAX:
            self._heap = [entry for entry in self._heap if entry[2] in self._calls]
            heapq.heapify(self._heap)

    async def run(self) -> None:
        """Waits for deadlines until it is cancelled."""
        while True:
            self._fire_due()
            self._changed.clear()
            await self._wait_for_next()

    def _fire_due(self) -> None:
        now = self._clock.monotonic_ms()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2] not in self._calls):
            call = self._calls.pop(heapq.heappop(self._heap)[2], None)
            if call is not None:
                call()

    async def _wait_for_next(self) -> None:
        if not self._heap:
            await self._changed.wait()
            return
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._heap[0][0]))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleeping, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changed.cancel()
