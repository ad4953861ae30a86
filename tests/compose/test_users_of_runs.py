"""The user of a run in its journal, tools, sub-crews and continuations; and the epoch of its owner."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, ToolContext, UsageError, load_crew, tool
from interlock.compose.preflight import NAME_CHARS_MAX
from interlock.crew.host import Host
from interlock.testing import Answer, ScriptedModel, ToolCall

OUTER = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [look]}]
sub_crews: {letters: {config_path: letters}}
routing: {signals: {a: [{signal: "[LETTER]", type: sub_crew, target_crew: letters}, {signal: "[END]"}]}}
"""
INNER = """\
version: "2.0"
name: letters
entry_point: x
agents: [{id: x, tools: [look]}]
routing: {signals: {x: [{signal: "[END]"}]}}
"""
LOOK = Answer(tool_calls=(ToolCall("look"),))
REPLIES: dict[str, Any] = {"a": [LOOK, "[LETTER]", "done [END]"], "x": [LOOK, "written [END]"]}


def crew_in(folder: Path) -> Any:
    (folder / "letters").mkdir()
    (folder / "crew.yaml").write_text(OUTER, "utf-8")
    (folder / "letters" / "crew.yaml").write_text(INNER, "utf-8")
    return load_crew(folder, host=Host(tools=("look",)))


async def test_children_and_continued_runs_have_the_user_of_their_run(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    def look(context: ToolContext) -> None:
        seen.append((context.crew, context.agent, context.user))

    crew = crew_in(tmp_path)
    async with Interlock(tmp_path / "data", models=ScriptedModel(REPLIES), tools=[look]) as box:
        run = await box.start(crew, "go", run_id="r", user="ann")
        events = [event async for event in run.events()]
        again = await box.continue_run(crew, "more", "r")
        assert (await again.result()).status == "completed"
        other = await box.continue_run(crew, "more", "r", user="bob")
        assert (await other.result()).status == "completed"
    users = [(event["run"].partition("~")[0], event["user"]) for event in events if event["type"] == "run.started"]
    assert [user for _, user in users] == ["ann", "ann"]
    assert seen == [
        ("desk", "a", user) if n % 2 == 0 else ("letters", "x", user) for user in ("ann", "ann", "bob") for n in (0, 1)
    ]


async def test_a_run_without_a_user_says_nothing_of_one_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    crew, look = crew_in(tmp_path), tool(lambda: "", name="look")
    async with Interlock(tmp_path / "data", models=ScriptedModel(REPLIES), tools=[look]) as box:
        started, *_ = [event async for event in (await box.start(crew, "go")).events()]
        assert "user" not in started
        with pytest.raises(UsageError, match=r"the user of a run must be text \(str\), not int"):
            await box.start(crew, "go", user=7)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="the user of a run has 201 characters; the limit is 200"):
            await box.start(crew, "go", user="u" * (NAME_CHARS_MAX + 1))


async def test_the_epoch_grows_with_each_owner_and_a_crash_before_the_return_writes_nothing(tmp_path: Path) -> None:
    """A tool that writes and dies is called again, and its writes are there once, from the call that returned."""
    seen: list[tuple[str, int, Any]] = []
    hangs = asyncio.Event()

    @tool(idempotent=True)
    async def look(context: ToolContext) -> str:
        seen.append((context.key, context.epoch, context.memory.get("tries")))
        context.memory["tries"] = len(seen)
        if len(seen) == 1:
            hangs.set()
            await asyncio.Event().wait()
        return "seen"

    crew = crew_in(tmp_path)
    async with Interlock(tmp_path / "data", models=ScriptedModel(REPLIES), tools=[look]) as box:
        await box.start(crew, "go", run_id="r")
        await hangs.wait()
    async with Interlock(tmp_path / "data", models=ScriptedModel(REPLIES), tools=[look]) as box:
        assert (await (await box.resume("r")).result()).status == "completed"
        assert (await box.state("r")).memory == {"tries": 3}
    (key, first, before), (again, second, still) = seen[:2]
    assert (key, before, still) == (again, None, None)
    assert second > first
