"""Schedules in local time, through every change of the clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.broadcast.schedules import WEEKDAYS, Schedule, next_after, require_schedule
from interlock.errors import BadBroadcast
from interlock.limits import HORIZON_MS, REPEAT_MS_MIN

ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Chisinau", "America/New_York",
    "America/Chicago", "America/Denver", "America/Los_Angeles", "America/St_Johns", "America/Havana",
    "America/Santiago", "America/Asuncion", "Atlantic/Azores", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut",
    "Asia/Jerusalem", "Australia/Lord_Howe", "Pacific/Auckland",
)  # fmt: skip


def transitions(zone: ZoneInfo) -> list[tuple[datetime, timedelta, timedelta]]:
    """When the clocks change in 2026 to 2030: the instant, and the offsets before and after."""
    found, hour = [], timedelta(hours=1)
    instant, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    while instant < end:
        before, after = instant.astimezone(zone).utcoffset(), (instant + hour).astimezone(zone).utcoffset()
        assert before is not None and after is not None
        if before != after:
            at = instant
            while at.astimezone(zone).utcoffset() == before:
                at += timedelta(minutes=1)
            found.append((at, before, after))
        instant += hour
    return found


def ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


def shown(zone: ZoneInfo, at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%H:%M")


@pytest.mark.parametrize("name", ZONES)
def test_every_change_of_the_clocks_from_2026_to_2030(name: str) -> None:
    zone = ZoneInfo(name)
    changes = transitions(zone)
    assert len(changes) >= (8 if name not in ("America/Asuncion",) else 0)
    for at, before, after in changes:
        for minutes in range(-30, 91, 15):
            local = (at + before).replace(tzinfo=None) + timedelta(minutes=minutes)
            schedule = Schedule(at=local.strftime("%H:%M"), zone=name)
            start = ms(at) - 30 * 3600 * 1000
            found = [next_after(schedule, start)]
            while found[-1] < ms(at) + 30 * 3600 * 1000:
                found.append(next_after(schedule, found[-1]))
            near = [each for each in found if abs(each - ms(at)) < 12 * 3600 * 1000]
            assert len(near) == 1, "once, whatever the clocks do"
            if shown(zone, near[0]) != schedule.at:  # the clocks skip it, so the first instant after the gap counts
                assert after > before and near[0] == ms(at)
            elif after < before:  # shown twice, perhaps: the first counts
                earlier = near[0] - int((before - after).total_seconds() * 1000)
                assert shown(zone, earlier) != schedule.at


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    st.sampled_from(ZONES),
    st.times().map(lambda at: at.strftime("%H:%M")),
    st.lists(st.sampled_from(WEEKDAYS), unique=True, max_size=3).map(tuple),
    st.integers(1_767_225_600_000, 1_924_991_999_000),
)
def test_the_next_instant_is_later_and_none_lies_between(zone: str, at: str, days: tuple[str, ...], after: int) -> None:
    schedule = require_schedule(Schedule(at=at, zone=zone, days=days))
    found = next_after(schedule, after)
    week = 8 * 24 * 3600 * 1000
    assert after < found <= after + week
    assert next_after(schedule, found - 1) == found
    if days:
        assert WEEKDAYS[datetime.fromtimestamp(found / 1000, ZoneInfo(zone)).weekday()] in days


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.integers(REPEAT_MS_MIN, 10**9), st.integers(0, 2 * 10**12), st.integers(-(10**6), 10**10))
def test_an_interval_keeps_its_beat(every: int, start: int, late: int) -> None:
    schedule, after = Schedule(every_ms=every), max(0, start + late)
    found = next_after(schedule, after, start)
    assert found > after and (found - start) % every == 0
    assert found - every <= max(after, start)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(),
        Schedule(every_ms=5_000, at="09:00", zone="UTC"),
        Schedule(every_ms=REPEAT_MS_MIN - 1),
        Schedule(every_ms=HORIZON_MS + 1),
        Schedule(every_ms=-1),
        Schedule(every_ms=5_000, days=("mon",)),
        Schedule(at="24:00", zone="UTC"),
        Schedule(at="9:00", zone="UTC"),
        Schedule(at="09:00", zone="Mars/Olympus"),
        Schedule(at="09:00", zone="../etc/passwd"),
        Schedule(at="09:00", zone=""),
        Schedule(at="09:00", zone="UTC", days=("monday",)),
    ],
    ids=str,
)
def test_a_schedule_that_does_not_say_when_is_refused(schedule: Schedule) -> None:
    with pytest.raises(BadBroadcast):
        require_schedule(schedule)
