"""A simulated event loop: virtual time, order from a seed, no threads, no sockets.

Rule 1: the seed picks which ready callback runs; time advances only when none is ready.
Rule 2: callbacks of one simulated process are on its lane, and a lane can be stopped at any moment, or for ever.
Rule 3: when nothing is ready and nothing is scheduled, that is a hang, and it raises at once.
"""

import asyncio
import contextvars
import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from interlock.errors import InterlockError
from interlock.testing.simulation.seeds import chance_of

# Far more than any simulation needs; more is an endless loop.
STEPS_MAX = 2_000_000


class SimulationStuck(InterlockError):
    """Nothing is scheduled, or something loops without end."""

    code = "simulation-stuck"


class ThreadsForbidden(InterlockError):
    """A simulation allows no threads: their order would not be reproducible."""

    code = "threads-forbidden"


class Lane:
    """All callbacks of one simulated process. While it is stopped, due callbacks are held."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def context(self) -> contextvars.Context:
        """A context for work on the lane; work that it starts is on the lane too."""
        context = contextvars.copy_context()
        context.run(LANE.set, self)
        return context


LANE: contextvars.ContextVar[Lane | None] = contextvars.ContextVar("interlock-lane", default=None)


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs one callback at a time, in an order that depends only on the seed."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self._chance = chance_of(seed, "order")
        self.now_ms = 0
        self.steps = 0

    def time(self) -> float:
        return self.now_ms / 1000

    def create_task(self, coro: Any, **how: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **how)
        context: contextvars.Context | None = how.get("context")
        lane = LANE.get() if context is None else context.get(LANE)
        if lane is not None:
            lane.tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise ThreadsForbidden(
            f"{func!r} needs a thread, and a simulation has none; make it async, or call it directly"
        )

    def resume_lane(self, lane: Lane) -> None:
        lane.is_stopped = False
        self._ready.extend(lane.held)
        lane.held.clear()

    # What a loop with sockets does with them

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...

    def _run_once(self) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise SimulationStuck(f"no end after {STEPS_MAX} steps; something loops")
        self._wake_due()
        handle = self._pick_ready()
        lane: Lane | None = handle._context.get(LANE)  # type: ignore[attr-defined]
        if lane is not None and lane.is_stopped:
            lane.held.append(handle)
        elif not handle.cancelled():
            handle._run()

    def _pick_ready(self) -> asyncio.Handle:
        index = self._chance.randrange(len(self._ready))
        handle = self._ready[index]
        del self._ready[index]
        return handle

    def _wake_due(self) -> None:
        self._drop_cancelled()
        if not self._ready:
            if not self._scheduled:
                raise SimulationStuck("nothing is ready and nothing is scheduled; all tasks would wait for ever")
            self.now_ms = max(self.now_ms, math.ceil(self._scheduled[0].when() * 1000 - 1e-6))
        while self._scheduled and self._scheduled[0].when() * 1000 <= self.now_ms + 1e-6:
            self._ready.append(heapq.heappop(self._scheduled))
            self._drop_cancelled()

    def _drop_cancelled(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...


class SimulatedClock:
    """A `Clock` on the loop's virtual time. Its wall clock can jump; monotonic time cannot."""

    def __init__(self, loop: SimulatedLoop, now_ms: int = 1_700_000_000_000) -> None:
        self._loop, self._offset_ms = loop, now_ms

    def now_ms(self) -> int:
        return self._offset_ms + self._loop.now_ms

    def monotonic_ms(self) -> int:
        return self._loop.now_ms

    def jump(self, ms: int) -> None:
        self._offset_ms += ms

    async def sleep(self, ms: int) -> None:
        await self.sleep_until(self._loop.now_ms + ms)

    async def sleep_until(self, monotonic_ms: int) -> None:
        if monotonic_ms <= self._loop.now_ms:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        handle = self._loop.call_at(monotonic_ms / 1000, _wake, woken)
        try:
            await woken
        finally:
            handle.cancel()


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)
