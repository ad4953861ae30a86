"""Wake and sleep that are derived from records are what would have been stored."""

import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.bus.bus_schema import PRESENCE_IN_RECORDS
from interlock.adapters.sqlite.bus.change_counts import repair_change_counts
from interlock.adapters.sqlite.runs import tail
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables.leaders import SqliteLeaders
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.broadcast.record import PROCESS, Broadcast, Emission, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.engine.events import Event, HandedOver, ModelReplied, RunFinished, RunStarted, TurnStarted, Usage
from interlock.ports import Activity, AtomicWrites, Bus, Record, RunRow
from interlock.ports.server import BROADCAST_POSITION
from interlock.testing import ManualClock

NOW = 1_800_000_000_000
AGENTS = "abcd"


class Folder:
    """One data folder that two processes use in turns; with `heard` every wake and sleep has a subscriber.

    Tests of other stores pass these, and what makes a bus of one.
    """

    def __init__(self, stores: tuple[Any, Any], make_bus: Callable[[Any], Bus] = SqliteBus) -> None:
        self.stores, self.make_bus = stores, make_bus
        self.rows: dict[str, RunRow] = {}
        self.seqs: dict[str, int] = {}

    async def start(self, of: int, run: str, at: int, agent: str) -> None:
        row = RunRow(run=run, crew="ci", crew_sha="", status="running", created_at=at)
        events = (RunStarted(crew="ci", input="go", rules=1, crew_sha=""), TurnStarted(agent=agent, turn=1))
        await self.stores[of].create(row, Record(seq=1, at=at, events=events), AtomicWrites(begun=((agent, 0),)))
        self.rows[run], self.seqs[run] = row, 2

    async def append(self, of: int, run: str, at: int, events: tuple[Event, ...], also: AtomicWrites) -> None:
        await self.claim(of, run)
        seq = self.seqs[run] + 1
        await self.stores[of].append(self.rows[run], Record(seq=seq, at=at, events=events), also)
        self.seqs[run] += len(events)

    async def claim(self, of: int, run: str) -> None:
        await self.stores[1 - of].release(run)
        epoch = (await self.stores[of].claim(run)).epoch
        self.rows[run] = msgspec.structs.replace(self.rows[run], epoch=epoch)

    async def contents(self) -> list[tuple[int, Broadcast]]:
        """All broadcasts, read in pages of different sizes by both processes."""
        one, other = (self.make_bus(store) for store in self.stores)
        found: list[tuple[int, Broadcast]] = []
        while page := await one.since(found[-1][0] if found else 0, 1 + len(found) % 5):
            found += page
        assert await other.since(0, 10**6) == found
        everything = [each for _, each in found]
        assert await other.newest(10**6) == everything
        for size in (1, 3, 7):
            assert await one.newest(size) == everything[-size:]
            pages = [each async for page in other.newest_pages(size) for each in page]
            assert pages == everything[-size:]
        assert not found or await one.head() >= found[-1][0]
        return found


@asynccontextmanager
async def folder(path: Path, *, is_heard: bool) -> AsyncIterator[Folder]:
    stores = SqliteStore(path, durability="normal"), SqliteStore(path, durability="normal")
    try:
        if is_heard:
            await SqliteBus(stores[0]).subscribe(AgentSubscription(crew="watch", agent="z", pattern="agent:*:*"))
        yield Folder(stores)
    finally:
        for store in stores:
            await store.close()


