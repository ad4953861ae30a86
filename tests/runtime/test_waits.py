"""Open waits, and the tokens that answer them."""

import asyncio
import textwrap
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.crew.host import Host
from interlock.engine.events import ToolRequest
from interlock.errors import NotWaiting
from interlock.ports import ModelReply, ModelRequest

TEAM = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, name: Ann}, {id: b, name: Bob, tools: [pay]}, {id: c, name: Cleo, tools: [pay]}]
routing:
  signals:
    a: [{signal: "[FAN]", type: parallel, target: team}, {signal: "[END]"}]
  parallel_groups:
    team: {agents: [b, c], next_agent: a}
"""


def talk(request: ModelRequest) -> ModelReply:
    if request.agent == "a":
        return ModelReply(text="both of you [FAN]" if request.number == 1 else "thanks [END]")
    if request.messages[-1].role == "tool":
        return ModelReply(text=f"{request.agent} paid")
    return ModelReply(text="", tool_calls=(ToolRequest(id=f"call-{request.agent}", name="pay", arguments="{}"),))


async def test_resume_without_a_token_is_refused_when_more_than_one_wait_is_open(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(textwrap.dedent(TEAM), "utf-8")
    data, started = tmp_path / "data", []

    both = asyncio.Event()

    async def pay() -> str:
        """Hangs in the first process."""
        started.append("pay")
        if len(started) > 2:
            return "paid"
        if len(started) == 2:
            both.set()
        await asyncio.Event().wait()
        return "never"

    async with Interlock(data, models=talk, tools=[pay]) as box:
        run = (await box.start(load_crew(tmp_path, host=Host(tools=("pay",))), "go")).id
        await both.wait()

    async with Interlock(data, models=talk, tools=[pay]) as box:
        handle = await box.resume(run)
        assert (await handle.result()).reason == "tool_unknown_outcome"
        tokens = [wait.token for wait in (await box.state(run)).waits]
        assert len(tokens) == 2
        with pytest.raises(NotWaiting, match=tokens[0]):
            await box.resume(run, "retry")
        for token in tokens:
            handle = await box.resume(run, "retry", token=token)
        assert (await handle.result()).output == "thanks [END]"


async def test_an_answer_to_a_run_that_is_over_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    crew = 'version: "2.0"\nname: c\nentry_point: a\nagents: [{id: a}]\nrouting: {signals: {a: [{signal: "[END]"}]}}\n'
    (tmp_path / "crew.yaml").write_text(crew, "utf-8")

    async with Interlock(tmp_path / "data", models=lambda request: "[END]") as box:
        run = await box.start(load_crew(tmp_path), "go")
        first = await run.result()
        for token in (None, f"{run.id}:1", "nonsense"):
            with pytest.raises(NotWaiting, match="is not waiting for input"):
                await box.resume(run.id, "more", token=token)
        assert (first.status, await box.result(run.id)) == ("completed", first)
        assert len(await box.journal.records(run.id)) == 2
