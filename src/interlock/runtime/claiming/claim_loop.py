"""Claims runs that wait for a driver: new ones, those whose owner is gone, and own ones that no task drives.

Rule 1: no more are claimed than this process has room for; the store chooses them fairly.
Rule 2: a sweep comes every 250 ms, give or take 30 %, so that many processes do not come at once; news of the store
brings it forward. A store that tells when a process is silent, or a run can be claimed, is asked every second.
"""

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from typing import Protocol

from interlock.errors import StoreBroken, StoreFailed
from interlock.runtime.claiming.load import Load
from interlock.runtime.runner import Runner

SWEEP_MS = 250
SWEEP_MS_IF_TOLD = 1_000
JITTER = 0.3

# After news of the store: at most so often.
SWEEP_MS_MIN = 50

# Runs claimed in one transaction: it holds up the appends of all processes on the store.
BATCH_MAX = 200

_log = logging.getLogger("interlock")


class RecoverWaiting(Protocol):
    """Claims up to `limit` runs that wait, and continues them; returns those that it claimed."""

    async def __call__(
        self, limit: int, *, crews: Collection[str] | None, organizations: Collection[str] | None
    ) -> Sequence[str]: ...


class ClaimLoop:
    """Claims runs until it is stopped."""

    def __init__(self, runner: Runner, recover: RecoverWaiting) -> None:
        self._clock, self._bus, self._recover = runner.clock, runner.hub.bus, recover
        self.load = Load(runner.work, runner.live_runs)
        self._news = asyncio.Event()
        self._is_stopped = False
        self._paused_until_ms = 0

    async def run(self) -> None:
        """Sweeps until it is cancelled or stopped."""
        stop = self._bus.watch(self._news.set, "claims")
        try:
            while not self._is_stopped:
                await self._wait()
                await self._measure_loop()
                try:
                    if await self.sweep():
                        self._news.set()
                except StoreBroken:
                    return
                except StoreFailed as error:
                    _log.warning("no runs can be claimed now: %s", error)
        finally:
            stop()

    def stop(self) -> None:
        """Claims nothing from now on; runs that are claimed already are driven."""
        self._is_stopped = True

    def pause(self, pause_ms: int) -> None:
        """Claims nothing for a time, so that other processes are first."""
        self._paused_until_ms = self._clock.monotonic_ms() + pause_ms

    async def sweep(self) -> bool:
        """Claims as many runs as there is room for, and continues them; whether there may be more."""
        room = min(self.load.room(), BATCH_MAX)
        if not room or self._is_stopped or self._clock.monotonic_ms() < self._paused_until_ms:
            return False
        began_ms, work = _loop_ms(), self.load.work
        claimed = await self._recover(room, crews=work.crews, organizations=work.organizations)
        self.load.on_claimed(_loop_ms() - began_ms, len(claimed))
        return len(claimed) == room

    async def sweep_all(self) -> None:
        """Claims all that wait, as far as there is room."""
        while await self.sweep():
            pass

    async def _measure_loop(self) -> None:
        began_ms = _loop_ms()
        await asyncio.sleep(0)
        self.load.on_turn(_loop_ms() - began_ms)

    async def _wait(self) -> None:
        """Waits for the next sweep: until it is due, or the store has news."""
        now = self._clock.monotonic_ms()
        sweep_ms = SWEEP_MS_IF_TOLD if self._bus.tells_claims else SWEEP_MS
        pause_ms = round(sweep_ms * (1 + JITTER * (2 * random.random() - 1)))  # noqa: S311 - spreads processes
        sleeping = asyncio.ensure_future(self._clock.sleep_until(now + pause_ms))
        notified = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((sleeping, notified), return_when=asyncio.FIRST_COMPLETED)
            if not sleeping.done() and self._clock.monotonic_ms() < now + SWEEP_MS_MIN:
                await self._clock.sleep_until(now + SWEEP_MS_MIN)
            self._news.clear()
        finally:
            sleeping.cancel()
            notified.cancel()


def _loop_ms() -> float:
    return asyncio.get_running_loop().time() * 1000
