"""A tool that is tried again after an unknown outcome gets its first key; model calls carry theirs."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.models.openai.providers import ProviderSettings, endpoint_of
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.tools.python_tools import ToolContext, tool
from interlock.compose.crews import load_definition
from interlock.crew.definition import ModelRef
from interlock.crew.host import Host
from interlock.engine.effects import RunTool
from interlock.engine.events import ModelReplied, RunResumed, RunStarted, ToolOutcomeLost, ToolRequest
from interlock.engine.run import Run
from tests.adapters.hostile_server import Asked, hostile_server, replies, said

CREW = """\
version: "2.0"
name: desk
entry_point: clerk
agents: [{id: clerk, tools: [pay]}]
routing: {signals: {clerk: [{signal: "[DONE]"}]}}
"""
ANSWERS: dict[str, Any] = {"clerk": [ScriptedAnswer(tool_calls=(ToolCall("pay"),)), "Paid.\n[DONE]"]}


async def test_retry_keeps_the_idempotency_key(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew, keys = load_definition(tmp_path, host=Host(tools=("pay",))), []
    begun = asyncio.Event()

    @tool
    async def pay(context: ToolContext) -> str:
        """Hangs the first time."""
        keys.append(context.key)
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "done"

    async with Interlock(tmp_path / "data", models=ScriptedModel(ANSWERS), tools=[pay]) as box:
        await box.start(crew, "go", run_id="r")
        await begun.wait()

    async with Interlock(tmp_path / "data", models=ScriptedModel(ANSWERS), tools=[pay]) as box:
        asked = await (await box.resume("r")).result()
        done = await (await box.resume("r", "retry")).result()
        assert [asked.reason, done.status] == ["tool_unknown_outcome", "completed"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize(("rules", "keeps"), [(2, False), (3, True)])
def test_runs_that_were_started_under_older_rules_keep_them(tmp_path: Path, rules: int, keeps: bool) -> None:
    """Their tool may have been given the new key before, so that it gets the same one again."""
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    run = Run(load_definition(tmp_path, host=Host(tools=("pay",))), "r")
    run.apply(RunStarted(crew="desk", input="go", rules=rules))
    request = ToolRequest(id="c", name="pay", arguments="{}")
    replied = ModelReplied(call="1.0", agent="clerk", text="", tool_calls=(request,))
    (order,) = [each for each in run.apply(replied).effects if isinstance(each, RunTool)]
    run.apply(ToolOutcomeLost(call=order.key))
    (again,) = [
        each
        for each in run.apply(RunResumed(token=run.state.waits[0].token, input="retry")).effects
        if isinstance(each, RunTool)
    ]
    assert again.key != order.key
    assert (again.idempotency_key == order.key) == keeps
    assert run.outstanding_effects()[0] == again
    assert Run.restore(run.crew, run.snapshot()).outstanding_effects()[0] == again


async def sent(folder: Path, settings: ProviderSettings) -> list[Asked]:
    text = CREW.replace("tools: [pay]", 'model: "house:m"')
    (folder / "crew.yaml").write_text(text, "utf-8")
    crew = load_definition(folder, host=Host(providers=("house",)))

    async with hostile_server(replies(said("Fine.\n[DONE]"))) as server:
        host = HostSettings(provider_settings={"house": msgspec.structs.replace(settings, url=server.url)})
        async with Interlock(folder / "data", host=host) as box:
            await (await box.start(crew, "go", run_id="r")).result()
        return list(server.asked)


async def test_a_model_call_carries_its_key_where_the_provider_takes_one(tmp_path: Path) -> None:
    (asked,) = await sent(tmp_path, ProviderSettings(idempotency_header="Idempotency-Key"))
    assert "idempotency-key: r:" in asked.head.lower()


async def test_a_server_that_may_refuse_unknown_headers_gets_none(tmp_path: Path) -> None:
    (asked,) = await sent(tmp_path, ProviderSettings())
    assert "idempotency" not in asked.head.lower()


def test_openai_itself_is_sent_the_key_and_nobody_in_its_place() -> None:
    environment = {"OPENAI_API_KEY": "sk-0123456789"}
    own = endpoint_of(ModelRef(provider="openai", model="m"), {}, environment)
    assert own.idempotency_header == "Idempotency-Key"
    proxy = {"openai": ProviderSettings(url="https://proxy.example.org/v1")}
    assert endpoint_of(ModelRef(provider="openai", model="m"), proxy, environment).idempotency_header == ""
    for provider in ("ollama", "vllm", "llama.cpp", "openrouter"):
        there = endpoint_of(ModelRef(provider=provider, model="m"), {}, {"OPENROUTER_API_KEY": "sk-0123456789"})
        assert there.idempotency_header == ""
