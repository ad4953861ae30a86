"""Finding 1.15: a store that is away for an hour holds live runs; they continue afterwards, and nothing is repeated.

A real SQLite store whose statements that write fail for that hour, and the clock is virtual.
"""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.compose.crews import load_definition
from interlock.compose.stores.sqlite_folder import SqliteFolder
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.errors import ModelUnavailable, StoreFailed
from interlock.ports import ClaimedRun, ModelReply, ModelRequest
from interlock.runtime.runner import Runner
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders
from tests.adapters.test_store_faults import telling

HOUR_MS = 3_600_000
INNER = """\
version: "2.0"
name: inner
entry_point: x
agents: [{id: x}, {id: y}]
routing: {signals: {x: [{signal: "[NEXT]", target: y}], y: [{signal: "[END]"}]}}
settings: {timeout_seconds: 100000}
"""
CREW = """\
version: "2.0"
name: NAME
entry_point: a
agents: [{id: a, tools: [pay, ask_user]}, {id: b}, {id: c}, {id: d}]
sub_crews: {inner: {config_path: inner}}
routing:
  signals:
    a:
      - {signal: "[NEXT]", target: b}
      - {signal: "[ALL]", type: parallel, target: all}
      - {signal: "[SUB]", type: sub_crew, target_crew: inner, return_to: b}
    b: [{signal: "[END]"}]
  parallel_groups: {all: {agents: [c, d, inner], next_agent: b, timeout_seconds: 90000}}
settings: {timeout_seconds: 100000, tool_result_timeout_seconds: 90000, retry_backoff_min_millis: 60000}
"""


def tool(name: str, **arguments: Any) -> ModelReply:
    return ModelReply(text="", tool_calls=(ToolRequest(id="1", name=name, arguments=json.dumps(arguments)),))


REPLIES: dict[str, list[Any]] = {
    "alone": ["on\n[NEXT]"],
    "group": ["all\n[ALL]"],
    "child": ["sub\n[SUB]"],
    "tool": [tool("pay"), "paid\n[NEXT]"],
    "asking": [tool("ask_user", question="which?", deadline_seconds=600, default="blue"), "so\n[NEXT]"],
    "retried": [ModelUnavailable("overloaded"), "again\n[NEXT]"],
}
OTHERS = {"b": "done\n[END]", "c": "c", "d": "d", "x": "x\n[NEXT]", "y": "y\n[END]"}


class Away:
    """Refuses to write while the store is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.refused = 0

    def __call__(self, statement: str) -> None:
        if self.is_away and not statement.lstrip().lower().startswith(("select", "pragma", "rollback")):
            self.refused += 1
            raise sqlite3.OperationalError("disk I/O error")


class Folder(Interlock):
    """A host whose store has a fault to inject."""

    def __init__(self, *given: Any, before: Callable[[str], None], **more: Any) -> None:
        super().__init__(*given, durability="normal", **more)

        def connect(path: Path, mode: str) -> sqlite3.Connection:
            return telling(before)(path, mode)

        self.home = SqliteFolder(self.data, connect=connect)


def crew_in(folder: Path, name: str) -> Any:
    home = folder / name
    (home / "inner").mkdir(parents=True, exist_ok=True)
    (home / "inner" / "crew.yaml").write_text(INNER, "utf-8")
    (home / "crew.yaml").write_text(CREW.replace("NAME", name), "utf-8")
    return load_definition(home, host=Host(tools=("pay",)))


class World:
    """Models and a tool that count what is asked of them, by the key of the call."""

    def __init__(self) -> None:
        self.clock, self.away = ManualClock(), Away()
        self.asked: Counter[str] = Counter()
        self.paid = 0

    async def model(self, request: ModelRequest) -> Any:
        self.asked[request.key] += 1
        await self.clock.sleep_until(self.clock.monotonic_ms() + 50)
        name = request.key.partition(":")[0].partition("~")[0].removeprefix("run-")
        reply = REPLIES[name][request.number - 1] if request.agent == "a" else OTHERS[request.agent]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def pay(self) -> str:
        """Pays."""
        self.paid += 1
        await self.clock.sleep_until(self.clock.monotonic_ms() + 50)
        return "paid"

    async def pass_time(self, steps: int, step_ms: int) -> None:
        for _ in range(steps):
            for _ in range(30):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)  # the writer's thread answers
            self.clock.advance(step_ms)

    async def pass_time_until(self, holds: Callable[[], bool], step_ms: int = 1_000) -> None:
        """In as many steps as it takes: how many depends on the writer's thread."""
        while not holds():
            await self.pass_time(1, step_ms)