class History:
    """A random history, played on several folders. It keeps who is at work, as an oracle."""

    def __init__(self, seed: int, folders: list[Folder]) -> None:
        self.chance, self.folders = random.Random(seed), folders
        self.at_work: dict[str, list[str]] = {}
        self.over: list[str] = []
        self.told: list[str] = []
        self.emitted = self.runs = 0
        self.at = NOW

    def is_at_work(self, agent: str) -> bool:
        return any(agent in agents for agents in self.at_work.values())

    def change(self, run: str, ended: list[str], begun: list[str]) -> None:
        mine = self.at_work.setdefault(run, [])
        for agent in ended:
            mine.remove(agent)
            self.told += [] if self.is_at_work(agent) else [f"agent:{agent}:sleep"]
        for agent in begun:
            self.told += [] if self.is_at_work(agent) else [f"agent:{agent}:wake"]
            mine.append(agent)

    async def step(self) -> None:
        self.at += self.chance.randrange(3) - self.chance.randrange(2)
        verbs = {
            "start": 3,
            "hand over": 12,
            "fan out": 3,
            "finish": 2,
            "emit": 2,
            "tell": 2,
            "take up": 1,
            "delete": 1,
        }
        verb = self.chance.choices(list(verbs), list(verbs.values()))[0]
        of, live = self.chance.randrange(2), [run for run, agents in self.at_work.items() if agents]
        if verb == "start":
            run, agent = f"r{self.runs}", self.chance.choice(AGENTS)
            self.runs += 1
            self.change(run, [], [agent])
            for each in self.folders:
                await each.start(of, run, self.at, agent)
        elif verb == "emit":
            await self.emit(of)
        elif verb == "take up":
            await self.take_up(of)
        elif verb == "delete" and (self.over or live):
            await self.delete(of, self.chance.choice(self.over or live))
        elif live:
            await self.append(of, verb, self.chance.choice(live))

    async def append(self, of: int, verb: str, run: str) -> None:
        mine = self.at_work[run]
        agent = self.chance.choice(mine)
        first = ModelReplied(call="1.0", agent=agent, text="done", usage=Usage())
        broadcasts: tuple[Emission, ...] = ()
        ended, begun = [agent], list[str]()
        events: tuple[Event, ...] = (
            first,
            RunFinished(status="completed", reason="x", agent=agent, output="", text="", usage=Usage()),
        )
        if verb == "hand over":
            to = self.chance.choice(AGENTS)
            begun = [to] if to not in mine or to == agent else []
            ended, begun = (ended, begun) if to != agent else ([], [])
            events = (first, HandedOver(origin=agent, to=to, signal="[NEXT]"), TurnStarted(agent=to, turn=2))
        elif verb == "fan out":
            begun = [each for each in AGENTS if each not in mine and self.chance.random() < 0.6]
            events = (first, *(TurnStarted(agent=each, turn=3) for each in begun))
        elif verb == "tell":
            ended, events = [], (first,)
            broadcasts = (self.emission(),)
        elif verb == "finish":
            ended = list(mine)
            self.over.append(run)
        also = AtomicWrites(
            ended=tuple((each, 0) for each in ended), begun=tuple((each, 0) for each in begun), broadcasts=broadcasts
        )
        self.change(run, ended, begun)
        for each in self.folders:
            await each.append(of, run, self.at, events, also)

    def emission(self) -> Emission:
        self.emitted += 1
        name = f"x:{self.emitted}"
        self.told.append(name)
        return Emission(broadcast=Broadcast(id=f"b{self.emitted}", type=name, source=PROCESS, created_at=self.at))

    async def emit(self, of: int) -> None:
        emission = self.emission()
        for each in self.folders:
            await each.make_bus(each.stores[of]).emit(emission)

    async def take_up(self, of: int) -> None:
        """A claimed fork: its agents are at work, and no record of this store says so."""
        run, agent = f"fork{self.runs}", self.chance.choice(AGENTS)
        self.runs += 1
        self.change(run, [], [agent])
        self.at_work.pop(run)
        self.at_work[f"{run} taken up"] = []
        activity = Activity(name=f"fork{self.runs:09}", place=1, crew="ci", run=run, at=self.at, begun=((agent, 0),))
        slept = msgspec.structs.replace(activity, place=2, ended=activity.begun, begun=())
        self.told += [] if self.is_at_work(agent) else [f"agent:{agent}:sleep"]
        for each in self.folders:
            await each.make_bus(each.stores[of]).record_presence(activity)
            await each.make_bus(each.stores[1 - of]).record_presence(slept)

    async def delete(self, of: int, run: str) -> None:
        """Nobody falls asleep by it, as before."""
        self.at_work.pop(run)
        self.over = [each for each in self.over if each != run]
        for each in self.folders:
            await each.claim(of, run)
            await each.stores[of].release(run)
            await each.stores[of].delete_run(run, self.at)


@pytest.mark.parametrize("seed", range(9))
async def test_derived_and_stored_broadcasts_are_the_same_on_random_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "TAIL_MAX", (64, 3, 1)[seed % 3])
    async with folder(tmp_path / "quiet", is_heard=False) as quiet, folder(tmp_path / "heard", is_heard=True) as heard:
        history = History(seed, [quiet, heard])
        for _ in range(40):
            await history.step()
        found = await quiet.contents()
        assert [each.type for _, each in found] == history.told
        assert found == await heard.contents()
        assert [await store.problems() for store in quiet.stores] == [[], []]


