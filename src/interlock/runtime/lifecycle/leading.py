"""Work that one process does for all."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from interlock.errors import PortError, StoreBroken
from interlock.ports import Clock, Leaders, Leadership

# How long to wait before a leader whose work failed leads again.
AGAIN_MS = 1_000

_log = logging.getLogger("interlock")


async def lead(leaders: Leaders, clock: Clock, name: str, work: Callable[[Leadership], Awaitable[None]]) -> None:
    """Waits until this process leads, and does the work, which mostly ends only when it is cancelled.

    It leads again, if it can, after work that ended because the store failed, another process leads, or there is a
    mistake in it.
    """
    while True:
        try:
            async with leaders.leadership(name) as held:
                await work(held)
        except StoreBroken:
            return
        except PortError as error:
            _log.warning("'%s' is done by another process, or again later: %s", name, error)
        except Exception:
            _log.exception("'%s' has failed, and is done again by the process that leads next", name)
        await clock.sleep_until(clock.monotonic_ms() + AGAIN_MS)


async def work_together(held: Leadership, works: Sequence[Callable[[Leadership], Coroutine[Any, Any, None]]]) -> None:
    """Does several works of one leader until the first of them ends: then it leads no longer, or the store failed.

    A work that sleeps for long must not keep the others from being done by the next leader, which may be this process.
    """
    tasks = [asyncio.create_task(work(held)) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class LeadershipOnDemand:
    """Leads a name from the first time that there is work for it. `on_led` is called when this process leads."""

    def __init__(self, leaders: Leaders, clock: Clock, name: str, on_led: Callable[[], None]) -> None:
        self._leaders, self._clock, self._name, self._on_led = leaders, clock, name, on_led
        self._held: Leadership | None = None
        self._task: asyncio.Task[None] | None = None

    def is_held(self) -> bool:
        """Whether this process leads now; if not, it wants to from now on."""
        if self._task is None:
            self._task = asyncio.create_task(lead(self._leaders, self._clock, self._name, self._keep))
        return self._held is not None and self._held.is_held()

    async def _keep(self, held: Leadership) -> None:
        self._held = held
        try:
            self._on_led()
            await asyncio.Event().wait()
        finally:
            self._held = None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
