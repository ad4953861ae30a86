"""Going on after a death, in one process: what a person says meanwhile counts."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import AlreadyResumed, Interlock, load_crew
from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall
from interlock.adapters.store_sqlite import SqliteStore
from interlock.crew.definition import Crew
from interlock.errors import OwnedElsewhere
from interlock.ports import ModelRequest, Record, RunRow

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


def crew_in(folder: Path) -> Crew:
    """As a host that has the tool would load it."""
    (folder / "crew.yaml").write_text(BOTH, "utf-8")
    crew = load_crew(folder)
    agents = tuple(msgspec.structs.replace(agent, tools=("pay",)) for agent in crew.agents)
    return msgspec.structs.replace(crew, agents=agents)


SCRIPT: dict[str, Any] = {
    "a": ["[FAN]"],
    "b": [Answer(tool_calls=(ToolCall("pay"),)), "done"],
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
    """Leaves a run behind in which a payment is under way."""
    started = asyncio.Event()

    async def pay() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with Interlock(folder / "data", models=Slow(), tools=[pay]) as box:
        await box.start(crew_in(folder), "go", run_id="r")
        await started.wait()


async def asked_about(box: Interlock, model: Slow) -> str:
    """The token of the question about the payment, while c still works."""
    await model.reached["c"].wait()
    while not (state := await box.state("r")).waits:
        await asyncio.sleep(0.001)
    assert state.status == "running"
    return state.waits[0].token


def test_an_answer_counts_while_other_branches_still_work(tmp_path: Path) -> None:
    async def answered() -> Any:
        model = Slow()
        async with Interlock(tmp_path / "data", models=model, recover=True) as box:
            token = await asked_about(box, model)
            run = await box.resume("r", "paid", token=token)
            assert (await box.state("r")).answered == {token: "paid"}
            await box.resume("r", "paid", token=token)
            with pytest.raises(AlreadyResumed):
                await box.resume("r", "not paid", token=token)
            for held in model.let_go.values():
                held.set()
            return await run.result()

    asyncio.run(cut_off(tmp_path))
    assert asyncio.run(answered()).status == "completed"


def test_a_run_that_is_answered_while_it_is_let_go_of_keeps_its_owner(tmp_path: Path) -> None:
    async def answered() -> None:
        model, gate = Slow(), asyncio.Event()
        async with Interlock(tmp_path / "data", models=model, recover=True) as box:
            token = await asked_about(box, model)
            append = box.journal.append

            async def slow_append(row: RunRow, record: Record) -> int:
                await gate.wait()
                return await append(row, record)

            box.journal.append = slow_append  # type: ignore[method-assign]
            model.let_go["c"].set()  # its reply leaves nothing to do but to wait, so the run is let go of
            await asyncio.sleep(0.05)
            answering = asyncio.create_task(box.resume("r", "paid", token=token))
            await asyncio.sleep(0.05)
            gate.set()
            await answering
            await model.reached["d"].wait()
            other = SqliteStore(tmp_path / "data")
            with pytest.raises(OwnedElsewhere):
                await other.claim("r")
            await other.close()

    asyncio.run(cut_off(tmp_path))
    asyncio.run(answered())