async def columns(store: SqliteStore, query: str) -> list[Any]:
    return await store.read("look", lambda connection: connection.execute(query).fetchall())


async def handed_over(place: Folder, run: str = "r") -> None:
    """A run of two turns, from a to b, and its end."""
    await place.start(0, run, NOW, "a")
    replies = [ModelReplied(call="1.0", agent=agent, text="done", usage=Usage()) for agent in "ab"]
    handoff = (replies[0], HandedOver(origin="a", to="b", signal="[NEXT]"), TurnStarted(agent="b", turn=2))
    await place.append(0, run, NOW + 1, handoff, AtomicWrites(ended=(("a", 0),), begun=(("b", 0),)))
    end = RunFinished(status="completed", reason="x", agent="b", output="", text="", usage=Usage())
    await place.append(0, run, NOW + 2, (replies[1], end), AtomicWrites(ended=(("b", 0),)))


TOLD = ["agent:a:wake", "agent:a:sleep", "agent:b:wake", "agent:b:sleep"]


async def types(place: Folder) -> list[str]:
    return [each.type for _, each in await place.contents()]


async def test_a_plain_handoff_stores_nothing_but_its_record(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        assert await types(place) == TOLD
        assert await columns(place.stores[0], "select presence from records") == [(1,), (1,), (1,)]
        for table in ("broadcasts", "lifecycle", "active"):
            assert await columns(place.stores[0], f"select * from {table}") == []


async def test_derived_broadcasts_are_pruned_and_the_newest_stays(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        bus = SqliteBus(place.stores[1])
        assert (await bus.prune(NOW + 2)).gone == 3
        assert await types(place) == ["agent:b:sleep"]
        assert (await bus.prune(NOW + 10**6)).gone == 0
        await handed_over(place, "s")
        assert (await bus.prune(NOW + 10**6)).gone == 4
        assert await types(place) == ["agent:b:sleep"]


async def test_pruning_forgets_nobody_who_is_at_work(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await place.start(0, "r", NOW, "a")
        await place.start(0, "s", NOW, "b")
        await SqliteBus(place.stores[1]).prune(NOW + 1)
        await place.start(1, "t", NOW + 1, "a")
        assert await types(place) == ["agent:b:wake"]


@pytest.mark.parametrize("gone", ["pruned", "deleted"])
async def test_another_process_learns_who_fell_asleep_though_the_record_is_gone(tmp_path: Path, gone: str) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await place.start(0, "r", NOW, "a")
        await place.start(1, "s", NOW, "b")  # now both processes know that a is at work
        end = RunFinished(status="completed", reason="x", agent="a", output="", text="", usage=Usage())
        reply = ModelReplied(call="1.0", agent="a", text="done", usage=Usage())
        await place.append(0, "r", NOW, (reply, end), AtomicWrites(ended=(("a", 0),)))
        if gone == "deleted":
            await place.stores[0].delete_run("r", NOW)
        else:
            await SqliteBus(place.stores[0]).emit(History(0, []).emission())
            await SqliteBus(place.stores[0]).prune(NOW + 10**6)
        await place.start(1, "t", NOW + 1, "a")
        assert (await types(place))[-1] == "agent:a:wake"


async def test_derived_broadcasts_of_a_deleted_run_stay(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        before = await place.contents()
        await place.stores[0].release("r")
        await place.stores[1].delete_run("r", NOW)
        assert await place.contents() == before


async def test_derived_broadcasts_that_come_back_from_a_file_are_not_stored(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        known = [each for _, each in await place.contents()]
        assert await SqliteBus(place.stores[1]).restore(known) == 0


async def test_an_imported_run_wakes_nobody(tmp_path: Path) -> None:
    async with folder(tmp_path / "one", is_heard=False) as one, folder(tmp_path / "two", is_heard=False) as two:
        await handed_over(one)
        row = await one.stores[0].row("r")
        await two.stores[0].add_run(row, await one.stores[0].export_records("r"))
        assert await types(two) == []


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        ("presence = 7", TOLD[:1] + TOLD[3:]),
        ("presence = 'x'", TOLD[:1] + TOLD[3:]),
        ("presence = x'0102'", TOLD[:1] + TOLD[3:]),
        ("body = x'5b5d'", TOLD[:1] + TOLD[3:]),
    ],
)
async def test_a_damaged_presence_hides_no_other_and_is_reported(tmp_path: Path, damage: str, left: list[str]) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        await place.stores[0].write(
            "damage", lambda connection, _: connection.execute(f"update records set {damage} where position = 2")
        )
        assert await types(place) == left
        assert any("the broadcast at position" in each for each in await place.stores[0].problems())


async def test_a_presence_of_another_record_is_damaged(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await place.start(0, "r", NOW, "a")
        await place.start(0, "s", NOW, "a")  # already awake: its presence is written out
        await place.stores[0].write(
            "move",
            lambda connection, _: connection.execute(
                "update records set presence = (select presence from records where position = 2) where position = 1"
            ),
        )
        assert await types(place) == []
        assert len(await place.stores[0].problems()) == 1


def lose_position(connection: sqlite3.Connection) -> None:
    connection.execute("delete from bus_changes where name = 'presence_filled'")
    repair_change_counts(connection, 0)


async def test_the_table_of_active_agents_is_read_again_after_its_position_was_damaged(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await place.start(0, "r", NOW, "a")
        await place.stores[0].write("damage", lambda connection, _: lose_position(connection))
    async with folder(tmp_path, is_heard=False) as place:
        await place.start(0, "s", NOW, "a")
        assert await types(place) == ["agent:a:wake"]


async def test_a_folder_of_the_schema_before_is_read_as_it_was(tmp_path: Path) -> None:
    """Its broadcasts keep their positions, who is at work stays at work, and its records are where they were."""
    async with folder(tmp_path / "new", is_heard=False) as place:
        await handed_over(place)
        await place.start(0, "s", NOW + 3, "a")
        runs = await columns(place.stores[0], "select * from runs")
        runs = [row[:24] for row in runs]  # later migrations added columns behind them
        records = await columns(place.stores[0], "select position, run, seq, crc, link, body from records")
        told = await place.contents()
    path = tmp_path / "old" / DATABASE
    path.parent.mkdir()
    connection = migrations.connect(path, "rwc")
    before = next(n for n, (name, _) in enumerate(migrations.MIGRATIONS) if name == PRESENCE_IN_RECORDS[0])
    for statement in (each for _, statements in migrations.MIGRATIONS[:before] for each in statements):
        connection.execute(statement)
    connection.executemany(f"insert into runs values ({', '.join('?' * len(runs[0]))})", runs)
    connection.executemany("insert into records values (?, ?, ?, ?, ?, ?)", records)
    for n, (_, broadcast) in enumerate(told, 1):
        body = encode_broadcast(broadcast)
        row = (n, broadcast.id, 0, crc_as_int32(body, n), body)
        connection.execute("insert into broadcasts (position, id, hops, crc, body) values (?, ?, ?, ?, ?)", row)
    connection.execute("insert into active (crew, agent, run) values ('ci', 'a', 's')")
    connection.execute(f"pragma application_id = {migrations.APPLICATION_ID:d}")
    connection.execute(f"pragma user_version = {before:d}")
    connection.close()
    async with folder(path.parent, is_heard=False) as place:
        assert await place.contents() == list(enumerate([each for _, each in told], 1))
        await place.start(0, "t", NOW + 4, "a")
        await place.start(1, "u", NOW + 5, "b")
        assert await types(place) == [*TOLD, "agent:a:wake", "agent:b:wake"]
        assert [each.position for each in await place.stores[0].since(0)] == [1, 2, 3, 4, 5, 6]
        assert await place.stores[0].problems() == []


async def test_a_webhook_that_has_read_all_broadcasts_has_not_read_too_far(tmp_path: Path) -> None:
    async with folder(tmp_path, is_heard=False) as place:
        await handed_over(place)
        store, bus = place.stores[0], SqliteBus(place.stores[0])
        async with SqliteLeaders(store, ManualClock()).leadership("webhooks") as held:
            await store.enqueue_deliveries(f"hook{BROADCAST_POSITION}", await bus.head(), (), held)
            assert await store.problems() == []
            await store.enqueue_deliveries(f"hook{BROADCAST_POSITION}", await bus.head() + 1, (), held)
        assert [each for each in await store.problems() if "has read further" in each]
