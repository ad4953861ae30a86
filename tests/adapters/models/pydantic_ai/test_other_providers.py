"""Providers with clients of their own: what is asked, what comes back, what failures mean. Nothing here is sent."""

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import (
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as WireRequest
from pydantic_ai.models import infer_model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel as SilentModel
from pydantic_ai.settings import ModelSettings

from interlock.adapters.config.extras import install_line
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.providers import BUILT_IN
from interlock.adapters.models.pydantic_ai import other_providers
from interlock.adapters.models.pydantic_ai.models import PydanticAIModel
from interlock.adapters.models.pydantic_ai.other_providers import OTHER_PROVIDERS, OtherProviderModel, install_command
from interlock.adapters.tools.tool_names import fit_name
from interlock.compose.crews import load_definition
from interlock.compose.interlock import Interlock, Result
from interlock.crew.definition import ModelRef
from interlock.crew.host import PROVIDERS
from interlock.engine.events import ToolRequest
from interlock.engine.state import TurnMessage
from interlock.errors import ModelRefused, ModelUnavailable, PortError, PromptTooLong, UsageError
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, ToolSchema

KEY = "sk-ant-0123456789abcdef"
CLAUDE = ModelRef(provider="anthropic", model="claude-sonnet-4-5")
KEYS = KnownSecrets([KEY])
Streamed = AsyncIterator[str | dict[int, DeltaToolCall]]


def request(*messages: TurnMessage, **parts: Any) -> ModelRequest:
    said = messages or (TurnMessage(role="user", text="hi"),)
    return ModelRequest(key="run/call/1", agent="a", number=1, system="be kind", messages=said, **parts)


async def heard(
    model: PydanticAIModel | OtherProviderModel, call: ModelRequest
) -> list[Delta | ReasoningDelta | ModelReply]:
    return [piece async for piece in model.reply(call)]


async def asked(
    stream: Callable[[list[ModelMessage], AgentInfo], Streamed], call: ModelRequest
) -> list[Delta | ReasoningDelta | ModelReply]:
    return await heard(PydanticAIModel(FunctionModel(stream_function=stream), CLAUDE, KEYS), call)


def last(pieces: list[Delta | ReasoningDelta | ModelReply]) -> ModelReply:
    assert isinstance(pieces[-1], ModelReply)
    return pieces[-1]


async def two_pieces(_messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
    yield "two "
    yield "more"


def test_every_provider_has_a_client() -> None:
    """Those that speak OpenAI's chat completions have ours, scripts need none."""
    assert set(OTHER_PROVIDERS) == set(PROVIDERS) - set(BUILT_IN) - {"local", "scripted"}


async def test_text_comes_in_pieces_and_then_whole_with_what_it_took() -> None:
    pieces = await asked(two_pieces, request())
    assert pieces[:-1] == [Delta("two "), Delta("more")]
    reply = last(pieces)
    assert reply.text == "two more" and not reply.tool_calls and not reply.constrained
    assert reply.usage.input_tokens > 0 and reply.usage.output_tokens > 0


async def test_a_conversation_is_shown_as_it_was() -> None:
    shown: list[ModelMessage] = []

    async def look(messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
        shown.extend(messages)
        yield "seen"

    calls = tuple(
        ToolRequest(id=f"run/x/{n}", name="mcp:shop/find", arguments=a) for n, a in enumerate(('{"q":1}', "no"))
    )
    await asked(
        look,
        request(
            TurnMessage(role="user", text="one"),
            TurnMessage(role="user", text="two"),
            TurnMessage(role="assistant", text="let me see", tool_calls=calls),
            TurnMessage(role="tool", text="found", tool_call="run/x/0"),
            TurnMessage(role="tool", text="bad arguments", tool_call="run/x/1"),
            TurnMessage(role="user", text="and \ud800?"),
        ),
    )
    first, reply, rest = shown
    assert isinstance(first, WireRequest) and isinstance(reply, ModelResponse) and isinstance(rest, WireRequest)
    # The mark is at the end of what the call before showed.
    assert [part.content for part in first.parts if isinstance(part, UserPromptPart)] == ["one", "two", [CachePoint()]]
    assert reply.parts[0] == TextPart("let me see")
    tools = [(c.tool_name, c.args, c.tool_call_id) for c in reply.parts if isinstance(c, ToolCallPart)]
    assert tools == [(fit_name("mcp:shop/find"), '{"q":1}', "call_0"), (fit_name("mcp:shop/find"), "{}", "call_1")]
    outputs = [(r.tool_name, r.content, r.tool_call_id) for r in rest.parts if isinstance(r, ToolReturnPart)]
    assert outputs == [
        (fit_name("mcp:shop/find"), "found", "call_0"),
        (fit_name("mcp:shop/find"), "bad arguments", "call_1"),
    ]
    assert isinstance(rest.parts[-1], UserPromptPart) and rest.parts[-1].content == "and ??"
    assert (first.instructions, rest.instructions) == (None, "be kind")


async def test_tools_are_offered_and_called_by_their_own_names() -> None:
    offered: list[str] = []

    async def call_it(_messages: list[ModelMessage], info: AgentInfo) -> Streamed:
        offered.extend(tool.name for tool in info.function_tools)
        yield {0: DeltaToolCall(name=fit_name("mcp:shop/find"), json_args='{"q": ', tool_call_id="toolu_1")}
        yield {0: DeltaToolCall(json_args='"tea"}')}
        yield {1: DeltaToolCall(name="nobody", json_args="{", tool_call_id="toolu_2")}

    tool = ToolSchema(name="mcp:shop/find", description="finds", parameters={"type": "object", "properties": {}})
    reply = last(await asked(call_it, request(tools=(tool,))))
    assert offered == [fit_name("mcp:shop/find")]
    assert reply.tool_calls == (
        ToolRequest(id="toolu_1", name="mcp:shop/find", arguments='{"q": "tea"}'),
        ToolRequest(id="toolu_2", name="nobody", arguments="{"),
    )


def test_arguments_that_come_as_an_object_are_json_again() -> None:
    model = PydanticAIModel(SilentModel(), CLAUDE, KEYS)
    calls = model._reply(
        request(), ModelResponse(parts=[ToolCallPart("find", {"q": 1}), ToolCallPart("now")])
    ).tool_calls
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("find", {"q": 1}), ("now", {})]


async def test_a_key_in_a_reply_is_hidden_even_where_pieces_cut_it() -> None:
    async def leak(_messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
        yield f"it is {KEY[:9]}"
        yield f"{KEY[9:]}!"

    pieces = await asked(leak, request())
    assert last(pieces).text == "it is [redacted]!"
    assert "".join(piece.text for piece in pieces[:-1]) == "it is [redacted]!"


def http(status: int, words: str = f"your key {KEY} is bad", **more: Any) -> ModelHTTPError:
    return ModelHTTPError(status, "m", {"type": "error", "error": {"type": "x", "message": words}}, **more)


def categorised(
    status: int, category: type[ModelQuotaExceededError] | type[ModelContextWindowExceededError]
) -> ModelHTTPError:
    return ModelHTTPError.for_category(category, status_code=status, model_name="m")


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (http(429, "slow down"), ModelUnavailable, "anthropic:claude-sonnet-4-5 answered 429: slow down"),
        (http(529, "overloaded"), ModelUnavailable, "answered 529: overloaded"),
        (http(500), ModelUnavailable, "your key [redacted] is bad"),
        (http(400, "prompt is too long: 9 tokens > 8 maximum"), PromptTooLong, "prompt is too long"),
        (http(401), ModelRefused, "your key [redacted] is bad; check the key"),
        (http(404, "no such model"), ModelRefused, "answered 404: no such model"),
        (categorised(400, ModelContextWindowExceededError), PromptTooLong, "answered 400"),
        (categorised(429, ModelQuotaExceededError), ModelRefused, "answered 429"),
        (ModelConnectionError("m", f"reset while sending {KEY}"), ModelUnavailable, "reset while sending [redacted]"),
        (UnexpectedModelBehavior("nonsense"), ModelUnavailable, "nonsense"),
        (ZeroDivisionError(KEY), ModelRefused, "ZeroDivisionError: [redacted]"),
    ],
)  # fmt: skip
async def test_failures_say_whether_to_try_again_and_never_a_key(error: Exception, kind: type, says: str) -> None:
    async def fail(_messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
        yield "half of "
        raise error

    with pytest.raises(PortError) as failed:
        await asked(fail, request())
    assert type(failed.value) is kind
    assert says in str(failed.value) and KEY not in str(failed.value)


async def test_a_provider_that_names_a_wait_is_believed() -> None:
    async def fail(_messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
        yield ""
        raise http(429, headers={"Retry-After": "7"})

    with pytest.raises(ModelUnavailable) as failed:
        await asked(fail, request())
    assert failed.value.retry_after_ms == 7000


async def test_whoever_stops_listening_ends_the_stream() -> None:
    ended: list[bool] = []

    async def endless(_messages: list[ModelMessage], _info: AgentInfo) -> Streamed:
        try:
            while True:
                yield "more "
        finally:
            ended.append(True)

    pieces = PydanticAIModel(FunctionModel(stream_function=endless), CLAUDE, KEYS).reply(request())
    assert isinstance(pieces, AsyncGenerator)
    assert await anext(pieces) == Delta("more ")
    await pieces.aclose()
    assert ended == [True]


def test_without_the_packages_the_command_that_installs_them_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_command("anthropic") == install_command("scripted") == ""
    monkeypatch.setattr(other_providers, "is_installed", lambda module: module != "pydantic_ai")
    assert install_command("anthropic") == install_line("llm")
    assert install_command("groq") == install_line("llm", "pydantic-ai-slim[groq]")
    with pytest.raises(ModelRefused, match=r"pip install .*\[llm\]"):
        OtherProviderModel(CLAUDE, KEYS)


def test_a_crew_file_cannot_send_a_key_elsewhere() -> None:
    with pytest.raises(ModelRefused, match="would send its key there"):
        OtherProviderModel(ModelRef(provider="anthropic", model="m", provider_url="https://evil.example"), KEYS)


async def test_a_missing_key_is_said_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelRefused, match="ANTHROPIC_API_KEY") as refused:
        await heard(OtherProviderModel(CLAUDE, KEYS), request())
    assert "Pydantic AI" not in str(refused.value)


def crew_of_claude(folder: Path, settings: str = "") -> Path:
    (folder / "crew.yaml").write_text(
        'version: "2.0"\nname: talk\nentry_point: a\n'
        "agents: [{id: a, model: 'anthropic:claude-sonnet-4-5', is_terminal: true, temperature: 0, top_k: 7}]\n"
        f"settings: {{{settings}}}\n",
        "utf-8",
    )
    return folder


async def run_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, list[ModelSettings | None]]:
    from interlock.adapters.models.pydantic_ai import models

    asked: list[ModelSettings | None] = []

    async def answer(_messages: list[ModelMessage], info: AgentInfo) -> Streamed:
        asked.append(info.model_settings)
        yield "fine"

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr(models, "infer_model", lambda _name: FunctionModel(stream_function=answer))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-nobody-1")
    async with Interlock(folder / "data") as box:
        return await (await box.start(load_definition(folder), "hi")).result(), asked


async def test_a_crew_runs_on_such_a_provider_and_what_it_cost_is_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, (settings,) = await run_of(crew_of_claude(tmp_path), monkeypatch)
    assert result.output == "fine" and result.usage.cost_micros > 0
    assert settings is not None and (settings["temperature"], settings["top_k"]) == (0, 7)


async def test_a_cost_budget_holds_before_the_call_by_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, asked = await run_of(crew_of_claude(tmp_path, "max_cost_per_call: 0.000001"), monkeypatch)
    assert (result.reason, asked) == ("budget:cost", [])


async def test_a_run_is_not_begun_where_packages_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = load_definition(crew_of_claude(tmp_path))
    monkeypatch.setattr(other_providers, "is_installed", lambda _module: False)

    with pytest.raises(UsageError, match=r"agent 'a' of crew 'talk'.*pip install .*\[llm\]"):
        async with Interlock(tmp_path / "data") as box:
            await box.start(crew, "hi")


async def test_a_run_is_not_begun_where_the_key_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    async with Interlock(tmp_path / "data") as box:
        with pytest.raises(UsageError, match=r"agent 'a' of .* set the environment variable ANTHROPIC"):
            await box.start(load_definition(crew_of_claude(tmp_path)), "hi")
        assert list(await box.journal.rows()) == []


async def test_the_real_client_is_closed_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    client = infer_model("anthropic:claude-sonnet-4-5")
    assert client.provider is not None and "max_retries" not in client.unsupported_settings

    model = PydanticAIModel(client, CLAUDE, KEYS)
    await model._open()
    await model.close()
    assert client.provider.client.is_closed()
    assert "anthropic" in sys.modules
