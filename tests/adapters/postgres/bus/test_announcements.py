"""Wake and sleep that are derived from records are what would have been stored, by two processes on one server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.store import PostgresStore
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.engine.events import ModelReplied, RunFinished, Usage
from interlock.ports import AtomicWrites
from tests.adapters.sqlite.bus.test_announcements import NOW, TOLD, Folder, History, handed_over, types
from tests.postgres import shared_schemas


@asynccontextmanager
async def place(*, is_heard: bool = False) -> AsyncIterator[Folder]:
    with shared_schemas().borrow() as url:
        stores = PostgresStore(url), PostgresStore(url)
        try:
            if is_heard:
                await PostgresBus(stores[0]).subscribe(AgentSubscription(crew="watch", agent="z", pattern="agent:*:*"))
            yield Folder(stores, PostgresBus)
        finally:
            for store in stores:
                await store.close()


async def columns(store: PostgresStore, query: str) -> list[Any]:
    return await store.read("look", lambda connection: connection.execute(query.encode()).fetchall())


async def change(store: PostgresStore, statement: str) -> None:
    def work(connection: PostgresConnection) -> None:
        connection.execute(statement.encode())

    await store.write("damage", work)


@pytest.mark.parametrize("seed", range(3))
async def test_derived_and_stored_broadcasts_are_the_same_on_random_histories(seed: int) -> None:
    async with place() as quiet, place(is_heard=True) as heard:
        history = History(seed, [quiet, heard])
        for _ in range(40):
            await history.step()
        found = await quiet.contents()
        assert [each.type for _, each in found] == history.told
        assert found == await heard.contents()


async def test_a_plain_handoff_stores_nothing_but_its_record() -> None:
    async with place() as made:
        await handed_over(made)
        assert await types(made) == TOLD
        assert await columns(made.stores[0], "select presence from records") == [(1,), (1,), (1,)]
        for table in ("broadcasts", "lifecycle", "active", "active_counts where runs <> 0"):
            assert await columns(made.stores[0], f"select 1 from {table}") == []


async def test_derived_broadcasts_are_pruned_and_the_newest_stays() -> None:
    async with place() as made:
        await handed_over(made)
        bus = PostgresBus(made.stores[1])
        assert (await bus.prune(NOW + 2)).gone == 3
        assert await types(made) == ["agent:b:sleep"]
        assert (await bus.prune(NOW + 10**6)).gone == 0
        await handed_over(made, "s")
        assert (await bus.prune(NOW + 10**6)).gone == 4
        assert await types(made) == ["agent:b:sleep"]


async def test_derived_broadcasts_of_a_deleted_run_stay_and_it_is_at_work_no_more() -> None:
    async with place() as made:
        await handed_over(made)
        await made.start(0, "s", NOW, "a")
        before = await made.contents()
        for run in ("r", "s"):
            await made.stores[0].release(run)
            await made.stores[1].delete_run(run, NOW)
        assert await made.contents() == before
        assert await columns(made.stores[0], "select 1 from active") == []
        await made.start(1, "t", NOW, "a")
        assert (await types(made))[-1] == "agent:a:wake"


async def test_an_agent_that_works_elsewhere_neither_wakes_nor_sleeps() -> None:
    async with place() as made:
        await made.start(0, "r", NOW, "a")
        await made.start(1, "s", NOW, "a")
        end = RunFinished(status="completed", reason="x", agent="a", output="", text="", usage=Usage())
        reply = ModelReplied(call="1.0", agent="a", text="done", usage=Usage())
        await made.append(0, "r", NOW, (reply, end), AtomicWrites(ended=(("a", 0),)))
        assert await types(made) == ["agent:a:wake"]
        assert await columns(made.stores[0], "select presence from records order by position") == [
            (1,),
            (None,),
            (None,),
        ]


async def test_derived_broadcasts_that_come_back_from_a_file_are_not_stored() -> None:
    async with place() as made:
        await handed_over(made)
        known = [each for _, each in await made.contents()]
        assert await PostgresBus(made.stores[1]).restore(known) == 0


@pytest.mark.parametrize("damage", ["presence = '7'", "presence = '[1]'", "presence = '[1, [], [], [5]]'", "body = ''"])
async def test_a_damaged_presence_hides_no_other_and_is_reported(damage: str) -> None:
    async with place() as made:
        await handed_over(made)
        await change(made.stores[0], f"update records set {damage} where position = 2")
        assert await types(made) == TOLD[:1] + TOLD[3:]
        assert any("the broadcast at position" in each for each in await made.stores[0].problems())


async def test_damaged_rows_hide_no_other_and_are_reported() -> None:
    async with place() as made:
        bus, store = PostgresBus(made.stores[0]), made.stores[0]
        history = History(0, [])
        for _ in range(3):
            await bus.emit(history.emission())
        await change(store, "update broadcasts set body = convert_to('{}', 'UTF8') where id = 'b2'")
        assert [each.id for each in await bus.newest(10)] == ["b1", "b3"]
        assert any("the broadcast at position 2 is damaged" in each for each in await store.problems())
