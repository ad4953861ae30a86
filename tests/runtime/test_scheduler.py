"""Delayed broadcasts and deliveries, on a manual clock: nothing early, nothing twice, nothing lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.schedules import Schedule
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.errors import StoreFailed, UsageError
from interlock.limits import DELIVERY_PAUSES_MS, DISPATCH_BATCH, DISPATCH_PAUSE_MS, WALL_LOOK_MS
from interlock.ports import BroadcastOutcome, Delivery
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.scheduler import AWAY_MS, DELIVERIES_MAX, BroadcastScheduler
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_bus import MemoryBus

DAY_MS = 24 * 3600 * 1000


class Desk:
    """A dispatcher at work, and what came of it."""

    def __init__(self, clock: ManualClock | None = None, store: MemoryStore | None = None) -> None:
        self.clock = clock or ManualClock()
        self.store = MemoryStore(beside=store) if store is not None else MemoryStore()
        self.bus = self.store.bus
        self.board = BroadcastHub(self.bus, self.clock)
        self.delivered: list[Delivery] = []
        self.deliver: Callable[[Delivery], Awaitable[bool]] = self._deliver
        self.number = 0

    async def _deliver(self, delivery: Delivery) -> bool:
        self.delivered.append(delivery)
        self.bus.tables.drop_delivery(delivery.number)
        return True

    async def schedule(self, kind: str, in_ms: int, **more: Any) -> DelayedBroadcast:
        self.number += 1
        now = self.clock.now_ms()
        entry = DelayedBroadcast(
            id=f"id{self.number:04}", type=kind, source=PROCESS, deliver_at=now + in_ms, created_at=now, updated_at=now,
            **more,
        )  # fmt: skip
        await self.bus.schedule(entry)
        self.board.on_queue_changed()
        return entry

    async def emit(self, kind: str) -> None:
        self.number += 1
        broadcast = Broadcast(id=f"id{self.number:04}", type=kind, source=PROCESS, created_at=self.clock.now_ms())
        self.board.on_broadcasts(await self.bus.emit(Emission(broadcast=broadcast)))

    async def hears(self, agent: str, pattern: str = "*") -> None:
        await self.bus.subscribe(AgentSubscription(crew="ci", agent=agent, pattern=pattern, silent=False))

    async def settle(self) -> None:
        """Nothing here waits for anything but the clock."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def advance(self, ms: int) -> None:
        end = self.clock.monotonic_ms() + ms
        await self.settle()
        while (wake := self.clock.next_wake_ms()) is not None and wake <= end:
            self.clock.advance(max(0, wake - self.clock.monotonic_ms()))
            await self.settle()
        self.clock.advance(end - self.clock.monotonic_ms())
        await self.settle()

    @property
    def kinds(self) -> list[str]:
        from interlock.broadcast.record import decode_broadcast

        return [decode_broadcast(body).type for body, _ in self.bus.tables.broadcasts.values()]


@asynccontextmanager
async def dispatching(desk: Desk | None = None) -> AsyncIterator[Desk]:
    here = desk or Desk()
    here.board = BroadcastHub(here.bus, here.clock)
    task = asyncio.create_task(
        BroadcastScheduler(here.board, here.clock, lambda each: here.deliver(each), lambda: True).run()
    )
    try:
        await here.settle()
        yield here
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_signal_goes_out_when_it_is_due_and_not_before() -> None:
    async with dispatching() as desk:
        entry = await desk.schedule("remind", 90_000, data={"n": 1})
        await desk.advance(89_999)
        assert desk.kinds == []
        await desk.advance(1)
        (announced,) = await desk.bus.newest(5)
        assert (announced.id, announced.data) == (entry.id, {"n": 1})
        assert await desk.bus.list_delayed() == []


async def test_nobody_sleeps_while_nothing_is_queued() -> None:
    async with dispatching() as desk:
        assert desk.clock.next_wake_ms() is None
        await desk.schedule("x", 5_000)
        await desk.settle()
        assert desk.clock.next_wake_ms() == 5_000
        await desk.advance(5_000)
        assert desk.clock.next_wake_ms() is None


async def test_a_wall_clock_that_is_set_forward_is_noticed_within_thirty_seconds() -> None:
    async with dispatching() as desk:
        await desk.schedule("tomorrow", DAY_MS)
        await desk.schedule("soon", 7_200_000)
        await desk.advance(1_000)
        desk.clock.jump(7_200_000)
        await desk.advance(WALL_LOOK_MS)
        assert desk.kinds == ["soon"]


