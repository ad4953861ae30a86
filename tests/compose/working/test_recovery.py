"""Going on after a death, in one process: what a person says meanwhile counts."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import AlreadyResumed, Interlock
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.sqlite.store import SqliteStore
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.errors import OwnedElsewhere
from interlock.ports import ModelRequest

BOTH = """\
version: "2.0"
name: both
entry_point: a
agents: [{id: a}, {id: b}, {id: c}, {id: d}]
routing:
  signals:
    a: [{signal: "[FAN]", type: parallel, target: both}]
    d: [{signal: "[END]"}]
  parallel_groups: {both: {agents: [b, c], wait_for_all: true, next_agent: d}}
"""


def crew_in(folder: Path) -> CrewDefinition:
    """As a host that has the tool would load it."""
    (folder / "crew.yaml").write_text(BOTH, "utf-8")
    crew = load_definition(folder)
    agents = tuple(msgspec.structs.replace(agent, tools=("pay",)) for agent in crew.agents)
    return msgspec.structs.replace(crew, agents=agents)


SCRIPT: dict[str, Any] = {
    "a": ["[FAN]"],
    "b": [ScriptedAnswer(tool_calls=(ToolCall("pay"),)), "done"],
    "c": ["done"],
    "d": ["[END]"],
}


class Slow(ScriptedModel):
    """Holds c and d back until they are let go."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)
        self.let_go = {"c": asyncio.Event(), "d": asyncio.Event()}
        self.reached = {"c": asyncio.Event(), "d": asyncio.Event()}

    async def reply(self, request: ModelRequest) -> Any:
        if request.agent in self.let_go:
            self.reached[request.agent].set()
            await self.let_go[request.agent].wait()
        async for piece in super().reply(request):
            yield piece


async def cut_off(folder: Path) -> None:
    """Leaves a run behind with a payment in progress."""
    started = asyncio.Event()

    async def endless() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    endless.__name__ = "pay"
    async with Interlock(folder / "data", models=Slow(), tools=[endless]) as box:
        await box.start(crew_in(folder), "go", run_id="r")
        await started.wait()


async def pay() -> str:
    return "paid again"


async def asked_about(box: Interlock, model: Slow) -> str:
    """The token of the question about the payment, while c still works."""
    await model.reached["c"].wait()
    while not (state := await box.state("r")).waits:
        await asyncio.sleep(0.001)
    assert state.status == "running"
    return state.waits[0].token


async def test_an_answer_counts_while_other_branches_still_work(tmp_path: Path) -> None:
    await cut_off(tmp_path)
    model = Slow()
    async with Interlock(tmp_path / "data", models=model, tools=[pay], recover=True) as box:
        token = await asked_about(box, model)
        run = await box.resume("r", "paid", token=token)
        assert (await box.state("r")).answered == {token: "paid"}
        await box.resume("r", "paid", token=token)
        with pytest.raises(AlreadyResumed):
            await box.resume("r", "not paid", token=token)
        for held in model.let_go.values():
            held.set()
        assert (await run.result()).status == "completed"


async def test_a_run_that_is_answered_while_it_is_let_go_of_keeps_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cut_off(tmp_path)
    model, gate, appending = Slow(), asyncio.Event(), asyncio.Event()
    async with Interlock(tmp_path / "data", models=model, tools=[pay], recover=True) as box:
        token = await asked_about(box, model)
        append = box.journal.append

        async def slow_append(*given: Any) -> Any:
            appending.set()
            await gate.wait()
            return await append(*given)

        monkeypatch.setattr(box.journal, "append", slow_append)
        model.let_go["c"].set()  # its reply leaves nothing to do but to wait, so the run is released
        await appending.wait()
        answering = asyncio.create_task(box.resume("r", "paid", token=token))
        for _ in range(50):  # it reads what it needs, and waits for the run
            await box.journal.rows(limit=1)
        assert not answering.done()
        gate.set()
        await answering
        await model.reached["d"].wait()
        other = SqliteStore(tmp_path / "data")
        with pytest.raises(OwnedElsewhere):
            await other.claim("r")
        await other.close()


# Many at once

LONE = """\
version: "2.0"
name: lone
entry_point: a
agents: [{id: a, tools: [%s]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


def lone_crew(folder: Path, tool: str = "") -> CrewDefinition:
    (folder / "crew.yaml").write_text(LONE % tool, "utf-8")
    return load_definition(folder, host=Host(tools=("pay",)))


async def leave_running(folder: Path, crews: dict[str, CrewDefinition]) -> None:
    """Leaves runs behind that wait for a model."""

    async def endless(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    async with Interlock(folder / "data", models=endless, tools=[pay], durability="normal") as box:
        await asyncio.gather(*(box.start(crew, "go", run_id=run) for run, crew in crews.items()))


def damage(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "data" / "interlock.db")
    assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()


async def test_all_runs_go_on_but_for_those_that_cannot_which_are_set_aside_with_the_reason(tmp_path: Path) -> None:
    plain, paying = lone_crew(tmp_path), lone_crew(tmp_path, "pay")
    crews = {f"r{n:03}": plain for n in range(250)} | {"r100": paying, "r101": msgspec.structs.replace(plain, name="x")}
    await leave_running(tmp_path, crews)
    damage(tmp_path, "update records set crc = crc + 1 where run = (select number from runs where run = 'r007')")
    damage(tmp_path, "delete from crews where sha = (select crew_sha from runs where run = 'r101')")

    model = ScriptedModel({"a": ["done\n[END]"]})
    async with Interlock(tmp_path / "data", models=model, recover=True, durability="normal") as box:
        for run in crews:
            await box.runner.wait_until_settled(run)
        for run in ("r007", "r100"):  # free for a process that can drive it
            other = SqliteStore(tmp_path / "data", durability="normal")
            await other.claim(run)
            await other.close()
        rows = await box.journal.rows(limit=1_000)
        status = {row.run: row.status for row in rows}
        aside = {each.run: each.reason for each in box.set_aside}
    assert len(status) == 250
    assert {run for run, stands in status.items() if stands != "completed"} == {"r007", "r100", "r101"}
    assert sorted(aside) == ["r007", "r100", "r101"]
    assert "as it was" not in "".join(aside.values())  # r100 is paused now
    for run, reason in (("r007", "is damaged"), ("r100", "does not have: pay"), ("r101", "there is no crew with sha")):
        assert reason in aside[run]
        assert status[run] == ("paused" if run == "r100" else "running"), "what cannot be read cannot be written either"


async def test_a_run_that_another_process_works_on_is_neither_taken_nor_set_aside(tmp_path: Path) -> None:
    crew, asked = lone_crew(tmp_path), asyncio.Event()

    async def endless(request: ModelRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    async with Interlock(tmp_path / "data", models=endless) as box:
        await box.start(crew, "go", run_id="r")
        await asked.wait()
        async with Interlock(tmp_path / "data", models=endless, recover=True) as other:
            assert (other.set_aside, other.runner.drivers) == ((), {})
