"""A question expires although the process that asked it is gone, or is driven by another one than the leader."""

import asyncio
import json
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.engine.events import ToolRequest
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.lifecycle import deadline_sweeper
from interlock.runtime.lifecycle.deadlines import QuestionDeadlines
from interlock.testing import Answer, ManualClock, ScriptedModel, ToolCall

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [ask_user]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""
QUESTION = {"question": "Which?", "deadline_seconds": 60, "default": "b"}
ASKS = Answer(tool_calls=(ToolCall("ask_user", QUESTION),))

GROUP = """\
version: "2.0"
name: pair
entry_point: start
agents: [{id: start}, {id: a, tools: [ask_user]}, {id: slow}, {id: end}]
routing:
  signals:
    start: [{signal: "[BOTH]", type: parallel, target: both}]
    end: [{signal: "[END]"}]
  parallel_groups: {both: {agents: [a, slow], next_agent: end}}
"""


async def paused_run(folder: Path, clock: ManualClock) -> None:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    model = ScriptedModel({"a": [ASKS]})
    async with Interlock(folder / "data", models=model, clock=clock) as box:
        assert (await (await box.start(load_crew(folder), "go", run_id="r")).result()).status == "paused"


async def wait_for_status(box: Interlock, clock: ManualClock, status: str) -> None:
    while (await box.journal.row("r")).status != status:
        clock.advance(1_000)
        await asyncio.sleep(0)


async def test_a_question_expires_in_a_process_that_neither_asked_it_nor_started_after_its_deadline(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    await paused_run(tmp_path, clock)
    clock.advance(1_000)
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", clock=clock, recover=True) as box:
        assert (await box.journal.row("r")).status == "paused"
        await wait_for_status(box, clock, "completed")
        assert await box.questions() == []


async def test_a_process_that_lacks_what_the_run_needs_leaves_its_question_open_and_does_not_hurry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks, check = ManualClock(), list[str](), QuestionDeadlines.check_deadlines

    async def counting(self: QuestionDeadlines, run_id: str) -> None:
        looks.append(run_id)
        await check(self, run_id)

    await paused_run(tmp_path, clock)
    clock.advance(100_000)
    monkeypatch.setattr(QuestionDeadlines, "check_deadlines", counting)
    async with Interlock(tmp_path / "data", clock=clock, recover=True) as box:
        for _ in range(5):
            await box._recovery.sweeper.sweep()
            clock.advance(1_000)
        assert (len(await box.questions()), looks) == (1, ["r"])
        assert "models" in box.set_aside[0].reason
        while len(looks) < 2:  # by the leader, which this process is
            clock.advance(1_000)
            await asyncio.sleep(0)


async def test_questions_that_are_for_others_do_not_keep_the_leader_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process may take their runs for now; the oldest ones come first at every look."""
    monkeypatch.setattr(deadline_sweeper, "BATCH_MAX", 1)
    clock, old, new = ManualClock(), CREW.replace("desk", "old"), CREW.replace("desk", "new")
    for name, crew in (("r1", old), ("r2", old), ("r", new)):
        (tmp_path / "crew.yaml").write_text(crew, "utf-8")
        async with Interlock(tmp_path / "data", models=ScriptedModel({"a": [ASKS]}), clock=clock) as box:
            await (await box.start(load_crew(tmp_path), "go", run_id=name)).result()
        clock.advance(1_000)
    clock.advance(100_000)
    only_new = WorkSettings(crews=("new",))
    async with Interlock(
        tmp_path / "data", models=lambda _: "done [END]", clock=clock, recover=True, work=only_new
    ) as box:
        async with asyncio.timeout(20):
            await wait_for_status(box, clock, "completed")
        assert sorted(each.run for each in await box.questions()) == ["r1", "r2"]


async def test_a_run_that_cannot_be_read_does_not_keep_the_leader_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its crew may be of a newer version, which this one cannot decode."""
    clock, check = ManualClock(), QuestionDeadlines.check_deadlines

    async def fail_for_one(self: QuestionDeadlines, run_id: str) -> None:
        if run_id == "r1":
            raise ValueError("an unknown field")
        await check(self, run_id)

    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    for name in ("r1", "r"):
        async with Interlock(tmp_path / "data", models=ScriptedModel({"a": [ASKS]}), clock=clock) as box:
            await (await box.start(load_crew(tmp_path), "go", run_id=name)).result()
    clock.advance(100_000)
    monkeypatch.setattr(QuestionDeadlines, "check_deadlines", fail_for_one)
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", clock=clock, recover=True) as box:
        async with asyncio.timeout(20):
            await wait_for_status(box, clock, "completed")
        assert [each.run for each in await box.questions()] == ["r1"]


async def test_the_process_that_drives_the_run_gets_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own alarm does not ring; the leader is another process."""
    monkeypatch.setattr(QuestionDeadlines, "set_alarm", lambda self, live, effect: None)
    (tmp_path / "crew.yaml").write_text(GROUP, "utf-8")
    clock, may_end = ManualClock(), asyncio.Event()

    async def model(request: ModelRequest) -> ModelReply:
        if request.agent == "slow":
            await may_end.wait()
        if request.agent == "a" and request.number == 1:
            asks = ToolRequest(id="q", name="ask_user", arguments=json.dumps(QUESTION))
            return ModelReply(text="", tool_calls=(asks,))
        return ModelReply(text={"start": "go [BOTH]", "end": "over [END]"}.get(request.agent, "well"))

    async with Interlock(tmp_path / "data", models=model, clock=clock) as driving:
        await driving.start(load_crew(tmp_path), "go", run_id="r")
        async with Interlock(tmp_path / "data", models=model, clock=clock) as other:
            while not await other.questions():
                await asyncio.sleep(0)
            clock.advance(61_000)
            await other._recovery.sweeper.sweep()
            while await other.questions():
                await asyncio.sleep(0)
            assert not other.runner.live
        may_end.set()
        assert (await driving.run("r").result()).status == "completed"


async def test_a_leader_that_may_not_take_the_run_leaves_its_question_to_a_worker_that_may(tmp_path: Path) -> None:
    clock = ManualClock()
    await paused_run(tmp_path, clock)
    clock.advance(100_000)
    leads = WorkSettings(crews=("other",))
    async with Interlock(
        tmp_path / "data", models=lambda _: "done [END]", clock=clock, recover=True, work=leads
    ) as box:
        await box._recovery.sweeper.sweep()
        assert (await box.journal.row("r")).status == "paused"
        async with Interlock(tmp_path / "data", models=lambda _: "done [END]", clock=clock, recover=True) as worker:
            await wait_for_status(worker, clock, "completed")