async def test_a_wall_clock_that_is_set_back_brings_nothing_twice_and_nothing_early() -> None:
    async with dispatching() as desk:
        await desk.schedule("first", 1_000)
        await desk.schedule("second", 60_000)
        await desk.advance(2_000)
        desk.clock.jump(-7_200_000)
        await desk.advance(120_000)
        assert desk.kinds == ["first"]
        await desk.advance(7_200_000)
        assert desk.kinds == ["first", "second"]


@pytest.mark.parametrize("schedule", [Schedule(at="09:00", zone="Europe/Berlin"), Schedule(every_ms=DAY_MS)], ids=repr)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_clock_that_was_years_ahead_for_a_while_silences_no_schedule(
    schedule: Schedule, is_restarted: bool
) -> None:
    desk = Desk()

    async def ahead(desk: Desk) -> None:
        await desk.schedule("tick", DAY_MS, schedule=schedule)
        await desk.schedule("at a time", 30 * DAY_MS, schedule=schedule)
        await desk.advance(1_000)
        desk.clock.jump(5 * 365 * DAY_MS)
        await desk.advance(WALL_LOOK_MS)
        assert sorted(desk.kinds) == ["at a time", "tick"]
        desk.clock.jump(-5 * 365 * DAY_MS)
        if not is_restarted:
            await set_right(desk)

    async def set_right(desk: Desk) -> None:
        await desk.advance(WALL_LOOK_MS)
        for _ in range(4):
            desk.clock.jump(DAY_MS)
            await desk.advance(WALL_LOOK_MS)
        assert desk.kinds.count("tick") in (4, 5), "once while it was ahead, and then every day"
        assert len({each.id for each in await desk.bus.newest(100)}) == len(desk.kinds)

    async with dispatching(desk) as desk:
        await ahead(desk)
    if is_restarted:
        async with dispatching(Desk(desk.clock, desk.store)) as desk:
            await set_right(desk)


async def test_a_first_time_that_somebody_chose_stays_when_the_clock_is_set_back() -> None:
    async with dispatching() as desk:
        entry = await desk.schedule("tick", 30 * DAY_MS, schedule=Schedule(every_ms=DAY_MS))
        desk.clock.jump(-7_200_000)
        await desk.advance(WALL_LOOK_MS)
        assert await desk.bus.list_delayed() == [entry]


async def test_what_was_put_off_by_a_clock_that_was_ahead_is_tried_when_it_is_set_right() -> None:
    async with dispatching() as desk:
        deliver, tried = desk.deliver, []

        async def failing_once(delivery: Delivery) -> bool:
            tried.append(delivery.number)
            if len(tried) == 1:
                raise UsageError("not now")
            return await deliver(delivery)

        desk.deliver = failing_once
        await desk.hears("a")
        await desk.emit("x")
        await desk.settle()
        desk.clock.jump(-DAY_MS)
        await desk.advance(WALL_LOOK_MS)
        assert len(tried) == 2 and len(desk.delivered) == 1


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_the_wall_clock_does_everything_comes_once_and_in_order(seed: int) -> None:
    import random

    chance = random.Random(seed)

    async with dispatching() as desk:
        for n in range(30):
            await desk.schedule(f"t:{n}", chance.randrange(1, 4 * 3_600_000))
        for _ in range(40):
            desk.clock.jump(chance.randrange(-7_200_000, 7_200_000))
            await desk.advance(chance.randrange(1, 600_000))
        desk.clock.jump(DAY_MS)
        await desk.advance(WALL_LOOK_MS)
        assert sorted(desk.kinds) == sorted(f"t:{n}" for n in range(30))


async def test_a_restart_delivers_in_order_what_fell_due_meanwhile_and_coalesces_what_repeats() -> None:
    desk = Desk()
    number = DISPATCH_BATCH * 2 + 7

    async with dispatching(desk):
        for n in range(number):
            await desk.schedule(f"t:{n:04}", DAY_MS + n)
        await desk.schedule("tick", 60_000, schedule=Schedule(every_ms=60_000))
        for n in range(5):
            await desk.schedule("replaced", 2 * DAY_MS, repeat_key="k", data=n)
    desk.clock.jump(3 * DAY_MS)
    async with dispatching(Desk(desk.clock, desk.store)) as later:
        assert len(later.kinds) == DISPATCH_BATCH, "at a bounded rate"
        await later.advance(DISPATCH_PAUSE_MS)
        assert len(later.kinds) == 2 * DISPATCH_BATCH
        await later.advance(5 * DISPATCH_PAUSE_MS)
        assert later.kinds == ["tick", *(f"t:{n:04}" for n in range(number)), "replaced"]
        assert [each.type for each in await later.bus.list_delayed()] == ["tick"]


