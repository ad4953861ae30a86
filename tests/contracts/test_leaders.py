"""What every store promises of leaders: one at a time, and an epoch that refuses the last one's writes."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from interlock.adapters.sqlite.store import SqliteStore
from interlock.errors import NotLeader, StorageFull
from interlock.ports import Leaders, Leadership, WebhookDelivery
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import require_leader
from tests.contracts.places import leaders_of, place
from tests.contracts.test_journal import Place, Store

__all__ = ["place"]


class Candidate:
    """A process that wants to lead."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders, self.held, self._stack = leaders, None, AsyncExitStack()
        self.task = asyncio.create_task(self._wait())

    held: Leadership | None

    async def _wait(self) -> Leadership:
        self.held = await self._stack.enter_async_context(self._leaders.leadership("webhooks"))
        return self.held

    async def give_up(self) -> None:
        await self._stack.aclose()


async def let_wait(clock: ManualClock) -> None:
    """Lets candidates look once more."""
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(1_000)


async def elect(candidate: Candidate, clock: ManualClock) -> Leadership:
    while not candidate.task.done():
        clock.advance(1_000)
        await asyncio.sleep(0)
    return candidate.task.result()


async def test_one_process_leads_and_the_next_follows_when_it_gives_up(place: Place) -> None:
    async with place.opened() as store:
        clock, other = ManualClock(), place.open()
        first = Candidate(leaders_of(store, clock))
        assert (await elect(first, clock)).epoch == 1
        second = Candidate(leaders_of(other, clock))
        await let_wait(clock)
        assert second.held is None
        await first.give_up()
        assert first.held is not None
        assert not first.held.is_held()
        held = await elect(second, clock)
        assert (held.epoch, held.is_held()) == (2, True)
        await second.give_up()


async def test_leadership_ends_with_its_process(place: Place) -> None:
    async with place.opened() as store:
        clock, dying = ManualClock(), place.open()
        first = Candidate(leaders_of(dying, clock))
        await elect(first, clock)
        second = Candidate(leaders_of(store, clock))
        await dying.close()
        assert (await elect(second, clock)).epoch == 2
        await second.give_up()


async def test_names_are_led_apart_and_twice_in_a_process_is_not_twice(place: Place) -> None:
    async with place.opened() as store:
        clock = ManualClock()
        leaders = leaders_of(store, clock)
        async with leaders.leadership("one") as one, leaders.leadership("two") as two:
            assert (one.name, two.name, one.epoch, two.epoch) == ("one", "two", 1, 1)
            waiting = Candidate(leaders)
            assert (await elect(waiting, clock)).name == "webhooks"
            again = Candidate(leaders)
            await let_wait(clock)
            assert again.held is None
            again.task.cancel()
            await asyncio.gather(again.task, return_exceptions=True)
            await waiting.give_up()


async def test_waiting_can_be_cancelled(place: Place) -> None:
    async with place.opened() as store:
        clock = ManualClock()
        async with leaders_of(store, clock).leadership("webhooks"):
            waiting = Candidate(leaders_of(place.open(), clock))
            await let_wait(clock)
            waiting.task.cancel()
            await asyncio.gather(waiting.task, return_exceptions=True)
            assert waiting.held is None


async def write_as(store: Store, leader: Leadership) -> None:
    if isinstance(store, MemoryStore):  # it has no webhooks
        require_leader(store.storage, leader)
    else:
        await store.enqueue_deliveries("hook", 7, [WebhookDelivery(hook="hook", key="k", body=b"")], leader)


async def test_what_a_former_leader_writes_is_refused(place: Place) -> None:
    async with place.opened() as store:
        clock, dying = ManualClock(), place.open()
        former = await elect(Candidate(leaders_of(dying, clock)), clock)
        await write_as(store, former)
        await dying.close()
        second = Candidate(leaders_of(store, clock))
        held = await elect(second, clock)
        with pytest.raises(NotLeader, match="webhooks"):
            await write_as(store, former)
        await write_as(store, held)
        if isinstance(store, SqliteStore):
            assert await store.position_of_hook("hook") == 7
        await second.give_up()


async def test_a_candidate_that_is_cancelled_while_it_asks_leaves_the_name_to_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives on, and no other would lead for as long."""
    async with place.opened() as store, asyncio.timeout(20):
        clock = ManualClock()
        leaders = leaders_of(store, clock)
        if isinstance(store, SqliteStore):
            monkeypatch.setattr(store._writer, "_is_alone", lambda _loop: False)  # as when several tasks write
        with monkeypatch.context() as cancelling:
            for name in ("write", "write_statement"):
                cancelling.setattr(store, name, cancelled_as_it_leads(getattr(store, name, None)), raising=False)
            asking = Candidate(leaders)
            while not asking.task.done():
                await asyncio.sleep(0)
            await asking.give_up()
        second = Candidate(leaders)
        assert (await elect(second, clock)).is_held()
        await second.give_up()


def cancelled_as_it_leads(write: Any) -> Any:
    """Cancels the task that asks to lead when its question is on the way to the store."""

    async def ask(doing: str, *more: Any) -> Any:
        if doing.startswith("lead "):
            asking = [task for task in asyncio.all_tasks() if "_wait" in repr(task.get_coro())]
            assert [task.cancel() for task in asking] == [True]
        return await write(doing, *more)

    return ask


async def test_a_leader_whose_end_the_store_did_not_take_can_lead_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives on, so no other one takes the name from it."""
    async with place.opened() as store, asyncio.timeout(20):
        clock = ManualClock()
        leaders = leaders_of(store, clock)
        first = Candidate(leaders)
        await elect(first, clock)
        with monkeypatch.context() as away:
            for name in ("write", "write_statement"):
                away.setattr(store, name, refuse, raising=False)
            await first.give_up()
        second = Candidate(leaders)
        assert (await elect(second, clock)).epoch == 2
        assert first.held is not None
        assert not first.held.is_held()
        await second.give_up()


async def refuse(*_args: object) -> None:
    raise StorageFull("the store takes nothing now")
