"""The doctor names what is damaged or does not agree on the bus."""

import pytest

from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import PROCESS
from interlock.broadcast.subscriptions import AgentSubscription
from tests.adapters.postgres.bus.test_announcements import change, place
from tests.adapters.sqlite.bus.test_announcements import NOW, History


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("update broadcasts set crc = crc + 1 where id = 'b1'", "the broadcast at position 1 is damaged"),
        ("update delayed set body = ''", "the delayed signal 'd1' is damaged"),
        ("update inbox set broadcast = 77", "1 rows of 'inbox' are about a broadcast that is not there"),
        ("update active_counts set runs = 3", "in which agent 'a' of crew 'ci' is at work is wrong"),
        ("delete from active_counts", "in which agent 'a' of crew 'ci' is at work is wrong"),
        ("update mailboxes set unread = 0", "the count of unread mail of agent 'h' of crew 'ci' is wrong"),
        ("insert into dead (id, crew, agent, body) values ('x', '', '', '')", "the dead letter 'x' is damaged"),
    ],
)
async def test_a_problem_is_named(damage: str, found: str) -> None:
    async with place() as made:
        store = made.stores[0]
        bus = PostgresBus(store)
        await bus.subscribe(AgentSubscription(crew="ci", agent="h", pattern="x:*"))
        await bus.emit(History(0, []).emission())
        entry = DelayedBroadcast(
            id="d1", type="x", source=PROCESS, deliver_at=NOW, created_at=NOW, updated_at=NOW, data=1
        )
        await bus.schedule(entry)
        await made.start(0, "r", NOW, "a")
        assert await store.problems() == []
        await change(store, damage)
        assert any(found in each for each in await store.problems())
