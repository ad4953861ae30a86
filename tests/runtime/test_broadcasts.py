"""Unread inboxes are cached, and read again whenever they may have changed."""

import asyncio
from collections.abc import Sequence

from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.runtime.broadcasts import BroadcastHub
from interlock.testing import ManualClock
from interlock.testing.memory_bus import MemoryBus, MemoryTables


class SlowBus(MemoryBus):
    """Counts who asks for the mail, and answers when it is let to."""

    def __init__(self) -> None:
        super().__init__(MemoryTables(), lambda: None)
        self.looks, self.goes_on = 0, asyncio.Event()
        self.goes_on.set()

    async def agents_with_unread(self) -> Sequence[tuple[str, str]]:
        self.looks += 1
        found = await super().agents_with_unread()
        await self.goes_on.wait()
        return found


def a_broadcast(name: str) -> Emission:
    return Emission(broadcast=Broadcast(id=name, type="build:x", source=PROCESS, created_at=1))


async def test_mail_is_read_before_the_first_record_and_again_when_another_process_has_committed() -> None:
    bus = SlowBus()
    await bus.subscribe(AgentSubscription(crew="crew", agent="a", pattern="build:*"))
    board = BroadcastHub(bus, ManualClock())
    assert not board.has_current_inboxes()
    await board.refresh_inboxes()
    assert board.has_current_inboxes() and board.agents_with_unread("crew") == ()
    await MemoryBus(bus.tables, lambda: None).emit(a_broadcast("elsewhere"))
    assert not board.has_current_inboxes()
    await board.refresh_inboxes()
    assert board.has_current_inboxes() and board.agents_with_unread("crew") == ("a",)


async def test_what_changes_while_the_store_is_asked_is_asked_for_again() -> None:
    bus = SlowBus()
    board = BroadcastHub(bus, ManualClock())
    bus.goes_on.clear()
    looking = asyncio.create_task(board.refresh_inboxes())
    await asyncio.sleep(0)
    board.invalidate_inboxes()
    bus.goes_on.set()
    await looking
    assert not board.has_current_inboxes()
    await board.refresh_inboxes()
    assert board.has_current_inboxes() and bus.looks == 2


async def test_those_who_ask_during_a_look_share_the_next_one() -> None:
    bus = SlowBus()
    board = BroadcastHub(bus, ManualClock())
    bus.goes_on.clear()
    first = asyncio.create_task(board.refresh_inboxes())
    await asyncio.sleep(0)
    others = [asyncio.create_task(board.refresh_inboxes()) for _ in range(10)]
    await asyncio.sleep(0)
    bus.goes_on.set()
    await asyncio.gather(first, *others)
    assert bus.looks == 2


async def test_a_thousand_that_wait_for_a_look_continue_together() -> None:
    """With a lock one of them continued in each tick of the loop, and the last waited for a thousand ticks."""
    bus = SlowBus()
    board = BroadcastHub(bus, ManualClock())
    bus.goes_on.clear()
    asking = [asyncio.create_task(board.refresh_inboxes()) for _ in range(1_000)]
    await asyncio.sleep(0)
    bus.goes_on.set()
    ticks = 0
    while not all(task.done() for task in asking):
        await asyncio.sleep(0)
        ticks += 1
    assert ticks <= 10
    assert bus.looks == 2  # the others asked after the first look began


async def test_a_look_that_is_given_up_stops_nobody_else() -> None:
    bus = SlowBus()
    board = BroadcastHub(bus, ManualClock())
    bus.goes_on.clear()
    first = asyncio.create_task(board.refresh_inboxes())
    await asyncio.sleep(0)
    second = asyncio.create_task(board.refresh_inboxes())
    await asyncio.sleep(0)
    first.cancel()
    bus.goes_on.set()
    await second
    assert first.cancelled() and board.has_current_inboxes()
