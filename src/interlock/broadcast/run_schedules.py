"""Schedules that start runs. Pure rules; time arrives as a value.

Rule 1: an occurrence is named by its schedule and its planned time, so that its run has one id and is started once,
even if several processes try it.
Rule 2: occurrences that were missed while no server was running come once, not once each.
Rule 3: a clock that was ahead and was set back delays no occurrence: the next one is planned again.
Rule 4: an occurrence whose run cannot start is tried again a few times; then the schedule waits for the next one.
"""

from collections.abc import Callable

import msgspec

from interlock.broadcast.naming import stable_id
from interlock.broadcast.schedules import Schedule, next_after
from interlock.limits import DELIVERY_PAUSES_MS

# The first instant of a cron expression in a time zone after another instant, in milliseconds since 1970.
NextCron = Callable[[str, str, int], int]


class RunSchedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule that starts a run of a crew at `next_at`, then again by `repeat` or `cron` if it has one of them.

    `problem` is the reason why the last occurrence did not start; it is empty after one that did.
    """

    id: str
    crew: str
    input: str
    next_at: int
    created_at: int
    repeat: Schedule | None = None
    cron: str = ""
    zone: str = ""
    paused: bool = False
    attempts: int = 0
    try_at: int = 0
    last_at: int = 0
    last_run: str = ""
    problem: str = ""

    @property
    def is_repeated(self) -> bool:
        return self.repeat is not None or bool(self.cron)

    @property
    def due_at(self) -> int:
        return max(self.next_at, self.try_at)

    @property
    def is_over(self) -> bool:
        """True if its only occurrence was started or given up."""
        return not self.is_repeated and self.last_at >= self.next_at


def run_id_of(schedule: RunSchedule) -> str:
    """The id of the run that the next occurrence starts."""
    return f"{schedule.next_at:012x}{stable_id(f'{schedule.id}:{schedule.next_at}')[:8]}"


def first_occurrence(repeat: Schedule | None, cron: str, zone: str, now: int, next_cron: NextCron) -> int:
    """The first occurrence after now of a schedule that repeats."""
    if repeat is not None:
        return next_after(repeat, now)
    return next_cron(cron, zone, now)


def _time_after(schedule: RunSchedule, after: int, next_cron: NextCron) -> int:
    if schedule.repeat is not None:
        return next_after(schedule.repeat, after, schedule.next_at)
    return next_cron(schedule.cron, schedule.zone, after)


def after_start(schedule: RunSchedule, run: str, now: int, next_cron: NextCron) -> RunSchedule:
    return _after_occurrence(schedule, now, next_cron, last_run=run, problem="")


def after_failure(schedule: RunSchedule, problem: str, now: int, next_cron: NextCron) -> RunSchedule:
    """The schedule for the next try, or for the next occurrence if this one was tried often enough."""
    if schedule.attempts < len(DELIVERY_PAUSES_MS):
        pause = DELIVERY_PAUSES_MS[schedule.attempts]
        return msgspec.structs.replace(schedule, attempts=schedule.attempts + 1, try_at=now + pause, problem=problem)
    return _after_occurrence(schedule, now, next_cron, last_run=schedule.last_run, problem=problem)


def _after_occurrence(
    schedule: RunSchedule, now: int, next_cron: NextCron, *, last_run: str, problem: str
) -> RunSchedule:
    then = _time_after(schedule, max(now, schedule.next_at), next_cron) if schedule.is_repeated else schedule.next_at
    return msgspec.structs.replace(
        schedule,
        next_at=then,
        last_at=schedule.next_at,
        last_run=last_run,
        problem=problem,
        attempts=0,
        try_at=0,
    )


def after_clock_change(schedule: RunSchedule, now: int, next_cron: NextCron) -> RunSchedule:
    """The schedule, corrected for this time of the clock."""
    if not schedule.is_repeated or schedule.next_at <= now:
        return schedule
    then = min(schedule.next_at, _time_after(schedule, now, next_cron))
    return schedule if then == schedule.next_at else msgspec.structs.replace(schedule, next_at=then)


def with_pause(schedule: RunSchedule, paused: bool, now: int, next_cron: NextCron) -> RunSchedule:
    """The schedule paused or resumed; occurrences during a pause are skipped."""
    then = schedule.next_at
    if not paused and schedule.is_repeated and then <= now:
        then = _time_after(schedule, now, next_cron)
    return msgspec.structs.replace(schedule, paused=paused, next_at=then, attempts=0, try_at=0)
