"""Repeating schedules: at an interval, or at a local time of day.

Rule 1: a local time that the clocks skip is the next instant that exists; one that they show twice is the first.
Rule 2: the times of a schedule only grow, so that none comes twice, even if clocks change.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from interlock.errors import BadBroadcast
from interlock.limits import HORIZON_MS, REPEAT_MS_MIN

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Either `every_ms`, or `at` a local time in a `zone`, on all days or on some of the week."""

    every_ms: int = msgspec.field(name="everyMs", default=0)
    at: str = ""
    zone: str = ""
    days: tuple[str, ...] = ()


def require_schedule(schedule: Schedule) -> Schedule:
    """Raises `BadBroadcast` if the schedule has no valid time."""
    if bool(schedule.every_ms) == bool(schedule.at):
        raise BadBroadcast("schedule", "", "needs either an interval or a local time")
    if schedule.every_ms:
        if not REPEAT_MS_MIN <= schedule.every_ms <= HORIZON_MS:
            raise BadBroadcast("schedule", f"{schedule.every_ms} ms", f"is not between {REPEAT_MS_MIN} ms and 10 years")
        if schedule.zone or schedule.days:
            raise BadBroadcast("schedule", "", "has an interval; zones and days belong to a local time")
        return schedule
    if not _TIME.fullmatch(schedule.at):
        raise BadBroadcast("local time", schedule.at[:80], "is not between 00:00 and 23:59, written HH:MM")
    for day in schedule.days:
        if day not in WEEKDAYS:
            raise BadBroadcast("day", day[:80], f"is none of {', '.join(WEEKDAYS)}")
    _zone(schedule.zone)
    return schedule


def next_after(schedule: Schedule, after_ms: int, start_ms: int | None = None) -> int:
    """The first instant of the schedule after another one. Intervals count from `start_ms`."""
    if schedule.every_ms:
        start = after_ms if start_ms is None else start_ms
        return start + ((after_ms - start) // schedule.every_ms + 1) * schedule.every_ms
    try:
        return _next_local(schedule, _EPOCH + after_ms * _MILLISECOND)
    except OverflowError as error:
        raise BadBroadcast("schedule", schedule.at, "has no next time before the year 10000") from error


def local_ms(local: datetime, zone: str) -> int:
    """The instant when clocks of the zone show this date and time."""
    return (_instant(_zone(zone), local.date(), local.time()) - _EPOCH) // _MILLISECOND


def _next_local(schedule: Schedule, after: datetime) -> int:
    zone, at = _zone(schedule.zone), time.fromisoformat(schedule.at)
    day = after.astimezone(zone).date() - _DAY
    while True:
        if not schedule.days or WEEKDAYS[day.weekday()] in schedule.days:
            instant = _instant(zone, day, at)
            if instant > after:
                return (instant - _EPOCH) // _MILLISECOND
        day += _DAY


@lru_cache(maxsize=100)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadBroadcast("time zone", name[:80], "is unknown; name one such as Europe/Berlin or UTC") from error


def _instant(zone: ZoneInfo, day: date, at: time) -> datetime:
    """The instant when clocks of the zone show this time on this day, in UTC."""
    local = datetime.combine(day, at)
    instant = local.replace(tzinfo=zone).astimezone(UTC)  # the first of two, if they show it twice
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    return _end_of_gap(zone, local)


def _end_of_gap(zone: ZoneInfo, local: datetime) -> datetime:
    """The first instant after the clocks skip a local time."""
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    offset = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after


def iso_time(ms: int) -> str:
    """The time for models and people: `2026-11-16T10:31:49.000Z`."""
    return (_EPOCH + ms * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
