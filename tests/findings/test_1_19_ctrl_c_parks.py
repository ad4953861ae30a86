"""Finding 1.19: Ctrl-C of `interlock run` parks the run; only `resume`, or `serve --resume-parked`, continues it."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.errors import CannotFork, NotWaiting, UsageError
from interlock.ports import ModelReply, ModelRequest

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
routing: {signals: {a: [{signal: "[NEXT]", target: b}], b: [{signal: "[END]"}]}}
"""
SCRIPT = 'replies: {a: ["over\\n[NEXT]"], b: [{text: "done\\n[END]", delay_seconds: DELAY}]}'
INNER = """\
version: "2.0"
name: inner
entry_point: x
agents: [{id: x, tools: [ask_user]}]
routing: {signals: {x: [{signal: "[END]"}]}}
"""
TREE = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, tools: [TOOLS]}, {id: b, tools: [ask_user]}, {id: c}]
sub_crews: {inner: {config_path: inner}}
routing:
  signals:
    a: [{signal: "[GO]", type: parallel, target: all}, {signal: "[END]"}]
  parallel_groups:
    all: {agents: [b, c, inner], next_agent: a}
"""


class Hanging:
    """Answers by agent and how often it was asked; what is `None` hangs until it is let go."""

    def __init__(self, replies: dict[str, list[Any]]) -> None:
        self.replies, self.asked = replies, list[tuple[str, int, str]]()

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.append((request.agent, request.number, request.key))
        reply = self.replies[request.agent][request.number - 1]
        if isinstance(reply, tuple):  # hangs once
            if len([each for each in self.asked if each == self.asked[-1]]) == 1:
                await asyncio.Event().wait()
            (reply,) = reply
        return reply


def ask(question: str) -> ModelReply:
    call = ToolRequest(id="1", name="ask_user", arguments=json.dumps({"question": question}))
    return ModelReply(text="", tool_calls=(call,))


def write(folder: Path, crew: str = CREW) -> None:
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner" / "crew.yaml").write_text(INNER, "utf-8")
    (folder / "crew.yaml").write_text(crew, "utf-8")


def crew_in(folder: Path, crew: str = TREE, tools: str = "ask_user") -> Any:
    write(folder, crew.replace("TOOLS", tools))
    return load_crew(folder, host=Host(tools=("pay", "look")))


def command(folder: Path, *words: str) -> Any:
    return CliRunner().invoke(interlock, [*words, "--data", str(folder / "data")])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_run_paused_and_parked(tmp_path: Path, number: int) -> None:
    write(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("DELAY", "600"), "utf-8")
    words = ["run", str(tmp_path), "go", "--script", str(script), "--data", str(tmp_path / "data"), "--json"]
    program = Path(sys.executable).parent / "interlock"
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        events = []
        for line in child.stdout:
            events.append(json.loads(line))
            if events[-1]["type"] == "model.called" and events[-1]["agent"] == "b":
                child.send_signal(number)
        assert child.wait(timeout=60) == 3
    last = events[-1]
    assert (last["type"], last["reason"], last["agent"]) == ("run.paused", "parked", "b")
    run_id = last["run"]
    listed = command(tmp_path, "runs", "list", "--status", "paused")
    assert run_id in listed.stdout
    assert "parked" in listed.stdout
    for verb in ("show", "explain"):
        assert f"interlock resume {run_id}" in command(tmp_path, "runs", verb, run_id).stdout
    assert command(tmp_path, "doctor").exit_code == 0
    assert command(tmp_path, "runs", "replay", run_id).exit_code == 0
    refused = command(tmp_path, "resume", run_id, "--input", "hello", "--script", str(script))
    assert refused.exit_code == 1
    assert "parked and has no question" in refused.stderr
    script.write_text(SCRIPT.replace("DELAY", "0"), "utf-8")
    done = command(tmp_path, "resume", run_id, "--script", str(script), "--json")
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["agent"] for event in told if event["type"] == "model.replied"] == ["a", "b"]


async def parked(folder: Path, model: Hanging, until: str) -> tuple[str, list[dict[str, Any]]]:
    """A run that was parked when an agent had been asked."""

    async with Interlock(folder / "data", models=model) as box:
        run = await box.start(crew_in(folder), "go")
        events = []
        async for event in box.runner.follow(run.id):
            events.append(event)
            if event["type"] == "model.called" and event["agent"] == until:
                while until not in [agent for agent, _, _ in model.asked]:
                    await asyncio.sleep(0)
                for _ in range(100):
                    await asyncio.sleep(0)
                await box.park(run.id)
        return run.id, events


GROUP: dict[str, list[Any]] = {
    "a": ["all\n[GO]", "done\n[END]"],
    "b": ["here"],
    "c": [("there",)],
    "x": [("inside\n[END]",)],
}


async def test_children_are_parked_too_and_only_calls_in_progress_are_made_again(tmp_path: Path) -> None:
    model = Hanging(GROUP)
    run_id, events = await parked(tmp_path, model, "x")
    assert (events[-1]["run"], events[-1]["type"], events[-1]["reason"]) == (run_id, "run.paused", "parked")

    asked = list(model.asked)
    async with Interlock(tmp_path / "data", models=model, recover=True) as box:
        rows = await box.journal.rows(limit=10)
        assert [(row.status, row.reason) for row in rows] == [("paused", "parked")] * 2
        assert box.set_aside == ()
        assert not box.runner.drivers, "a server that recovers leaves it alone"
        assert [await box.owners.is_owned(row.run) for row in rows] == [False, False]
        with pytest.raises(UsageError):
            await box.continue_run(crew_in(tmp_path), "on", run_id)
        with pytest.raises(CannotFork):
            await box.fork(run_id, rows[-1].seq)
        run = await box.resume(run_id)
        result = await run.result()
    assert (result.status, result.output) == ("completed", "done\n[END]")
    again = model.asked[len(asked) :]
    assert sorted(agent for agent, _, _ in again) == ["a", "c", "x"]
    assert {call for call in again if call[0] != "a"} <= set(asked), "under the same keys"


async def test_an_open_question_is_answered_without_continuing_the_run(tmp_path: Path) -> None:
    model = Hanging({**GROUP, "b": [ask("which?"), "red it is"]})
    run_id, _ = await parked(tmp_path, model, "x")
    asked = list(model.asked)

    async with Interlock(tmp_path / "data", models=model, recover=True) as box:
        (question,) = await box.questions()
        handle = await box.answer(question.id, "red")
        events = [event async for event in box.runner.follow(handle.id)]
        result = await handle.result()
        assert (await box.answer(question.id, "red")).id == run_id, "the same answer again changes nothing"
        assert await box.questions() == []
        last = events[-1]
    assert (result.status, result.reason, last["type"]) == ("paused", "parked", "run.paused")
    assert model.asked == asked, "nobody was asked"
    async with Interlock(tmp_path / "data", models=model) as box:
        result = await resumed(box, run_id)
    assert result.status == "completed"


async def test_a_question_of_a_child_is_answered_without_continuing_the_tree(tmp_path: Path) -> None:
    model = Hanging({**GROUP, "x": [ask("which?"), "inside\n[END]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_in(tmp_path), "go")
        async for event in box.runner.follow(run.id):
            if event["type"] == "child.waits":
                await box.park(run.id)
        assert (await run.result()).reason == "parked"
        (question,) = await box.questions()
        await box.answer(question.id, "red")
        result = await run.result()
        assert (result.status, result.reason) == ("paused", "parked")
        assert [agent for agent, _, _ in model.asked].count("x") == 1
        run_id = run.id
    async with Interlock(tmp_path / "data", models=model) as box:
        rows = await box.journal.rows(limit=9)
    assert {row.reason for row in rows} == {"parked"}
    async with Interlock(tmp_path / "data", models=model) as box:
        assert (await resumed(box, run_id)).status == "completed"


async def resumed(box: Interlock, run_id: str, text: str = "") -> Any:
    return await (await box.resume(run_id, text)).result()


async def test_resume_with_input_answers_the_open_question_and_continues(tmp_path: Path) -> None:
    model = Hanging({**GROUP, "b": [ask("which?"), "red it is"]})
    run_id, _ = await parked(tmp_path, model, "x")
    async with Interlock(tmp_path / "data", models=model) as box:
        result = await resumed(box, run_id, "red")
    assert result.status == "completed"


async def test_a_parked_run_can_be_cancelled_with_its_children(tmp_path: Path) -> None:
    model = Hanging(GROUP)
    run_id, _ = await parked(tmp_path, model, "x")

    async with Interlock(tmp_path / "data", models=model) as box:
        await (await box.cancel(run_id)).result()
        assert [row.status for row in await box.journal.rows(limit=9)] == ["cancelled", "cancelled"]


async def test_serve_resume_parked_continues_them(tmp_path: Path) -> None:
    model = Hanging(GROUP)
    run_id, _ = await parked(tmp_path, model, "x")

    async with Interlock(tmp_path / "data", models=model) as box:
        assert await box.resume_parked() == ()
        await box.runner.wait_until_settled(run_id)
        assert (await box.result(run_id)).status == "completed"


async def test_a_tool_in_progress_that_is_not_idempotent_is_asked_about(tmp_path: Path) -> None:
    paid: list[str] = []

    async def pay() -> str:
        """Pays."""
        paid.append("paid")
        await asyncio.Event().wait()
        return ""

    call = ModelReply(text="", tool_calls=(ToolRequest(id="1", name="pay", arguments="{}"),))
    model = Hanging({"a": [call, "done\n[END]"]})

    async with Interlock(tmp_path / "data", models=model, tools=[pay]) as box:
        run = await box.start(crew_in(tmp_path, tools="pay"), "go")
        while not paid:
            await asyncio.sleep(0)
        assert await box.park(run.id)
        run_id = run.id
    async with Interlock(tmp_path / "data", models=model, tools=[pay]) as box:
        result = await resumed(box, run_id)
    assert (result.status, result.reason, paid) == ("paused", "tool_unknown_outcome", ["paid"])


async def test_a_parked_token_continues_once_and_the_same_resume_again_changes_nothing(tmp_path: Path) -> None:
    model = Hanging(GROUP)
    run_id, _ = await parked(tmp_path, model, "x")

    async with Interlock(tmp_path / "data", models=model) as box:
        token = (await box.result(run_id)).token
        await box.resume(run_id, token=token)
        await (await box.resume(run_id, token=token)).result()
        with pytest.raises(NotWaiting):
            await box.resume(run_id, token=f"{run_id}:no")
        assert (await box.result(run_id)).status == "completed"