@pytest.mark.parametrize("after", range(0, 40, 3))
async def test_every_live_run_continues_and_nothing_is_repeated(tmp_path: Path, after: int) -> None:
    """The store goes away after so many steps of 20 ms: at another place of each run every time."""
    world = World()

    how: dict[str, Any] = {"models": world.model, "tools": [world.pay], "clock": world.clock, "before": world.away}
    async with Folder(tmp_path / "data", **how) as box:
        for name in REPLIES:
            await box.start(crew_in(tmp_path, name), "go", run_id=f"run-{name}")
        await world.pass_time(after, 20)
        world.away.is_away = True
        await world.pass_time(HOUR_MS // 60_000, 60_000)
        world.away.is_away = False
        await world.pass_time_until(lambda: not box.runner.drivers and not box.runner.live)
        assert box.set_aside == ()
        rows = await box.journal.rows(limit=50, nested=False)
        found = {row.run.removeprefix("run-"): f"{row.status} {row.reason}" for row in rows}
    assert found == dict.fromkeys(REPLIES, "completed signal:[END]")
    assert set(world.asked.values()) == {1}
    assert world.paid == 1


async def test_a_process_that_is_closed_while_the_store_is_away_ends(tmp_path: Path) -> None:
    """An answer is held, and so is the reply of a model; neither keeps the process."""
    world = World()

    how: dict[str, Any] = {"models": world.model, "clock": world.clock, "before": world.away}
    async with Folder(tmp_path / "data", **how, tools=[world.pay]) as box:
        await box.start(crew_in(tmp_path, "asking"), "go", run_id="run-asking")
        await box.start(crew_in(tmp_path, "alone"), "go", run_id="run-alone")
        while not (questions := await box.questions()):
            await world.pass_time(1, 20)
        world.away.is_away = True
        answer = asyncio.ensure_future(box.answer(questions[0].id, "red"))
        await world.pass_time(5, 20)
        closing = asyncio.ensure_future(box.__aexit__(None, None, None))
        await world.pass_time_until(closing.done)
        await asyncio.gather(answer, return_exceptions=True)
    world.away.is_away = False


async def test_a_store_that_is_away_when_runs_are_recovered_sets_none_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, claim = World(), SqliteStore.claim
    how: dict[str, Any] = {"models": world.model, "tools": [world.pay], "clock": world.clock, "before": world.away}
    names = ("alone", "child")

    async def away(self: SqliteStore, run: str) -> ClaimedRun:
        if world.away.is_away:
            world.away.refused += 1
            raise StoreFailed("the store is away")
        return await claim(self, run)

    async with Folder(tmp_path / "data", **how) as box:
        for name in names:
            await box.start(crew_in(tmp_path, name), "go", run_id=f"run-{name}")
    monkeypatch.setattr(SqliteStore, "claim", away)
    monkeypatch.setattr(Away, "__call__", lambda self, statement: None)
    world.away.is_away = True
    async with Folder(tmp_path / "data", **how, recover=True) as box:
        assert box.set_aside == ()
        await world.pass_time(HOUR_MS // 60_000, 60_000)
        assert box.set_aside == ()
        world.away.is_away = False
        await world.pass_time_until(lambda: bool(box.runner.drivers))
        for name in names:
            done = asyncio.ensure_future(box.runner.wait_until_settled(f"run-{name}"))
            await world.pass_time_until(done.done, 100)
        assert {row.status for row in await box.journal.rows(limit=9)} == {"completed"}
    assert world.away.refused > 10


class AwayStore(MemoryStore):
    """A store in memory whose records cannot be written for a while."""

    is_away = False

    async def append(self, *given: Any, **more: Any) -> Any:
        if self.is_away:
            raise StoreFailed("the store is away")
        return await super().append(*given, **more)

    async def release(self, run: str) -> None:
        if self.is_away:
            raise StoreFailed("the store is away")
        await super().release(run)


class Speaking:
    """A model that asks the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        yield ModelReply(text=await self._world.model(request))


def runner_on(store: AwayStore, world: World) -> Runner:
    return Runner(
        journal=store,
        owners=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        orders=store,
        bus=store.bus,
        deltas=ProcessDeltas(),
        clock=world.clock,
        model_for=lambda _crew, _agent, _run: Speaking(world),
        toolbox=PythonToolbox(()),
    )


async def test_a_store_in_memory_that_is_away_holds_its_run(tmp_path: Path) -> None:
    """The runner itself, on the memory store: no folder, no thread."""
    world, store = World(), AwayStore()
    crew = crew_in(tmp_path, "alone")

    async with runner_on(store, world) as runner:
        form = runner.crews.require_proven_form(crew)
        await runner.crews.store_crew(form)
        await runner.start(form.crew, form.sha, "go", run_id="run-alone")
        store.is_away = True
        await world.pass_time(HOUR_MS // 60_000, 60_000)
        assert (await store.row("run-alone")).status == "running"
        assert "run-alone" in runner.drivers
        store.is_away = False
        await world.pass_time_until(lambda: not runner.drivers and not runner.live, 100)
        row = await store.row("run-alone")
        assert (row.status, row.reason) == ("completed", "signal:[END]")
    assert set(world.asked.values()) == {1}
