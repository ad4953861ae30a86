"""A `Clock` for tests that moves only when a test advances it."""

import asyncio
from heapq import heappop, heappush
from itertools import count


class ManualClock:
    """A `Clock` that moves only when `advance` or `jump` is called."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    async def sleep_until(self, monotonic_ms: int) -> None:
        if monotonic_ms <= self._monotonic_ms:
            await asyncio.sleep(0)  # a sleeper always lets the other tasks run
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (monotonic_ms, next(self._order), woken))
        await woken

    def next_wake_ms(self) -> int | None:
        """When the first sleeper is due, on the monotonic clock; None if no task sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def somebody_sleeps(self, within_ms: int) -> None:
        """Returns once a task sleeps that this much time would wake; advancing earlier may wake none."""
        while (due := self.next_wake_ms()) is None or due > self._monotonic_ms + within_ms:
            await asyncio.sleep(0)

    def advance(self, ms: int) -> None:
        """Moves both clocks, and wakes tasks that are due: the earliest first, then by when they fell asleep."""
        assert ms >= 0, "monotonic time does not go back; `jump` moves the wall clock"
        self._now_ms += ms
        self._monotonic_ms += ms
        while (due := self.next_wake_ms()) is not None and due <= self._monotonic_ms:
            heappop(self._sleepers)[2].set_result(None)

    def jump(self, ms: int) -> None:
        """Moves the wall clock alone, in either direction."""
        self._now_ms += ms
