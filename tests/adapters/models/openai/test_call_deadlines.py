"""How long a call may take, in virtual time: each wait has its bound, and nothing but our own waits is cut short."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest

from interlock.adapters.models.openai.call_deadlines import CallDeadlines
from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.errors import ModelUnavailable
from interlock.testing.simulation.simulated_loop import SimulatedLoop

T = TypeVar("T")
LIMITS = CallLimits(connect_seconds=1, first_byte_seconds=10, idle_seconds=3, total_seconds=60)


def run(story: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What came of it, and the milliseconds it took."""
    loop = SimulatedLoop(1)
    try:
        return loop.run_until_complete(story), loop.now_ms
    finally:
        loop.close()


async def pieces(*pauses: float) -> AsyncIterator[bytes]:
    for pause in pauses:
        await asyncio.sleep(pause)
        yield b"x"


async def read(pauses: tuple[float, ...], busy: float = 0) -> str:
    """What ended the call; whoever reads is busy for a while with every piece."""
    with CallDeadlines("m", LIMITS) as deadlines:
        coming = pieces(*pauses)
        try:
            while await deadlines.next_piece(coming) is not None:
                await asyncio.sleep(busy)
        except ModelUnavailable as error:
            return str(error)
    return "whole"


@pytest.mark.parametrize(
    ("pauses", "end", "took_ms"),
    [
        ((9.9, 2.9, 2.9), "whole", 15_700),
        ((10.1,), "m said nothing for 10 s", 10_000),
        ((1, 1, 3.1), "m stopped in the middle of its reply and said nothing for 3 s", 5_000),
        ((2.5,) * 30, "m took longer than 60 s for its reply", 60_000),
        ((), "whole", 0),
    ],
)
def test_the_first_piece_the_next_and_all_have_their_own_bound(
    pauses: tuple[float, ...], end: str, took_ms: int
) -> None:
    assert run(read(pauses)) == (end, took_ms)


def test_opening_may_take_as_long_as_a_connection_longer() -> None:
    async def opened() -> str:
        with CallDeadlines("m", LIMITS) as deadlines, pytest.raises(ModelUnavailable, match="said nothing for 10 s"):
            await deadlines.wait_bounded(asyncio.sleep(99), opening=True)
        return "late"

    assert run(opened()) == ("late", 11_000)


def test_time_that_somebody_takes_between_two_waits_is_not_the_servers() -> None:
    assert run(read((1, 1, 1), busy=8)) == ("whole", 27_000)


def test_a_total_that_ran_out_between_two_waits_ends_the_next_one() -> None:
    assert run(read((1, 1), busy=70)) == ("m took longer than 60 s for its reply", 71_000)


def test_who_is_cancelled_by_somebody_else_is_cancelled() -> None:
    async def story() -> bool:
        task = asyncio.ensure_future(read((9,)))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(story()) == (True, 5_000)


def test_who_is_cancelled_at_the_very_deadline_is_cancelled() -> None:
    async def story() -> bool:
        task = asyncio.ensure_future(read((99,)))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(10, task.cancel)
        await asyncio.wait([task])
        return task.cancelled()

    assert run(story()) == (True, 10_000)


def test_work_that_ends_in_spite_of_the_deadline_leaves_nothing_behind() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(99)
        except asyncio.CancelledError:
            return "done"
        return "slept"

    async def story() -> tuple[str, int]:
        with CallDeadlines("m", LIMITS) as deadlines:
            said = await deadlines.wait_bounded(stubborn())
        task = asyncio.current_task()
        assert task is not None
        return said, task.cancelling()

    assert run(story()) == (("done", 0), 10_000)


def test_a_call_that_is_over_leaves_no_timer() -> None:
    """With one left, the loop would wait for it here, and this task would be cancelled."""

    async def story() -> None:
        await read((1,))
        await asyncio.sleep(100)

    assert run(story()) == (None, 101_000)
    loop = SimulatedLoop(1)
    loop.run_until_complete(read((1,)))
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []
    loop.close()
