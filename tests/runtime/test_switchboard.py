"""Who has mail is remembered, and read again whenever it may have changed."""

import asyncio
from collections.abc import Sequence

from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.subscriptions import Subscribed
from interlock.runtime.switchboard import Switchboard
from interlock.testing import ManualClock
from interlock.testing.memory_bus import MemoryBus, MemoryTables


class SlowBus(MemoryBus):
    """Counts who asks for the mail, and answers when it is let to."""

    def __init__(self) -> None:
        super().__init__(MemoryTables(), lambda: None)
        self.looks, self.goes_on = 0, asyncio.Event()
        self.goes_on.set()

    async def mail(self) -> Sequence[tuple[str, str]]:
        self.looks += 1
        found = await super().mail()
        await self.goes_on.wait()
        return found


def a_broadcast(name: str) -> Emission:
    return Emission(broadcast=Broadcast(id=name, type="build:x", source=PROCESS, created_at=1))


def test_mail_is_read_before_the_first_record_and_again_when_another_process_has_committed() -> None:
    async def story() -> None:
        bus = SlowBus()
        await bus.subscribe(Subscribed(crew="crew", agent="a", pattern="build:*"))
        board = Switchboard(bus, ManualClock())
        assert not board.is_mail_current()
        await board.look_for_mail()
        assert board.is_mail_current() and board.mail_for("crew") == ()
        await MemoryBus(bus.tables, lambda: None).emit(a_broadcast("elsewhere"))
        assert not board.is_mail_current()
        await board.look_for_mail()
        assert board.is_mail_current() and board.mail_for("crew") == ("a",)

    asyncio.run(story())


def test_what_changes_while_the_store_is_asked_is_asked_for_again() -> None:
    async def story() -> None:
        bus = SlowBus()
        board = Switchboard(bus, ManualClock())
        bus.goes_on.clear()
        looking = asyncio.create_task(board.look_for_mail())
        await asyncio.sleep(0)
        board.forget_mail()
        bus.goes_on.set()
        await looking
        assert not board.is_mail_current()
        await board.look_for_mail()
        assert board.is_mail_current() and bus.looks == 2

    asyncio.run(story())


def test_those_who_ask_during_a_look_share_the_next_one() -> None:
    async def story() -> None:
        bus = SlowBus()
        board = Switchboard(bus, ManualClock())
        bus.goes_on.clear()
        first = asyncio.create_task(board.look_for_mail())
        await asyncio.sleep(0)
        others = [asyncio.create_task(board.look_for_mail()) for _ in range(10)]
        await asyncio.sleep(0)
        bus.goes_on.set()
        await asyncio.gather(first, *others)
        assert bus.looks == 2

    asyncio.run(story())
