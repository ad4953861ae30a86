"""Finding 1.11: a tool that a time limit ended has its `tool.returned`; using a deprecated signal is a warning.

Siblings: model calls and tools that a group, a cancel or a time limit of the run gave up.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.cli.main import interlock
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.ports import ModelReply, ModelRequest
from interlock.testing import ManualClock

SLOW_TOOLS = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, tools: [never]}]
routing: {signals: {a: [{signal: "[END]"}]}}
settings: {tool_result_timeout_seconds: 5, tool_execution_timeout_seconds: 600}
"""
RACE = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: quick}, {id: slow}, {id: busy, tools: [never]}, {id: z}]
routing:
  signals:
    a: [{signal: "[GO]", type: parallel, target: all}]
    z: [{signal: "[END]"}]
  parallel_groups:
    all: {agents: [quick, slow, busy], wait_for_all: false, next_agent: z}
"""
DEPRECATED = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
signals: [{name: "[OLD]", behavior: route, deprecated_msg: "Use [NEXT] instead"}]
routing: {signals: {a: [{signal: "[OLD]", target: b}], b: [{signal: "[END]"}]}}
"""


async def never() -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return ""


def unended(events: list[dict[str, Any]], began: str, ended: tuple[str, ...]) -> set[str]:
    """The calls that began and have no event that ends them."""
    calls = {event["call"] for event in events if event["type"] == began}
    return calls - {event["call"] for event in events if event["type"] in ended}


async def story_of(folder: Path, crew: str, model: Any, **how: Any) -> list[dict[str, Any]]:
    (folder / "crew.yaml").write_text(crew, "utf-8")

    async with Interlock(folder / "data", models=model, tools=[never], **how) as box:
        run = await box.start(load_crew(folder, host=Host(tools=("never",))), "go")
        return [event async for event in box.runner.follow(run.id) if "seq" in event]


async def test_a_tool_that_a_time_limit_ended_has_returned(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(SLOW_TOOLS, "utf-8")
    call = ModelReply(text="", tool_calls=(ToolRequest(id="1", name="never", arguments="{}"),))
    replies = iter([call, ModelReply(text="so [END]")])

    clock = ManualClock()
    async with Interlock(tmp_path / "data", models=lambda _: next(replies), tools=[never], clock=clock) as box:
        run = await box.start(load_crew(tmp_path, host=Host(tools=("never",))), "go")
        events = []
        async for event in box.runner.follow(run.id):
            events.append(event)
            if event["type"] == "tool.called":
                await clock.somebody_sleeps(5_000)
                clock.advance(5_000)
    (returned,) = [event for event in events if event["type"] == "tool.returned"]
    (called,) = [event for event in events if event["type"] == "tool.called"]
    assert (returned["call"], returned["ok"]) == (called["call"], False)
    assert "took longer than 5 s" in returned["output"]


async def test_calls_that_a_group_gave_up_have_an_ending(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def model(request: ModelRequest) -> Any:
        if request.agent == "busy":
            begun.set()
            return ModelReply(text="", tool_calls=(ToolRequest(id="1", name="never", arguments="{}"),))
        if request.agent == "slow":
            await asyncio.Event().wait()
        if request.agent == "quick":
            await begun.wait()
            for _ in range(50):
                await asyncio.sleep(0)
        return {"a": "all [GO]", "quick": "here", "z": "over [END]"}[request.agent]

    events = await story_of(tmp_path, RACE, model)
    assert unended(events, "model.called", ("model.replied", "model.failed", "model.cancelled")) == set()
    assert unended(events, "tool.called", ("tool.returned",)) == set()
    assert "slow" in [event["agent"] for event in events if event["type"] == "model.cancelled"]


async def test_a_cancelled_run_ends_what_it_has_begun(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(SLOW_TOOLS, "utf-8")

    async def model(_: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    async with Interlock(tmp_path / "data", models=model, tools=[never]) as box:
        run = await box.start(load_crew(tmp_path, host=Host(tools=("never",))), "go")
        await box.cancel(run.id)
        events = [event async for event in box.runner.follow(run.id)]
    assert unended(events, "model.called", ("model.cancelled",)) == set()
    assert events[-1]["type"] == "run.finished"


@pytest.mark.parametrize("form", ["--json", "--plain"])
def test_the_use_of_a_deprecated_signal_is_an_event_and_in_the_log(tmp_path: Path, form: str) -> None:
    (tmp_path / "crew.yaml").write_text(DEPRECATED, "utf-8")
    (tmp_path / "script.yaml").write_text('replies: {a: ["on\\n[OLD]"], b: ["over\\n[END]"]}', "utf-8")
    asked = ["run", str(tmp_path), "go", "--script", str(tmp_path / "script.yaml"), "--data", str(tmp_path / "d"), form]
    outcome = CliRunner().invoke(interlock, asked)
    assert outcome.exit_code == 0, outcome.output
    told = outcome.stdout if form == "--plain" else outcome.stderr  # a run on show is not logged beside it
    assert "[OLD]" in told
    assert "Use [NEXT] instead" in told
    assert "Use [NEXT] instead" in (tmp_path / "d" / "interlock.log").read_text("utf-8")
    if form == "--json":
        events = [json.loads(line) for line in outcome.stdout.splitlines()]
        (warned,) = [event for event in events if event["type"] == "warning"]
        assert warned["code"] == "deprecated-signal"
        assert "Use [NEXT] instead" in warned["message"]
