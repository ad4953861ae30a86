"""The client against strict stand-ins of three dialects: what it sends is taken, what they give comes back whole."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from interlock.adapters.config.known_secrets import REDACTED, KnownSecrets
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.endpoint import CHAT, RESPONSES, CallLimits, Endpoint, Server
from interlock.adapters.models.openai.providers import BUILT_IN
from interlock.crew.definition import NO_MODEL_SETTINGS, ModelSettings
from interlock.engine.events import ReasoningBlock, ToolRequest, Usage
from interlock.engine.prompt.grammar import ending_in
from interlock.engine.prompt.typed_reply import TypedReply
from interlock.engine.state import TurnMessage
from interlock.errors import ModelRefused, ModelUnavailable, ReplyCutShort, ReplyTooLarge
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, ToolSchema
from tests.adapters.strict_schemas import instance_of
from tests.adapters.test_typed_output import SCHEMAS, WITHOUT_FORM, valid, value_of
from tests.fakes.dialects.deepseek import DeepSeek
from tests.fakes.dialects.features import DEEPSEEK, OPENAI_CHAT, OPENAI_RESPONSES, shows
from tests.fakes.dialects.openai_chat import KEY, OpenAIChat
from tests.fakes.dialects.openai_responses import OpenAIResponses
from tests.fakes.dialects.server import Call, DialectServer, Refusal, Say, Tokens, Use

LOOK = ToolSchema(
    name="mcp:shop/look",
    description="looks for a thing",
    parameters={"type": "object", "properties": {"what": {"type": "string"}, "most": {"type": "integer"}}},
)
MODELS: dict[type[DialectServer], str] = {OpenAIChat: "gpt-5", OpenAIResponses: "gpt-5", DeepSeek: "deepseek-v4-pro"}
PATIENCE_SECONDS = 20


def model_at(server: DialectServer, name: str = "", limits: CallLimits = CallLimits()) -> OpenAICompatibleModel:  # noqa: B008
    provider = "deepseek" if isinstance(server, DeepSeek) else "openai"
    facts = BUILT_IN[provider]
    endpoint = Endpoint(
        server=Server(f"{provider} here"),
        url=server.url,
        key=KEY,
        api=RESPONSES if isinstance(server, OpenAIResponses) else CHAT,
        provider=provider,
        source=provider,
        limits=limits,
        constrains=facts.constrains,
        constrains_with_tools=facts.constrains_with_tools,
        outputs=facts.outputs,
        idempotency_header=facts.idempotency_header,
    )
    return OpenAICompatibleModel(endpoint, name or MODELS[type(server)], keys=KnownSecrets([KEY]))


def asking(*messages: TurnMessage, settings: ModelSettings = NO_MODEL_SETTINGS, **more: Any) -> ModelRequest:
    told = messages or (TurnMessage(role="user", text="hi"),)
    return ModelRequest(key="r:1", agent="a", number=1, system="Be kind.", messages=told, settings=settings, **more)


async def pieces_of(model: OpenAICompatibleModel, request: ModelRequest) -> list[Delta | ReasoningDelta | ModelReply]:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [piece async for piece in model.reply(request)]
    finally:
        await model.close()


async def reply_of(server: DialectServer, request: ModelRequest, name: str = "") -> ModelReply:
    reply = (await pieces_of(model_at(server, name), request))[-1]
    assert isinstance(reply, ModelReply)
    return reply


def after(reply: ModelReply, *outputs: str) -> list[TurnMessage]:
    """The reply and the outputs of its tools, as the journal gives them back."""
    said = TurnMessage(role="assistant", text=reply.text, tool_calls=reply.tool_calls, reasoning=reply.reasoning)
    told = [
        TurnMessage(role="tool", text=text, tool_call=call.id)
        for call, text in zip(reply.tool_calls, outputs, strict=True)
    ]
    return msgspec.json.decode(msgspec.json.encode([said, *told]), type=list[TurnMessage])


# Reasoning


@shows("streaming", OPENAI_CHAT, OPENAI_RESPONSES, DEEPSEEK)
@pytest.mark.parametrize("dialect", MODELS)
async def test_text_comes_in_pieces_and_then_whole(dialect: type[DialectServer]) -> None:
    with dialect(Say(text="Good day to you.")) as server:
        *pieces, reply = await pieces_of(model_at(server), asking())
    assert "".join(piece.text for piece in pieces if isinstance(piece, Delta)) == "Good day to you."
    assert isinstance(reply, ModelReply) and (reply.text, reply.tool_calls) == ("Good day to you.", ())


@shows("reasoning shown", OPENAI_RESPONSES, DEEPSEEK)
@pytest.mark.parametrize("dialect", [OpenAIResponses, DeepSeek])
async def test_reasoning_is_shown_and_is_no_text(dialect: type[DialectServer]) -> None:
    with dialect(Say(text="Four.", reasoning="Two and two [END] is four.")) as server:
        *pieces, reply = await pieces_of(model_at(server), asking(settings=told_thoughts(dialect)))
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningDelta)) == "Two and two [END] is four."
    assert isinstance(reply, ModelReply) and reply.text == "Four."
    assert [block.text for block in reply.reasoning] == ["Two and two [END] is four."]
    assert {block.provider for block in reply.reasoning} == {server_source(server)}


def told_thoughts(dialect: type[DialectServer]) -> ModelSettings:
    """Settings by which a provider tells its thoughts: Responses have a summary of them for those who ask."""
    return ModelSettings(extra={"reasoning": {"summary": "auto"}} if dialect is OpenAIResponses else {})


async def test_responses_tell_no_thoughts_unless_asked_and_get_them_back_all_the_same() -> None:
    look = Say(reasoning="Hm.", uses=(Use(name="mcp_shop_look"),))
    with OpenAIResponses(look, Say(text="Fine.")) as server:
        *pieces, reply = await pieces_of(model_at(server), asking(tools=(LOOK,)))
        assert isinstance(reply, ModelReply)
        await reply_of(server, asking(TurnMessage(role="user", text="hi"), *after(reply, "x"), tools=(LOOK,)))
    assert (pieces, [block.text for block in reply.reasoning]) == ([], [""])
    assert server.requests[1]["input"][1]["encrypted_content"]


def server_source(server: DialectServer) -> str:
    return "deepseek" if isinstance(server, DeepSeek) else "openai"


async def five_rounds(dialect: type[DialectServer]) -> DialectServer:
    """Each round reasons and calls a tool; the last one replies."""
    rounds = [Say(reasoning=f"Round {n}, again.", uses=(Use(name="mcp_shop_look"),)) for n in range(5)]
    messages = [TurnMessage(role="user", text="go")]
    with dialect(*rounds, Say(text="Found.\n[DONE]", reasoning="At last.")) as server:
        for n in range(5):
            messages += after(await reply_of(server, asking(*messages, tools=(LOOK,))), f"nothing {n}")
        reply = await reply_of(server, asking(*messages, tools=(LOOK,)))
    assert (reply.text, server.refusals) == ("Found.\n[DONE]", [])
    return server


@shows("tools", OPENAI_CHAT)
async def test_five_rounds_of_tools_are_taken() -> None:
    assert "Round" not in msgspec.json.encode((await five_rounds(OpenAIChat)).requests).decode()


@shows("tools", OPENAI_RESPONSES, DEEPSEEK)
@shows("reasoning sent back", OPENAI_RESPONSES, DEEPSEEK)
@pytest.mark.parametrize("dialect", [OpenAIResponses, DeepSeek])
async def test_five_rounds_of_tools_with_reasoning_are_taken(dialect: type[DialectServer]) -> None:
    last = msgspec.json.encode((await five_rounds(dialect)).requests[-1]).decode()
    assert [last.count(f"Round {n}, again.") for n in range(5)] == [1] * 5


@shows("parallel tools", OPENAI_CHAT, OPENAI_RESPONSES, DEEPSEEK)
@pytest.mark.parametrize("dialect", MODELS)
async def test_several_calls_in_one_reply_beside_text(dialect: type[DialectServer]) -> None:
    uses = (Use(name="mcp_shop_look", arguments={"what": "lamp"}), Use(name="mcp_shop_look", arguments={"most": 2}))
    with dialect(Say(text="Let me look.", reasoning="Twice.", uses=uses), Say(text="Two.")) as server:
        first = await reply_of(server, asking(tools=(LOOK,)))
        messages = [TurnMessage(role="user", text="hi"), *after(first, "one", "another")]
        last = await reply_of(server, asking(*messages, tools=(LOOK,)))
    assert [call.arguments for call in first.tool_calls] == ['{"what": "lamp"}', '{"most": 2}']
    assert (first.text, last.text, server.refusals) == ("Let me look.", "Two.", [])


@pytest.mark.parametrize("dialect", [OpenAIResponses, DeepSeek])
@pytest.mark.parametrize("lies", ["missing", "altered"])
async def test_the_stand_ins_refuse_a_call_without_its_reasoning(dialect: type[DialectServer], lies: str) -> None:
    with dialect(Say(reasoning="Look first.", uses=(Use(name="mcp_shop_look"),))) as server:
        reply = await reply_of(server, asking(tools=(LOOK,)))
        told = after(reply, "a lamp")
        blocks = () if lies == "missing" else tuple(map(altered, told[0].reasoning))
        told[0] = msgspec.structs.replace(told[0], reasoning=blocks)
        with pytest.raises(ModelRefused, match="400"):
            await reply_of(server, asking(TurnMessage(role="user", text="hi"), *told, tools=(LOOK,)))
    assert len(server.refusals) == 1


def altered(block: ReasoningBlock) -> ReasoningBlock:
    items = msgspec.json.decode(block.data or "[]")
    changed = [{**item, "encrypted_content": "x"} if item["type"] == "reasoning" else item for item in items]
    return msgspec.structs.replace(block, text=f"{block.text}!", data=msgspec.json.encode(changed).decode())


async def test_reasoning_of_another_provider_is_not_sent() -> None:
    call = ToolRequest(id="x" * 90, name="mcp:shop/look", arguments="{}")
    blocks = (
        ReasoningBlock(provider="anthropic", kind="thinking", text="secret thoughts", data="sig"),
        ReasoningBlock(provider="openrouter", kind="reasoning_content", text="secret thoughts"),
        ReasoningBlock(provider="", kind="reasoning_content", text="secret thoughts"),
    )
    said = TurnMessage(role="assistant", text="", tool_calls=(call,), reasoning=blocks)
    messages = [TurnMessage(role="user", text="hi"), said, TurnMessage(role="tool", text="a lamp", tool_call=call.id)]
    for dialect in MODELS:
        with dialect(Say(text="Fine.")) as server:
            assert (await reply_of(server, asking(*messages, tools=(LOOK,)))).text == "Fine."
            assert "secret thoughts" not in msgspec.json.encode(server.requests).decode()


async def test_a_reasoning_item_that_nothing_follows_any_more_stays_out() -> None:
    """A hook of the host may have taken the call away."""
    with OpenAIResponses(Say(reasoning="Hm.", uses=(Use(name="mcp_shop_look"),)), Say(text="Fine.")) as server:
        reply = await reply_of(server, asking(tools=(LOOK,)))
        gone = TurnMessage(role="assistant", text="", reasoning=reply.reasoning)
        again = TurnMessage(role="user", text="again")
        await reply_of(server, asking(TurnMessage(role="user", text="hi"), gone, again, tools=(LOOK,)))
    assert [item.get("type") for item in server.requests[1]["input"]] == [None, None]


async def test_the_items_of_a_reply_go_back_in_their_order_and_with_their_ids() -> None:
    uses = (Use(name="mcp_shop_look"),)
    with OpenAIResponses(
        Say(text="Wait.", reasoning="Hm.", uses=uses, extra={"phase": "commentary"}), Say(text="Fine.")
    ) as server:
        reply = await reply_of(server, asking(tools=(LOOK,), settings=told_thoughts(OpenAIResponses)))
        await reply_of(server, asking(TurnMessage(role="user", text="hi"), *after(reply, "x"), tools=(LOOK,)))
    _, reasoning, message, call, output = server.requests[1]["input"]
    assert (reasoning["id"], reasoning["summary"][0]["text"]) == ("rs_1", "Hm.")
    assert (message["id"], message["phase"], message["content"][0]["text"]) == ("msg_1", "commentary", "Wait.")
    assert (call["id"], call["call_id"], output["call_id"]) == ("fc_1_0", *[reply.tool_calls[0].id] * 2)


@pytest.mark.parametrize("dialect", [OpenAIResponses, DeepSeek])
async def test_a_secret_in_reasoning_is_redacted_wherever_the_stream_cuts_it(dialect: type[DialectServer]) -> None:
    with dialect(Say(text="Fine.", reasoning=f"The key is {KEY}, they say.")) as server:
        *pieces, reply = await pieces_of(model_at(server), asking(settings=told_thoughts(dialect)))
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningDelta)) == f"The key is {REDACTED}, they say."
    assert isinstance(reply, ModelReply) and KEY not in msgspec.json.encode(reply.reasoning).decode()


async def test_reasoning_counts_as_text() -> None:
    with DeepSeek(Say(text="Fine.", reasoning="x" * 5_000)) as server, pytest.raises(ReplyTooLarge):
        await pieces_of(model_at(server, limits=CallLimits(reply_bytes_max=4_000)), asking())


# Settings

ALL = ModelSettings(max_tokens=900, parallel_tool_calls=False, service_tier="flex", extra={"verbosity": "low"})


@shows("max_tokens", OPENAI_CHAT)
@shows("seed", OPENAI_CHAT)
@shows("parallel_tool_calls", OPENAI_CHAT)
@shows("service_tier", OPENAI_CHAT)
@shows("extra", OPENAI_CHAT)
@shows("reasoning", OPENAI_CHAT)
async def test_openai_gets_the_settings_by_its_own_names() -> None:
    settings = msgspec.structs.replace(ALL, reasoning="low", seed=7)
    with OpenAIChat(Say(text="Fine.")) as server:
        await reply_of(server, asking(settings=settings, tools=(LOOK,)))
    assert settings_in(server.requests[0]) == {
        "max_completion_tokens": 900,
        "reasoning_effort": "low",
        "seed": 7,
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "verbosity": "low",
    }


def settings_in(body: dict[str, Any]) -> dict[str, Any]:
    usual = ("model", "messages", "input", "instructions", "stream", "stream_options", "store", "include", "tools")
    return {name: value for name, value in body.items() if name not in usual}


@shows("stop", OPENAI_CHAT)
async def test_a_model_that_does_not_reason_takes_stop_and_no_effort() -> None:
    settings = ModelSettings(reasoning="off", stop=("\n\n", "END"), max_tokens=5)
    with OpenAIChat(Say(text="Fine.")) as server:
        await reply_of(server, asking(settings=settings), "gpt-4o")
    assert settings_in(server.requests[0]) == {"max_completion_tokens": 5, "stop": ["\n\n", "END"]}


@shows("max_tokens", OPENAI_RESPONSES)
@shows("parallel_tool_calls", OPENAI_RESPONSES)
@shows("service_tier", OPENAI_RESPONSES)
@shows("extra", OPENAI_RESPONSES)
@shows("reasoning", OPENAI_RESPONSES)
async def test_responses_get_the_settings_by_their_own_names() -> None:
    extra = {"text": {"verbosity": "low"}, "reasoning": {"summary": "auto"}}
    settings = msgspec.structs.replace(ALL, reasoning="high", extra=extra)
    with OpenAIResponses(Say(text="Fine."), Say(text="Fine.")) as server:
        await reply_of(server, asking(settings=settings, tools=(LOOK,)))
        await reply_of(server, asking(settings=ModelSettings(reasoning="off")), "gpt-4o")
    assert settings_in(server.requests[0]) == {
        "max_output_tokens": 900,
        "reasoning": {"effort": "high", "summary": "auto"},
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "text": {"verbosity": "low"},
    }
    assert settings_in(server.requests[1]) == {} and "include" not in server.requests[1]


@shows("max_tokens", DEEPSEEK)
@shows("stop", DEEPSEEK)
@shows("extra", DEEPSEEK)
@shows("reasoning", DEEPSEEK)
async def test_deepseek_gets_the_settings_by_its_own_names() -> None:
    settings = ModelSettings(reasoning="high", max_tokens=9, stop=("END",), extra={"user_id": "u"})
    with DeepSeek(Say(text="Fine."), Say(text="Fine.")) as server:
        await reply_of(server, asking(settings=settings))
        await reply_of(server, asking(settings=ModelSettings(reasoning="off")))
    on = {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}
    assert settings_in(server.requests[0]) == {"max_tokens": 9, "stop": ["END"], "user_id": "u", **on}
    assert settings_in(server.requests[1]) == {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize("extra", [{"model": "x"}, {"stream": False}, {"reasoning_effort": "high"}])
async def test_extra_never_replaces_a_field(extra: dict[str, Any]) -> None:
    settings = ModelSettings(reasoning="low", extra=extra)
    with OpenAIChat() as server, pytest.raises(ModelRefused, match="extra has"):
        await reply_of(server, asking(settings=settings))
    assert server.calls == []


# What it took


@shows("implicit cache", OPENAI_CHAT, OPENAI_RESPONSES, DEEPSEEK)
@shows("cache usage", OPENAI_CHAT, OPENAI_RESPONSES, DEEPSEEK)
@pytest.mark.parametrize("dialect", MODELS)
async def test_cached_and_reasoned_tokens_are_counted(dialect: type[DialectServer]) -> None:
    took = Tokens(input=1_000, output=90, cache_read=960, reasoning=64)
    with dialect(Say(text="Fine.", tokens=took)) as server:
        reply = await reply_of(server, asking())
    assert reply.usage == Usage(input_tokens=1_000, cache_read_tokens=960, output_tokens=90, reasoning_tokens=64)


# Typed values


def typed(schema: dict[str, Any], *tools: ToolSchema) -> ModelRequest:
    how = TypedReply(schema=schema, always=True, marks=("[DONE]", "[ASK]"), needs_mark=True)
    return asking(typed=how, tools=tools)


def answer(call: Call) -> Say:
    """A value of the schema that came with the request, by the way that it asks for."""
    body = call.body
    form = body.get("response_format", {}).get("json_schema") or body.get("text", {}).get("format", {})
    if "schema" in form:
        return Say(text=msgspec.json.encode(instance_of(form["schema"], with_nulls=False)).decode())
    shown = msgspec.json.decode(body["messages"][0]["content"].rpartition("\n")[2])
    return Say(text=msgspec.json.encode(instance_of(shown, with_nulls=False)).decode(), reasoning="Hm.")


@shows("typed output", OPENAI_CHAT, OPENAI_RESPONSES)
@shows("typed output with tools", OPENAI_CHAT, OPENAI_RESPONSES)
@pytest.mark.parametrize("tools", [(), (LOOK,)])
@pytest.mark.parametrize("name", sorted(set(SCHEMAS) - WITHOUT_FORM))
@pytest.mark.parametrize("dialect", [OpenAIChat, OpenAIResponses])
async def test_schemas_are_taken_as_they_go_over_the_wire(
    dialect: type[DialectServer], name: str, tools: Sequence[ToolSchema]
) -> None:
    with dialect(answer) as server:
        reply = await reply_of(server, typed(SCHEMAS[name], *tools))
    assert valid(SCHEMAS[name], value_of(reply.text)) and server.refusals == []


async def test_deepseek_is_asked_for_json_in_the_prompt() -> None:
    with DeepSeek(answer) as server:
        reply = await reply_of(server, typed(SCHEMAS["an object"]))
    assert valid(SCHEMAS["an object"], value_of(reply.text)) and server.refusals == []


@pytest.mark.parametrize("dialect", [OpenAIChat, OpenAIResponses])
async def test_the_stand_ins_refuse_a_schema_as_a_crew_writes_it(dialect: type[DialectServer]) -> None:
    schema = SCHEMAS["optional"]
    form: dict[str, Any] = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": schema, "strict": True}}
    }
    if dialect is OpenAIResponses:
        form = {"text": {"format": {"type": "json_schema", "name": "r", "schema": schema, "strict": True}}}
    with dialect() as server, pytest.raises(Refusal, match="Invalid schema"):
        server.check(call_to(server, **form))


def call_to(server: DialectServer, **more: Any) -> Call:
    """A request that is taken as it is, and these fields."""
    if isinstance(server, OpenAIResponses):
        path, body = "/v1/responses", {"model": "gpt-5", "input": [{"role": "user", "content": "hi"}], "store": False}
    else:
        path = f"{server.root}/chat/completions"
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    return Call(method="POST", path=path, headers={"authorization": f"Bearer {KEY}"}, body={**body, **more})


@shows("constrained", OPENAI_CHAT, OPENAI_RESPONSES)
@pytest.mark.parametrize("tools", [(), (LOOK,)])
@pytest.mark.parametrize("dialect", [OpenAIChat, OpenAIResponses])
async def test_a_reply_is_held_to_its_marks_also_beside_tools(
    dialect: type[DialectServer], tools: tuple[ToolSchema, ...]
) -> None:
    ending = ending_in(("[DONE]", "[ASK]"))
    answered = msgspec.json.encode({"text": "Fine.", "signal": "[DONE]"}).decode()
    with dialect(Say(text=answered)) as server:
        reply = await reply_of(server, asking(ending=ending, tools=tools))
    assert (reply.text, reply.constrained, server.refusals) == ("Fine.\n[DONE]", True, [])


# What the stand-ins refuse

UNKNOWN = {"surprise": 1}
ORPHAN = {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}
OPEN = {
    "messages": [
        {
            "role": "assistant",
            "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        }
    ]
}
LOOSE = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
REFUSED: list[tuple[type[DialectServer], dict[str, Any], str]] = [
    *((dialect, UNKNOWN, "Unknown parameter: 'surprise'") for dialect in (OpenAIChat, OpenAIResponses)),
    (DeepSeek, UNKNOWN, "Unknown parameter: 'surprise'"),
    (OpenAIChat, {"seed": "7"}, "Invalid type for 'seed'"),
    (OpenAIChat, {"max_tokens": 7}, "'max_tokens' is not supported"),
    (OpenAIChat, {"model": "gpt-4o", "reasoning_effort": "low"}, "reasoning_effort"),
    (OpenAIChat, {"model": "gpt-5-pro"}, "only supported in v1/responses"),
    (OpenAIChat, {"parallel_tool_calls": True}, "parallel_tool_calls"),
    (OpenAIChat, {"messages": [{"role": "user", "content": "x", "reasoning_content": "y"}]}, "reasoning_content"),
    (OpenAIChat, ORPHAN, "must be a response to a preceding"),
    (OpenAIChat, OPEN, "must be followed by tool messages"),
    (DeepSeek, ORPHAN, "must be a response to a preceding"),
    (DeepSeek, OPEN, "Missing `reasoning_content`"),
    (DeepSeek, {"seed": 7}, "Unknown parameter: 'seed'"),
    (DeepSeek, {"response_format": {"type": "json_object"}}, "the word 'json'"),
    (DeepSeek, {"response_format": {"type": "json_schema"}}, "unavailable"),
    (OpenAIResponses, {"stop": ["x"]}, "Unknown parameter: 'stop'"),
    (OpenAIResponses, {"tools": [LOOSE]}, "Invalid schema for function"),
    (OpenAIResponses, {"model": "gpt-4o", "include": ["reasoning.encrypted_content"]}, "not supported with this model"),
    (
        OpenAIResponses,
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]},
        "No tool call found",
    ),
    (
        OpenAIResponses,
        {"input": [{"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}]},
        "No tool output found",
    ),
    (OpenAIResponses, {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "not persisted"),
    (
        OpenAIResponses,
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}]},
        "could not be verified",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "more", "words"), REFUSED)
def test_the_stand_ins_refuse_what_the_providers_refuse(
    dialect: type[DialectServer], more: dict[str, Any], words: str
) -> None:
    server = dialect()
    server.check(call_to(server))
    with pytest.raises(Refusal) as refused:
        server.check(call_to(server, **more))
    assert words in refused.value.message


# How a response ends


@pytest.mark.parametrize(
    ("say", "kind", "words"),
    [
        (Say(text="Half", stop="max_output_tokens"), ReplyCutShort, "cut"),
        (Say(text="Half", stop="content_filter"), ModelRefused, "held its reply back"),
        (Say(stop="failed"), ModelUnavailable, "The server had an error"),
        (Refusal(429, "slow down", "rate_limit", {"retry-after": "7"}), ModelUnavailable, "429"),
        (Refusal(503, "busy"), ModelUnavailable, "503"),
        (Refusal(400, "no", "invalid_request_error"), ModelRefused, "400"),
    ],
)
async def test_what_is_no_complete_response_is_a_failure(say: Say | Refusal, kind: type[Exception], words: str) -> None:
    with OpenAIResponses(say) as server, pytest.raises(kind) as failed:
        await reply_of(server, asking())
    assert words in str(failed.value) or kind is ReplyCutShort
    if isinstance(failed.value, ModelUnavailable):
        assert failed.value.retry_after_ms == (7_000 if "429" in words else 0)


async def test_a_response_carries_the_idempotency_key_of_its_call() -> None:
    with OpenAIResponses(Say(text="Fine.")) as server:
        await reply_of(server, asking())
    assert server.calls[0].headers["idempotency-key"] == "r:1"