async def test_what_another_process_schedules_and_announces_is_seen_to_at_once() -> None:
    async with dispatching() as desk:
        other = MemoryStore(beside=desk.store).bus
        await desk.hears("a")
        now = desk.clock.now_ms()
        entry = DelayedBroadcast(id="theirs", type="x", source=PROCESS, deliver_at=now, created_at=now, updated_at=now)
        await other.schedule(entry)
        await desk.settle()
        assert desk.kinds == ["x"] and [each.agent for each in desk.delivered] == ["a"]


async def test_a_signal_that_is_replaced_while_it_is_being_dispatched_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted between reading what is due and dispatching it."""
    desk, dispatch = Desk(), MemoryBus.dispatch

    async def raced(self: MemoryBus, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        if desk.number == 1:
            await desk.schedule("x", 5_000, repeat_key="k", data="new")
        return await dispatch(self, entries, now)

    monkeypatch.setattr(MemoryBus, "dispatch", raced)
    async with dispatching(desk):
        await desk.schedule("x", 1_000, repeat_key="k", data="old")
        await desk.advance(1_000)
        assert desk.kinds == []
        await desk.advance(5_000)
        (announced,) = await desk.bus.newest(5)
        assert announced.data == "new"


async def test_one_poisoned_signal_is_put_off_until_it_is_dead_and_those_behind_it_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dispatch, tried = MemoryBus.dispatch, []

    async def poisoned(self: MemoryBus, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        if any(entry.type == "poison" for entry in entries):
            tried.append(len(entries))
            raise StoreFailed("could not dispatch: poison")
        return await dispatch(self, entries, now)

    monkeypatch.setattr(MemoryBus, "dispatch", poisoned)
    async with dispatching() as desk:
        await desk.schedule("poison", 1_000)
        await desk.schedule("fine", 1_000)
        await desk.advance(1_000)
        assert desk.kinds == ["fine"]
        await desk.advance(sum(DELIVERY_PAUSES_MS) + WALL_LOOK_MS)
        (dead,) = await desk.bus.dead_letters(5)
        assert (dead.broadcast.type, dead.attempts) == ("poison", len(DELIVERY_PAUSES_MS) + 1)
        assert await desk.bus.list_delayed() == []
        assert len(tried) == len(DELIVERY_PAUSES_MS) + 2, "once with the others, then alone"


async def test_while_the_store_is_away_it_is_asked_again_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    due, away = MemoryBus.due_broadcasts, [True]

    async def gone(self: MemoryBus, now: int, limit: int) -> Sequence[DelayedBroadcast]:
        if away:
            raise StoreFailed("the store is away")
        return await due(self, now, limit)

    monkeypatch.setattr(MemoryBus, "due_broadcasts", gone)
    async with dispatching() as desk:
        await desk.schedule("x", 10)
        await desk.advance(5 * AWAY_MS)
        assert desk.kinds == []
        away.clear()
        await desk.advance(AWAY_MS)
        assert desk.kinds == ["x"]


# Deliveries


async def test_a_subscriber_that_hangs_delays_no_other() -> None:
    async with dispatching() as desk:
        deliver = desk.deliver

        async def slow(delivery: Delivery) -> bool:
            if delivery.agent == "slow":
                await desk.clock.sleep_until(desk.clock.monotonic_ms() + 600_000)
            return await deliver(delivery)

        desk.deliver = slow
        await desk.hears("slow")
        for n in range(DELIVERIES_MAX - 1):
            await desk.hears(f"fast{n}")
        for n in range(5):
            await desk.emit(f"x{n}")
            await desk.settle()
        assert sum(each.agent != "slow" for each in desk.delivered) == 5 * (DELIVERIES_MAX - 1)
        await desk.advance(5 * 600_000)
        slow_ones = [each.heard.broadcast.type for each in desk.delivered if each.agent == "slow"]
        assert slow_ones == [f"x{n}" for n in range(5)], "in order"


async def test_a_delivery_that_fails_is_put_off_until_it_is_dead_and_others_go_on() -> None:
    async with dispatching() as desk:
        deliver, tried = desk.deliver, []

        async def failing(delivery: Delivery) -> bool:
            if delivery.agent == "bad":
                tried.append(desk.clock.monotonic_ms())
                raise UsageError("no model") if len(tried) % 2 else RuntimeError("bug")
            return await deliver(delivery)

        desk.deliver = failing
        await desk.hears("bad")
        await desk.hears("good")
        await desk.emit("x")
        await desk.advance(sum(DELIVERY_PAUSES_MS) + WALL_LOOK_MS)
        (dead,) = await desk.bus.dead_letters(5)
        assert (dead.for_agent, dead.attempts, len(tried)) == ("bad", 5, 5)
        assert [each.agent for each in desk.delivered] == ["good"]
        assert await desk.bus.retry_dead_letters(dead.id) == 1


async def test_what_no_run_here_can_take_is_left_and_tried_when_a_run_comes_or_goes() -> None:
    async with dispatching() as desk:
        deliver = desk.deliver
        ready: list[bool] = []

        async def sometimes(delivery: Delivery) -> bool:
            return await deliver(delivery) if ready else False

        desk.deliver = sometimes
        await desk.hears("a")
        await desk.emit("x")
        await desk.advance(600_000)
        assert desk.delivered == [] and desk.clock.next_wake_ms() is None, "nothing polls"
        ready.append(True)
        desk.board.on_runs_changed()
        await desk.settle()
        assert [each.agent for each in desk.delivered] == ["a"]


async def test_a_run_that_goes_while_it_is_looked_for_is_not_waited_for() -> None:
    async with dispatching() as desk:
        deliver = desk.deliver
        ready: list[bool] = []

        async def in_vain(delivery: Delivery) -> bool:
            if not ready:
                desk.board.on_runs_changed()
                ready.append(True)
                return False
            return await deliver(delivery)

        desk.deliver = in_vain
        await desk.hears("a")
        await desk.emit("x")
        await desk.settle()
        assert [each.agent for each in desk.delivered] == ["a"]


async def test_what_was_put_off_once_and_is_for_another_process_is_not_asked_for_again_and_again() -> None:
    async with dispatching() as desk:
        tried: list[int] = []

        async def failing_then_elsewhere(delivery: Delivery) -> bool:
            tried.append(delivery.number)
            if len(tried) == 1:
                raise UsageError("not now")
            return False

        desk.deliver = failing_then_elsewhere
        await desk.hears("a")
        await desk.emit("x")
        await desk.advance(10 * WALL_LOOK_MS)
        assert len(tried) == 2
        assert desk.clock.next_wake_ms() is None


async def test_many_that_no_run_here_can_take_hide_nobody() -> None:
    async with dispatching() as desk:
        deliver = desk.deliver

        async def only_the_last(delivery: Delivery) -> bool:
            return await deliver(delivery) if delivery.agent == "z" else False

        desk.deliver = only_the_last
        for n in range(DELIVERIES_MAX + 1):
            await desk.hears(f"a{n}")
        await desk.hears("z")
        await desk.emit("x")
        await desk.settle()
        assert [each.agent for each in desk.delivered] == ["z"]


async def test_what_was_delivered_while_it_was_looked_for_is_not_delivered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted between reading who is to act and acting: another process was quicker."""
    awaiting = MemoryBus.agents_with_deliveries

    async def raced(self: MemoryBus, now: int) -> Sequence[tuple[str, str]]:
        found = await awaiting(self, now)
        for number in list(self.tables.deliveries):
            self.tables.drop_delivery(number)
        return found

    monkeypatch.setattr(MemoryBus, "agents_with_deliveries", raced)
    async with dispatching() as desk:
        await desk.hears("a")
        await desk.emit("x")
        await desk.settle()
        assert desk.delivered == []


