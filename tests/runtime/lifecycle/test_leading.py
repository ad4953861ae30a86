"""Work of a leader is done again after a failure, and on demand only once there is some."""

import asyncio

import pytest

from interlock.errors import NotLeader, StoreBroken, StoreFailed
from interlock.ports import Leadership
from interlock.runtime.lifecycle.leading import AGAIN_MS, LeadershipOnDemand, lead, work_together
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders


async def pass_time(clock: ManualClock) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    clock.advance(AGAIN_MS)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_leader_whose_store_failed_or_who_was_followed_leads_again() -> None:
    clock, epochs = ManualClock(), list[int]()
    failures = [StoreFailed("away"), NotLeader("upkeep"), KeyError("a mistake of ours")]

    async def work(held: Leadership) -> None:
        epochs.append(held.epoch)
        if failures:
            raise failures.pop()
        await asyncio.Event().wait()

    task = asyncio.create_task(lead(MemoryLeaders(MemoryStore()), clock, "upkeep", work))
    for _ in range(5):
        await pass_time(clock)
    assert (epochs, task.done()) == ([1, 2, 3, 4], False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_is_broken_ends_the_work() -> None:
    async def work(held: Leadership) -> None:
        raise StoreBroken("for good")

    await lead(MemoryLeaders(MemoryStore()), ManualClock(), "upkeep", work)


async def test_works_end_together_and_are_all_done_again_after_a_lease_that_was_away_for_a_moment() -> None:
    """One of them may sleep for an hour: the others must not wait for it."""
    clock, store, begun = ManualClock(), MemoryStore(), list[str]()

    async def look_often(held: Leadership) -> None:
        begun.append("often")
        while held.is_held():
            await clock.sleep_until(clock.monotonic_ms() + AGAIN_MS)

    async def look_seldom(held: Leadership) -> None:
        begun.append("seldom")
        await clock.sleep_until(clock.monotonic_ms() + 3_600_000)

    works = (look_often, look_seldom)
    task = asyncio.create_task(lead(MemoryLeaders(store), clock, "upkeep", lambda held: work_together(held, works)))
    await pass_time(clock)
    store.is_leased = False
    await pass_time(clock)
    store.is_leased = True
    await pass_time(clock)
    assert begun == ["often", "seldom"] * 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_error_of_one_work_ends_the_others() -> None:
    ended = list[str]()

    async def fail(held: Leadership) -> None:
        raise StoreBroken("for good")

    async def stay(held: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stay")

    async with MemoryLeaders(MemoryStore()).leadership("upkeep") as held:
        with pytest.raises(StoreBroken):
            await work_together(held, (stay, fail))
    assert ended == ["stay"]


async def test_leadership_is_wanted_only_once_it_is_asked_for() -> None:
    clock, store, led = ManualClock(), MemoryStore(), list[str]()
    first = LeadershipOnDemand(MemoryLeaders(store), clock, "delayed", lambda: led.append("first"))
    second = LeadershipOnDemand(
        MemoryLeaders(MemoryStore(beside=store)), clock, "delayed", lambda: led.append("second")
    )
    await pass_time(clock)
    assert led == []
    assert not second.is_held()
    await pass_time(clock)
    assert (second.is_held(), first.is_held(), led) == (True, False, ["second"])
    await second.stop()
    await pass_time(clock)
    assert (second.is_held(), first.is_held(), led) == (False, True, ["second", "first"])
    for each in (first, second):
        await each.stop()
