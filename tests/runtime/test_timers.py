"""Cancelled deadlines leave nothing behind, and the others still fire."""

from interlock.runtime.timers import GIVEN_UP_MAX, Timers
from interlock.testing import ManualClock


def test_deadlines_that_were_given_up_do_not_pile_up() -> None:
    timers = Timers(ManualClock())
    for n in range(10 * GIVEN_UP_MAX):
        timers.set(f"run-{n}", 3_600_000, lambda: None)
        timers.cancel(f"run-{n}")
    assert len(timers._heap) <= GIVEN_UP_MAX


def test_deadlines_fire_in_order_after_others_were_given_up() -> None:
    clock, fired = ManualClock(), []
    timers = Timers(clock)
    for n in reversed(range(5 * GIVEN_UP_MAX)):
        timers.set(str(n), n, lambda n=n: fired.append(n))  # type: ignore[misc]
    for n in range(5 * GIVEN_UP_MAX):
        if n % 50:
            timers.cancel(str(n))
    clock.advance(300)
    timers._fire_due()
    assert fired == [0, 50, 100, 150, 200, 250, 300]