async def test_a_schedule_whose_zone_is_gone_keeps_no_other_signal_back() -> None:
    async with dispatching() as desk:
        await desk.schedule("lost", 1_000, schedule=Schedule(at="09:00", zone="Nowhere/Gone"))
        await desk.schedule("fine", 1_000)
        await desk.advance(1_000)
        assert desk.kinds == ["fine"]
        await desk.advance(sum(DELIVERY_PAUSES_MS) + WALL_LOOK_MS)
        (dead,) = await desk.bus.dead_letters(5)
        assert dead.broadcast.type == "lost" and "Nowhere/Gone" in dead.reason
        await desk.schedule("later", 1_000)
        await desk.advance(1_000)
        assert desk.kinds == ["fine", "later"]


async def test_a_mistake_of_ours_does_not_end_all_hearing(monkeypatch: pytest.MonkeyPatch) -> None:
    due, broken = MemoryBus.due_broadcasts, [True]

    async def mistaken(self: MemoryBus, now: int, limit: int) -> Sequence[DelayedBroadcast]:
        if broken:
            raise ZeroDivisionError
        return await due(self, now, limit)

    monkeypatch.setattr(MemoryBus, "due_broadcasts", mistaken)
    async with dispatching() as desk:
        await desk.schedule("x", 10)
        await desk.advance(AWAY_MS)
        broken.clear()
        await desk.advance(AWAY_MS)
        assert desk.kinds == ["x"]
