"""Schedules of runs for the program that embeds Interlock, the command line and the server: `box.schedules`."""

from collections.abc import Callable, Sequence

from interlock.adapters.cron import next_cron
from interlock.adapters.new_ids import new_broadcast_id
from interlock.broadcast.delayed import require_time
from interlock.broadcast.run_schedules import RunSchedule, first_occurrence, with_pause
from interlock.broadcast.schedules import Schedule, require_schedule
from interlock.errors import NoSuchSchedule, UsageError
from interlock.ports import Clock, RunSchedules


class Schedules:
    """Adds, lists, pauses and deletes schedules. A server, or a host opened with `recover`, starts the runs."""

    def __init__(
        self, store: RunSchedules, clock: Clock, on_change: Callable[[], None], redact: Callable[[str], str]
    ) -> None:
        """`redact` removes the secrets of the host from text that is stored."""
        self._store, self._clock, self._on_change, self._redact = store, clock, on_change, redact

    async def add(
        self,
        crew: str,
        text: str,
        *,
        at: int | None = None,
        repeat: Schedule | None = None,
        cron: str = "",
        zone: str = "UTC",
        id: str = "",  # noqa: A002 - the word of every other listing
    ) -> RunSchedule:
        """Schedules runs of a crew that is known in this folder, once or repeatedly.

        If the id exists already, returns that schedule.
        """
        if (at is not None) + (repeat is not None) + bool(cron) != 1:
            raise UsageError("give one of a time, an interval, a time of day or a cron expression")
        now = self._clock.now_ms()
        if repeat is not None:
            require_schedule(repeat)
        first = require_time(at, now) if at is not None else first_occurrence(repeat, cron, zone, now, next_cron)
        schedule = RunSchedule(
            id=id or new_broadcast_id(),
            crew=crew,
            input=self._redact(text),
            next_at=first,
            created_at=now,
            repeat=repeat,
            cron=cron,
            zone=zone if cron else "",
        )
        known = [each for each in await self._store.run_schedules() if each.id == schedule.id]
        if known:
            return known[0]
        await self._store.add_schedule(schedule)
        self._on_change()
        return schedule

    async def list(self) -> Sequence[RunSchedule]:
        """All schedules, the next one first."""
        return await self._store.run_schedules()

    async def pause(self, name: str, *, paused: bool = True) -> RunSchedule:
        """Pauses a schedule, or ends its pause; runs that were due during a pause do not start."""
        while True:  # the scheduler may advance it at this moment
            old = await self._schedule(name)
            new = with_pause(old, paused, self._clock.now_ms(), next_cron)
            if await self._store.replace_schedule(old, new):
                self._on_change()
                return new

    async def delete(self, name: str) -> RunSchedule:
        schedule = await self._schedule(name)
        await self._store.remove_schedule(schedule.id)
        self._on_change()
        return schedule

    async def _schedule(self, name: str) -> RunSchedule:
        """Finds a schedule by its id, or by the beginning of its id."""
        schedules = await self._store.run_schedules()
        found = [each for each in schedules if each.id.startswith(name)] if name else []
        exact = [each for each in found if each.id == name]
        if len(exact or found) == 1:
            return (exact or found)[0]
        raise NoSuchSchedule(name, [each.id for each in found])
