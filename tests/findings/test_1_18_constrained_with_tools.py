"""`signal_mode: constrained` with tools works where a server can do both, and is a problem at `check` elsewhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.constrained_decoding import SCHEMA
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.cli.main import interlock
from interlock.engine.prompt.grammar import ending_in
from interlock.engine.state import TurnMessage
from interlock.errors import ModelRefused
from interlock.ports import ModelReply, ModelRequest, ToolSchema
from tests.adapters.hostile_server import answers, hostile_server, replies, said, tool_pieces

CREW = """\
version: "{version}"
name: desk
entry_point: clerk
agents: [{{id: clerk, model: "{model}", tools: [{tools}]}}]
routing: {{signals: {{clerk: [{{signal: "[DONE]"}}]}}}}
settings: {{signal_mode: constrained}}
"""


def problems(folder: Path, model: str, tools: str = "memory_read", version: str = "2.0") -> list[tuple[str, str]]:
    (folder / "crew.yaml").write_text(CREW.format(model=model, tools=tools, version=version), "utf-8")
    words = ["check", str(folder), "--json", "--config", str(folder / "interlock.toml")]
    found = json.loads(CliRunner().invoke(interlock, words).stdout)["problems"]
    return [(each["severity"], each["message"]) for each in found if each["code"] == "not-constrained"]


@pytest.fixture(autouse=True)
def _toml(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text("", "utf-8")


@pytest.mark.parametrize("model", ["ollama:m", "llama.cpp:m", "vllm:m", "local:smollm2", "openrouter:a/b"])
def test_a_server_that_cannot_do_both_is_a_problem_at_check(tmp_path: Path, model: str) -> None:
    ((severity, message),) = problems(tmp_path, model)
    assert severity == "error"
    assert f"{model} cannot call tools in a constrained reply" in message
    assert [severity for severity, _ in problems(tmp_path, model, version="1.0")] == ["warning"]
    assert problems(tmp_path, model, tools="") == []


def test_a_server_that_can_is_none(tmp_path: Path) -> None:
    assert problems(tmp_path, "openai:gpt-5") == []
    (tmp_path / "interlock.toml").write_text("[providers.vllm]\nconstrains_with_tools = true\n", "utf-8")
    assert problems(tmp_path, "vllm:m") == []


def test_another_server_in_the_place_of_one_that_can_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_text('[providers.openai]\nurl = "https://proxy.example.org/v1"\n', "utf-8")
    assert [severity for severity, _ in problems(tmp_path, "openai:gpt-5")] == ["error"]


def test_a_provider_that_constrains_nothing_is_named_too(tmp_path: Path) -> None:
    ((severity, message),) = problems(tmp_path, "anthropic:claude", tools="")
    assert (severity, "is not known to constrain its replies" in message) == ("warning", True)


def request_of(*, with_tools: bool = True) -> ModelRequest:
    tools = (ToolSchema(name="look", description="", parameters={"type": "object"}),)
    return ModelRequest(
        key="r:1.0",
        agent="clerk",
        number=1,
        system="",
        messages=(TurnMessage(role="user", text="hi"),),
        tools=tools if with_tools else (),
        ending=ending_in(("[DONE]",)),
    )


async def asked(*bodies: bytes) -> tuple[list[ModelReply], list[dict[str, Any]]]:
    async with hostile_server(*(replies(body) for body in bodies)) as server:
        endpoint = Endpoint(server=Server("s"), url=server.url, constrains=SCHEMA, constrains_with_tools=True)
        model = OpenAICompatibleModel(endpoint, "m")
        found = [[piece async for piece in model.reply(request_of())] for _ in bodies]
        await model.close()
        whole = [piece for pieces in found for piece in pieces if isinstance(piece, ModelReply)]
        return whole, [each.body for each in server.asked]


async def test_the_reply_that_ends_the_turn_is_held_and_one_that_calls_tools_is_free() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    (calls, ends), bodies = await asked(tool_pieces(call), said('{"text": "Fine.", "signal": "[DONE]"}'))
    assert ([each.name for each in calls.tool_calls], calls.text) == (["look"], "")
    assert (ends.text, ends.constrained) == ("Fine.\n[DONE]", True)
    for body in bodies:
        assert body["tools"]
        assert body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("status", "tools", "advice"),
    [
        ("400 Bad Request", True, "; this call has tools and a reply constrained to its signals: "),
        ("422 Unprocessable Content", False, "; this call constrains the reply to its signals: "),
        ("401 Unauthorized", True, ""),
    ],
)
async def test_a_server_that_refuses_both_at_run_time_is_reported_with_what_to_do(
    status: str, tools: bool, advice: str
) -> None:
    refused = answers(status, b'{"error": {"message": "response_format is not supported"}}')

    async with hostile_server(refused) as server:
        endpoint = Endpoint(server=Server("s"), url=server.url, constrains=SCHEMA, constrains_with_tools=True)
        model = OpenAICompatibleModel(endpoint, "m")
        with pytest.raises(ModelRefused) as refusal:
            _ = [piece async for piece in model.reply(request_of(with_tools=tools))]
        await model.close()
        told = str(refusal.value)
    assert f"answered {status[:3]}: response_format is not supported{advice}" in told
    assert ("'signal_mode: text'" in told) == bool(advice)
