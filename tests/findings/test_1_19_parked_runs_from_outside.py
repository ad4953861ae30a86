"""Finding 1.19, the rest: a parked run under a second Ctrl-C, over HTTP, exported, told, answered and ended."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, tool
from interlock.engine.events import ToolRequest
from interlock.messages import HOST, register, unregister
from interlock.ports import ModelReply, ModelRequest
from tests.boxes import inside
from tests.findings.test_1_19_ctrl_c_parks import (
    GROUP,
    SCRIPT,
    TREE,
    Hanging,
    ask,
    command,
    crew_in,
    parked,
    resumed,
    write,
)
from tests.server.process import serving


class Reading(Hanging):
    """Keeps what it was shown."""

    def __init__(self, replies: dict[str, list[Any]]) -> None:
        super().__init__(replies)
        self.texts: list[str] = []

    async def __call__(self, request: ModelRequest) -> Any:
        self.texts.extend(message.text for message in request.messages)
        return await super().__call__(request)


PROGRAM = Path(sys.executable).parent / "interlock"


@pytest.fixture
def price() -> Iterator[None]:
    register("PRICE", {"type": "object", "properties": {"price": {"type": "number"}}}, from_=HOST, to="*")
    yield
    unregister("PRICE")


def started(folder: Path, delay: str = "600") -> tuple["subprocess.Popen[str]", str]:
    """The command at work on its second agent."""
    write(folder)
    (folder / "script.yaml").write_text(SCRIPT.replace("DELAY", delay), "utf-8")
    words = ["run", str(folder), "go", "--script", str(folder / "script.yaml"), "--data", str(folder / "data")]
    child = subprocess.Popen([PROGRAM, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        event = json.loads(line)
        if event["type"] == "model.called" and event["agent"] == "b":
            return child, event["run"]
    raise AssertionError(f"it ended too early: {child.stderr and child.stderr.read()}")


def test_a_second_signal_ends_a_command_that_cannot_store_that_its_run_is_parked(tmp_path: Path) -> None:
    child, run_id = started(tmp_path)
    with child:
        lock = sqlite3.connect(tmp_path / "data" / "interlock.db", isolation_level=None)
        lock.execute("begin immediate")
        child.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=1)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 1
        lock.execute("rollback")
        lock.close()
    (row,) = inside(Interlock(tmp_path / "data"), lambda box: box.journal.rows(limit=9))
    assert (row.run, row.status) == (run_id, "running"), "it is recovered as after a crash"
    (tmp_path / "script.yaml").write_text(SCRIPT.replace("DELAY", "0"), "utf-8")
    assert command(tmp_path, "resume", run_id, "--script", str(tmp_path / "script.yaml")).exit_code == 0


def leave_parked(folder: Path) -> str:
    child, run_id = started(folder)
    with child:
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 3
    return run_id


def test_a_server_tells_of_a_parked_run_and_continues_it_only_when_asked(tmp_path: Path) -> None:
    run_id = leave_parked(tmp_path)
    ends = SCRIPT.replace("DELAY", "0")
    crew = (tmp_path / "crew.yaml").read_text("utf-8")
    with serving(tmp_path, script=ends, crew=crew) as server, server.asking() as client:
        (listed,) = client.get("/v1/runs?status=paused").json()["runs"]
        assert (listed["id"], listed["status"], listed["reason"]) == (run_id, "paused", "parked")
        assert client.get("/v1/runs?status=running").json()["runs"] == []
        detail = client.get(f"/v1/runs/{run_id}").json()
        assert (detail["status"], detail["reason"]) == ("paused", "parked")
        assert client.get("/v1/questions").json()["questions"] == []
        refused = client.post(f"/v1/runs/{run_id}/resume", json={"input": "hello"})
        assert (refused.status_code, refused.json()["code"]) == (409, "not-waiting")
        assert client.get(f"/v1/runs/{run_id}").json()["status"] == "paused"
        server.stopped()
    with serving(tmp_path, "--resume-parked", script=ends, crew=crew) as server, server.asking() as client:
        while (status := client.get(f"/v1/runs/{run_id}").json()["status"]) in ("paused", "running"):
            pass
        assert status == "completed"
        server.stopped()


def test_a_parked_run_is_resumed_over_http(tmp_path: Path) -> None:
    run_id = leave_parked(tmp_path)
    crew = (tmp_path / "crew.yaml").read_text("utf-8")
    with serving(tmp_path, script=SCRIPT.replace("DELAY", "0"), crew=crew) as server, server.asking() as client:
        assert client.post(f"/v1/runs/{run_id}/resume", json={}).status_code == 200
        while (status := client.get(f"/v1/runs/{run_id}").json()["status"]) == "running":
            pass
        assert status == "completed"
        server.stopped()


def test_a_parked_tree_is_exported_and_continued_elsewhere(tmp_path: Path) -> None:
    model = Hanging({**GROUP, "b": [ask("which?"), "red it is"]})
    run_id, _ = asyncio.run(parked(tmp_path, model, "x"))
    file = tmp_path / "run.jsonl"
    assert command(tmp_path, "runs", "export", run_id, str(file)).exit_code == 0
    there = tmp_path / "there"
    there.mkdir()
    imported = command(there, "runs", "import", str(file))
    assert imported.exit_code == 0, imported.output

    async def later(box: Interlock) -> Any:
        assert {(row.status, row.reason) for row in await box.journal.rows(limit=9)} == {("paused", "parked")}
        assert not box.runner.drivers
        (question,) = await box.questions()
        await box.answer(question.id, "red")
        return await resumed(box, run_id)

    asked = list(model.asked)
    assert inside(Interlock(there / "data", models=model, recover=True), later).status == "completed"
    assert {call for call in model.asked[len(asked) :] if call[0] in "cx"} <= set(asked), "under the same keys"


@pytest.mark.usefixtures("price")
def test_a_message_to_a_parked_run_is_taken_in_and_shown_after_the_resume(tmp_path: Path) -> None:
    model = Reading({**GROUP, "b": [ask("which?"), "red it is", "still red"]})
    run_id, _ = asyncio.run(parked(tmp_path, model, "x"))
    asked = list(model.asked)

    async def story(box: Interlock) -> Any:
        first = await box.send_message(run_id, "PRICE", "b", {"price": 7}, key="k")
        assert await box.send_message(run_id, "PRICE", "b", {"price": 7}, key="k") == first
        result = await box.result(run_id)
        assert (result.status, result.reason) == ("paused", "parked")
        assert not box.runner.drivers
        assert model.asked == asked, "nothing is asked before the resume"
        (question,) = await box.questions()
        await box.answer(question.id, "red")
        return await resumed(box, run_id)

    result = inside(Interlock(tmp_path / "data", models=model, recover=True), story)
    assert result.status == "completed"
    assert any('"price":7' in text for text in model.texts)
    assert command(tmp_path, "runs", "replay", run_id).exit_code == 0


def test_a_run_that_comes_to_its_end_while_it_is_parked_ends(tmp_path: Path) -> None:
    """A tool may or may not have run, another one works; the run is parked, and a person lets it fail."""
    calls = tuple(ToolRequest(id=name, name=name, arguments="{}") for name in ("pay", "look"))
    crew = TREE.replace("tools: [TOOLS]", "tools: [pay, look]")

    async def pay() -> str:
        """Pays."""
        await asyncio.Event().wait()
        return ""

    async def look() -> str:
        """Looks."""
        await asyncio.Event().wait()
        return ""

    how: dict[str, Any] = {
        "models": lambda _: ModelReply(text="", tool_calls=calls),
        "tools": [pay, tool(idempotent=True)(look)],
    }

    async def left(box: Interlock) -> str:
        run = await box.start(crew_in(tmp_path, crew), "go")
        async for event in box.runner.follow(run.id):
            if event["type"] == "tool.called" and event["name"] == "look":
                break
        return run.id

    run_id = inside(Interlock(tmp_path / "data", **how), left)

    async def failed(box: Interlock) -> Any:
        while not (questions := await box.questions()):
            await asyncio.sleep(0)
        assert await box.park(run_id)
        await box.answer(questions[0].id, "fail")
        events = [event async for event in box.runner.follow(run_id)]
        return await box.result(run_id), [event["type"] for event in events][-1]

    result, last = inside(Interlock(tmp_path / "data", **how, recover=True), failed)
    assert (result.status, result.reason, last) == ("failed", "tool_unknown_outcome", "run.finished")
    assert command(tmp_path, "runs", "replay", run_id).exit_code == 0
