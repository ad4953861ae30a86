"""The slots of a run and of model calls, and the inbox of a run."""

import asyncio

import pytest

from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.engine.events import CancelRequested
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.run import Run
from interlock.ports import RunRow
from interlock.runtime.live_run import LiveRun, Slots

CREW = CrewDefinition(version="2.0", name="one", entry_point="a", agents=(AgentDefinition(id="a", name="Ann"),))


async def settle() -> None:
    """Lets every task that can continue do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_slots_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    slots, got = Slots(1), []

    async def hold(name: str) -> None:
        async with slots:
            got.append(name)
            await asyncio.sleep(0)
            assert slots.free == 0

    await asyncio.gather(*map(hold, "abc"))
    assert (got, slots.free) == (["a", "b", "c"], 1)


async def test_a_newcomer_does_not_overtake_the_one_that_waits() -> None:
    slots = Slots(1)
    assert slots.take_free()
    waiting = asyncio.create_task(slots.wait())
    await settle()
    slots.give_back()
    assert not slots.take_free(), "the slot belongs to the one that waited"
    await waiting
    slots.give_back()
    assert slots.take_free()


async def test_a_cancelled_waiter_gets_no_slot() -> None:
    slots = Slots(1)
    assert slots.take_free()
    first, second = (asyncio.create_task(slots.wait()) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    slots.give_back()
    await second
    slots.give_back()
    assert (first.cancelled(), slots.free) == (True, 1)


async def test_a_slot_that_comes_together_with_a_cancellation_is_given_back() -> None:
    slots = Slots(1)
    assert slots.take_free()
    waiting = asyncio.create_task(slots.wait())
    await settle()
    slots.give_back()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slots.free == 1


async def test_the_inbox_gives_events_in_order_and_wakes_the_driver_that_waits() -> None:
    run = Run(CREW, "r")
    row = RunRow(run="r", crew="one", crew_sha="0" * 64, status="running")
    live = LiveRun(run, row, PromptTexts(CREW, run.table), lambda: True)
    first, second = CancelRequested(by="ann"), CancelRequested(by="bob")
    waiting = asyncio.create_task(live.next_event())
    await settle()
    live.enqueue_event(first)
    live.enqueue_event(second)
    assert await waiting == first
    assert await live.next_event() == second
    waiting = asyncio.create_task(live.next_event())
    await settle()
    waiting.cancel()
    await settle()
    live.enqueue_event(None)
    assert await live.next_event() is None
