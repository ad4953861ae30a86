"""One task that starts the runs of schedules when they are due.

Rule 1: start the run, then advance the schedule. After a crash between the two, the run exists already.
Rule 2: the wall clock may be set at any time, so it is read every 30 seconds at least.
Rule 3: a schedule that cannot start its run delays no other schedule.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from interlock.broadcast.run_schedules import (
    NextCron,
    RunSchedule,
    after_clock_change,
    after_failure,
    after_start,
    run_id_of,
)
from interlock.errors import InterlockError, PortError, RunDeleted, RunExists
from interlock.limits import WALL_LOOK_MS
from interlock.ports import Clock, Leadership, RunSchedules

_log = logging.getLogger("interlock")

# Starts the run of an occurrence under the given id; `RunExists` if it was started before.
StartRun = Callable[[RunSchedule, str], Awaitable[None]]

# How long to wait before a store that is away is asked again.
STORE_AWAY_MS = 1_000


class RunScheduler:
    def __init__(
        self,
        store: RunSchedules,
        clock: Clock,
        start_run: StartRun,
        next_cron: NextCron,
        redact: Callable[[str], str],
    ) -> None:
        """`redact` removes the secrets of the host from the stored reason why a run did not start."""
        self._store, self._clock, self._start_run, self._next_cron = store, clock, start_run, next_cron
        self._redact = redact
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Looks at the schedules again: they may have changed."""
        self._changed.set()

    async def run(self, held: Leadership) -> None:
        """Runs while this process leads."""
        while held.is_held():
            self._changed.clear()
            await self._wait(await self._start_due())

    async def _start_due(self) -> int:
        """Starts the runs that are due; returns the milliseconds until the next look."""
        try:
            schedules = await self._store.run_schedules()
            times = [await self._advance(each) for each in schedules if not (each.paused or each.is_over)]
        except PortError as error:
            _log.warning("schedules cannot be read now: %s", error)
            return STORE_AWAY_MS
        return min([WALL_LOOK_MS, *(max(0, at - self._clock.now_ms()) for at in times)])

    async def _advance(self, schedule: RunSchedule) -> int:
        """Starts the run if it is due, and advances the schedule; returns the time of the next look."""
        now = self._clock.now_ms()
        new = after_clock_change(schedule, now, self._next_cron)
        if new.due_at <= now:
            new = await self._start_occurrence(new, now)
        if new != schedule:
            await self._store.replace_schedule(schedule, new)
        return new.due_at if not new.is_over else now + WALL_LOOK_MS

    async def _start_occurrence(self, schedule: RunSchedule, now: int) -> RunSchedule:
        run = run_id_of(schedule)
        try:
            await self._start_run(schedule, run)
        except (RunExists, RunDeleted):  # it was started before, here or by another process
            pass
        except PortError:
            raise
        except Exception as error:  # any reason that keeps this run from starting must not stop the others
            problem = self._redact(str(error) if isinstance(error, InterlockError) else repr(error))
            _log.warning("schedule %s could not start crew %s: %s", schedule.id, schedule.crew, problem)
            return after_failure(schedule, problem, now, self._next_cron)
        return after_start(schedule, run, now, self._next_cron)

    async def _wait(self, ms: int) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ms() + ms))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleeping, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changed.cancel()
