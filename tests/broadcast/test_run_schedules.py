"""When schedules of runs are due: pure rules, tried at chosen times."""

from interlock.broadcast.run_schedules import (
    RunSchedule,
    after_clock_change,
    after_failure,
    after_start,
    run_id_of,
    with_pause,
)
from interlock.broadcast.schedules import Schedule
from interlock.limits import DELIVERY_PAUSES_MS

HOUR = 3_600_000
NOON = 1_800_000_000_000


def next_cron(expression: str, zone: str, after: int) -> int:
    assert (expression, zone) == ("0 * * * *", "UTC")
    return (after // HOUR + 1) * HOUR


def hourly(next_at: int = NOON, **more: object) -> RunSchedule:
    fields = {"repeat": Schedule(every_ms=HOUR), **more}
    return RunSchedule(id="s", crew="c", input="", next_at=next_at, created_at=NOON - HOUR, **fields)  # type: ignore[arg-type]


def once() -> RunSchedule:
    return RunSchedule(id="s", crew="c", input="", next_at=NOON, created_at=NOON - HOUR)


def test_an_occurrence_has_one_run_id() -> None:
    assert run_id_of(hourly()) == run_id_of(hourly(attempts=3))
    assert run_id_of(hourly()) != run_id_of(hourly(NOON + HOUR))
    assert run_id_of(hourly()) != run_id_of(RunSchedule(id="t", crew="c", input="", next_at=NOON, created_at=0))


def test_the_next_occurrence_is_on_the_grid() -> None:
    new = after_start(hourly(), "r", NOON + 5, next_cron)
    assert (new.next_at, new.last_at, new.last_run) == (NOON + HOUR, NOON, "r")


def test_missed_occurrences_come_once() -> None:
    new = after_start(hourly(), "r", NOON + 10 * HOUR + 5, next_cron)
    assert new.next_at == NOON + 11 * HOUR


def test_a_single_occurrence_is_over_afterwards() -> None:
    assert not once().is_over
    assert after_start(once(), "r", NOON, next_cron).is_over


def test_a_failed_occurrence_is_tried_again_and_then_left_out() -> None:
    schedule = hourly()
    for n, pause in enumerate(DELIVERY_PAUSES_MS):
        schedule = after_failure(schedule, "no model", NOON, next_cron)
        assert (schedule.next_at, schedule.due_at, schedule.attempts) == (NOON, NOON + pause, n + 1)
    schedule = after_failure(schedule, "no model", NOON, next_cron)
    assert (schedule.next_at, schedule.attempts, schedule.problem) == (NOON + HOUR, 0, "no model")
    assert after_start(schedule, "r", NOON + HOUR, next_cron).problem == ""


def test_a_single_occurrence_that_cannot_start_is_over_with_its_reason() -> None:
    schedule = once()
    for _ in range(len(DELIVERY_PAUSES_MS) + 1):
        schedule = after_failure(schedule, "no model", NOON, next_cron)
    assert schedule.is_over
    assert (schedule.problem, schedule.last_run) == ("no model", "")


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    assert after_clock_change(hourly(NOON + 48 * HOUR), NOON - 5, next_cron).next_at == NOON
    assert after_clock_change(hourly(NOON), NOON - 5, next_cron) == hourly(NOON)
    assert after_clock_change(once(), NOON - 48 * HOUR, next_cron) == once()


def test_cron_plans_by_its_own_times() -> None:
    schedule = RunSchedule(id="s", crew="c", input="", next_at=NOON, created_at=0, cron="0 * * * *", zone="UTC")
    assert after_start(schedule, "r", NOON + 5 * HOUR + 1, next_cron).next_at == (NOON // HOUR + 6) * HOUR


def test_what_falls_into_a_pause_does_not_come() -> None:
    paused = with_pause(hourly(), True, NOON - 5, next_cron)
    assert (paused.paused, paused.next_at) == (True, NOON)
    assert with_pause(paused, False, NOON + 3 * HOUR + 5, next_cron).next_at == NOON + 4 * HOUR
    assert with_pause(paused, False, NOON - 3, next_cron).next_at == NOON
