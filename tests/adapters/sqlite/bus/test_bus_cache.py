"""The cache of the bus is never older than the database, also when other processes write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.store_rules.bus_rules import record_presence
from interlock.adapters.store_rules.bus_tables import BusTables
from interlock.broadcast.naming import series_name
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.errors import UsageError
from interlock.ports import Activity
from tests.adapters.stores import opened

NOW = 1_800_000_000_000


@asynccontextmanager
async def two_stores(folder: Path) -> AsyncIterator[tuple[SqliteBus, SqliteBus]]:
    """Two stores in one folder, as two processes have them."""
    async with opened(folder) as one, opened(folder) as other:
        yield SqliteBus(one), SqliteBus(other)


def activity(run: str, place: int, *, ended: str = "", begun: str = "") -> Activity:
    return Activity(
        name=series_name(run),
        place=place,
        crew="ci",
        run=run,
        at=NOW,
        ended=tuple((agent, 0) for agent in ended),
        begun=tuple((agent, 0) for agent in begun),
    )


def emission(name: str) -> Emission:
    return Emission(broadcast=Broadcast(id=name, type="x", source=PROCESS, created_at=NOW))


async def types(bus: SqliteBus) -> list[str]:
    return [each.type for each in await bus.newest(100)]


async def test_an_agent_at_work_in_another_process_neither_wakes_nor_sleeps(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (one, other):
        await one.record_presence(activity("r1", 1, begun="a"))
        await other.record_presence(activity("r2", 1, begun="a"))
        await one.record_presence(activity("r1", 2, ended="a", begun="b"))
        await one.record_presence(activity("r1", 3, ended="b", begun="a"))
        await other.record_presence(activity("r2", 2, ended="a"))
        await one.record_presence(activity("r1", 4, ended="a"))
        assert await types(one) == ["agent:a:wake", "agent:b:wake", "agent:b:sleep", "agent:a:sleep"]


async def test_positions_of_two_processes_are_those_of_one_series(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (one, other):
        for n in range(3):
            await one.record_presence(activity(f"one{n}", 1, begun=f"{n}"))
            await other.emit(emission(f"other{n}"))
            await other.record_presence(activity(f"two{n}", 1, begun="xyz"[n]))
            await one.emit(emission(f"one{n}"))
        found = await one.since(0, 100)
        assert [position for position, _ in found] == list(range(1, 13))
        assert found == await other.since(0, 100)


async def test_who_subscribes_in_another_process_hears_of_the_next_waking(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (one, other):
        assert (await one.record_presence(activity("r", 1, begun="a"))).reached == ()
        await other.subscribe(AgentSubscription(crew="ci", agent="z", pattern="agent:*:*"))
        assert (await one.record_presence(activity("r", 2, ended="a"))).reached == (Subscriber("ci", "z", True),)
        await other.unsubscribe("ci", "z", "agent:*:*")
        assert (await one.record_presence(activity("r", 3, begun="a"))).reached == ()


async def test_what_a_failed_transaction_would_have_changed_is_not_remembered(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (one, _):
        await one.record_presence(activity("r", 1, begun="a"))

        def sleeps_then_fails(tables: BusTables, done: Activity) -> None:
            record_presence(tables, done)
            raise UsageError("after all not")

        with pytest.raises(UsageError):
            await one._apply_rule("fail", sleeps_then_fails, activity("r", 2, ended="a", begun="b"))
        await one.record_presence(activity("r", 2, ended="a", begun="b"))
        assert [position for position, _ in await one.since(0, 10)] == [1, 2, 3]
        assert await types(one) == ["agent:a:wake", "agent:a:sleep", "agent:b:wake"]


async def test_an_agent_at_work_in_many_runs_sleeps_after_the_last_of_them(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (one, other):
        for n in range(5):
            await (one, other)[n % 2].record_presence(activity(f"r{n}", 1, begun="a"))
        for n in range(5):
            assert await types(other) == ["agent:a:wake"]
            await one.record_presence(activity(f"r{n}", 2, ended="a"))
        assert await types(other) == ["agent:a:wake", "agent:a:sleep"]
