"""The loop under a simulation: time is virtual, order follows from the seed, and nothing may hide."""

import asyncio

import pytest

from interlock.testing.simulation.simulated_loop import (
    Lane,
    SimulatedClock,
    SimulatedLoop,
    SimulationStuck,
    ThreadsForbidden,
)


def test_hours_pass_in_no_time() -> None:
    loop = SimulatedLoop(1)
    clock = SimulatedClock(loop, now_ms=0)
    loop.run_until_complete(asyncio.sleep(7200))
    loop.run_until_complete(clock.sleep(5))
    assert (loop.now_ms, clock.monotonic_ms(), clock.now_ms()) == (7_200_005,) * 3
    loop.close()


def test_the_wall_clock_jumps_and_monotonic_time_does_not() -> None:
    loop = SimulatedLoop(1)
    clock = SimulatedClock(loop, now_ms=1_000)
    clock.jump(-500)
    loop.run_until_complete(clock.sleep_until(20))
    assert (clock.now_ms(), clock.monotonic_ms()) == (520, 20)
    loop.close()


def order_of(seed: int) -> list[int]:
    loop, order = SimulatedLoop(seed), list[int]()

    async def appends(number: int) -> None:
        await asyncio.sleep(0)
        order.append(number)

    async def several() -> None:
        await asyncio.gather(*map(appends, range(6)))

    loop.run_until_complete(several())
    loop.close()
    return order


def test_what_is_ready_runs_in_an_order_that_follows_from_the_seed() -> None:
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5


def test_waiting_for_what_never_comes_is_a_hang_and_said_at_once() -> None:
    loop = SimulatedLoop(1)
    waiting = loop.create_task(asyncio.Event().wait())
    with pytest.raises(SimulationStuck, match="would wait for ever"):
        loop.run_until_complete(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()


def test_threads_are_refused() -> None:
    loop = SimulatedLoop(1)
    with pytest.raises(ThreadsForbidden, match="needs a thread"):
        loop.run_until_complete(asyncio.to_thread(print))
    loop.close()


def test_a_stopped_lane_stands_still_until_it_is_let_go_on() -> None:
    loop, lane, ticks = SimulatedLoop(1), Lane(), list[float]()

    async def ticking() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks.append(loop.time())

    task = loop.create_task(ticking(), context=lane.context())
    loop.run_until_complete(asyncio.sleep(1.5))
    lane.is_stopped = True
    loop.run_until_complete(asyncio.sleep(10))
    assert (ticks, lane.tasks) == ([1.0], [task])
    loop.resume_lane(lane)
    loop.run_until_complete(task)
    assert ticks == [1.0, 11.5, 12.5]
    loop.close()
