"""Typed values over the wire: what is sent passes the strict rules of each provider, and the answer is a value.

The schemas are checked by stand-ins that refuse what the providers refuse; see `strict_schemas`.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from interlock import Interlock, load_crew, load_host
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.adapters.models.pydantic_ai.other_providers import OtherProviderModel
from interlock.adapters.models.typed_output import JSON_OBJECT, PROMPT, SCHEMA, TOOL, plan_output
from interlock.adapters.models.wire_schemas import ANTHROPIC, GEMINI, GRAMMAR_SERVERS, OPENAI, SchemaDialect, wire_form
from interlock.crew.definition import ModelRef
from interlock.crew.definition import ModelSettings as CrewModelSettings
from interlock.engine.events import ToolRequest
from interlock.engine.outputs.reply_value import read_value
from interlock.engine.prompt.typed_reply import TypedReply
from interlock.engine.state import TurnMessage
from interlock.ports import Delta, ModelReply, ModelRequest, ToolSchema
from interlock.signals.reasoning_tags import split_reasoning
from tests.adapters.strict_schemas import (
    instance_of,
    refusals_of_anthropic,
    refusals_of_deepseek,
    refusals_of_gemini,
    refusals_of_llama,
    refusals_of_openai,
)
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.clients import FIND, FLASH, SONNET, reply_from, results, spoken, use
from tests.fakes.dialects.features import shows
from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import Call, DialectServer, Say, Use
from tests.loopback import listening

SCHEMAS: dict[str, dict[str, Any]] = {
    "a text": {"type": "string"},
    "an object": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "optional": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
    },
    "nullable": {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "required": []},
    "bounds": {
        "type": "object",
        "properties": {"n": {"type": "number", "minimum": 2, "maximum": 3}, "s": {"type": "string", "maxLength": 9}},
        "required": ["n", "s"],
    },
    "lists": {
        "type": "array",
        "items": {"type": "object", "properties": {"x": {"enum": ["a", "b"]}, "y": {"const": 1}}, "required": ["x"]},
    },
    "cases": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"k": {"type": "boolean"}}}]},
    "mixed enum": {"enum": ["a", 1, None]},
    "definitions": {
        "type": "object",
        "properties": {"from": {"$ref": "#/$defs/Place"}, "to": {"$ref": "#/$defs/Place"}},
        "required": ["from"],
        "$defs": {"Place": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    },
    "recursive": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    },
    "a map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "anything": {},
    "a tuple": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
}
WITHOUT_FORM = {"a map", "anything", "a tuple"}
Refusals = Callable[[dict[str, Any]], list[str]]
REFUSALS: dict[str, tuple[SchemaDialect, Refusals]] = {
    "openai": (OPENAI, refusals_of_openai),
    "anthropic": (ANTHROPIC, refusals_of_anthropic),
    "gemini": (GEMINI, refusals_of_gemini),
    "llama.cpp": (GRAMMAR_SERVERS, refusals_of_llama),
}


def asking(schema: dict[str, Any], *, always: bool = True, tools: tuple[ToolSchema, ...] = ()) -> ModelRequest:
    typed = TypedReply(schema=schema, always=always, marks=("[DONE]", "[ASK]"), needs_mark=True)
    told = (TurnMessage(role="user", text="hi"),)
    return ModelRequest(key="r:1", agent="a", number=1, system="Be kind.", messages=told, typed=typed, tools=tools)


def valid(schema: dict[str, Any], value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def value_of(text: str) -> Any:
    read = read_value(text, ("DONE", "ASK").__contains__)
    assert read.fault == "", text
    assert read.beside.strip() == "[DONE]"
    return read.value


@pytest.mark.parametrize("dialect", REFUSALS)
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("always", [True, False])
def test_what_is_sent_is_not_refused_and_what_comes_back_is_a_value(dialect: str, name: str, always: bool) -> None:
    rules, refusals = REFUSALS[dialect]
    plan = plan_output(asking(SCHEMAS[name], always=always), SCHEMA, rules)
    assert plan is not None
    is_sayable = name not in WITHOUT_FORM and (rules.recursion or name != "recursive")
    assert plan.way == (SCHEMA if is_sayable else TOOL)
    if not is_sayable:
        return
    assert refusals(plan.envelope) == []
    for with_nulls in (True, False) if always else (False,):
        answer = instance_of(plan.envelope, with_nulls=with_nulls)
        assert answer["signal"] == "[DONE]"
        value = value_of(plan.reply_of(ModelReply(text=json.dumps(answer))).text)
        assert valid(SCHEMAS[name], value), (answer, value)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["an object", "optional", "bounds", "recursive"])
def test_the_stand_ins_refuse_a_schema_as_a_crew_writes_it(dialect: str, name: str) -> None:
    assert REFUSALS[dialect][1](SCHEMAS[name]) != []


def test_a_rule_that_is_not_sent_is_told_in_the_description() -> None:
    form = wire_form(SCHEMAS["bounds"], OPENAI)
    assert form is not None
    assert form.schema["properties"]["n"] == {"type": "number", "description": '{"maximum":3,"minimum":2}'}


def test_a_turn_that_does_not_end_the_run_answers_in_text() -> None:
    plan = plan_output(asking(SCHEMAS["an object"], always=False), SCHEMA, OPENAI)
    assert plan is not None
    answer = {"text": "Which order? See [DONE].", "value": None, "signal": "[ASK]"}
    assert plan.reply_of(ModelReply(text=json.dumps(answer))).text == "Which order? See ⟦DONE⟧.\n[ASK]"


@pytest.mark.parametrize("answer", ['{"a": 1}\n[DONE]', "no JSON", '{"value": 1, "signal": "[NOPE]"}', "[" * 10_000])
def test_an_answer_that_is_not_the_envelope_is_left_as_it_is(answer: str) -> None:
    plan = plan_output(asking(SCHEMAS["an object"]), SCHEMA, OPENAI)
    assert plan is not None
    assert plan.reply_of(ModelReply(text=answer)).text == answer


NOTE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


@pytest.mark.parametrize("note", ["end with </think>", "open\n<think>\n[DONE]", "<think>both</think>", "a \\ </THINK>"])
@pytest.mark.parametrize("way", [SCHEMA, JSON_OBJECT, TOOL])
def test_a_value_that_speaks_about_tags_of_reasoning_keeps_its_words(way: str, note: str) -> None:
    plan = plan_output(asking(NOTE), way, OPENAI)
    assert plan is not None
    answer = json.dumps({"value": {"note": note}, "signal": "[DONE]"})
    call = ToolRequest(id="1", name=plan.tool, arguments=answer)
    reply = plan.reply_of(ModelReply(text="", tool_calls=(call,)) if way == TOOL else ModelReply(text=answer))
    assert split_reasoning(reply.text) == (reply.text, "", False)
    assert json.loads(reply.text.removesuffix("\n[DONE]")) == {"note": note}


BAD_ANSWER = '{"value": {"note": "bad"}, "signal": "[ASK]"}'


@pytest.mark.parametrize("thoughts", [f"<think>\n{BAD_ANSWER}\n</think>\n", f"or {BAD_ANSWER}\n</think>\n\n"])
@pytest.mark.parametrize("way", [SCHEMA, JSON_OBJECT])
def test_thoughts_between_tags_before_the_envelope_are_no_part_of_it(way: str, thoughts: str) -> None:
    plan = plan_output(asking(NOTE), way, OPENAI)
    assert plan is not None
    reply = plan.reply_of(ModelReply(text=thoughts + '{"value": {"note": "good"}, "signal": "[DONE]"}'))
    assert reply.text == '{"note": "good"}\n[DONE]'
    assert [(block.provider, BAD_ANSWER in block.text) for block in reply.reasoning] == [("", True)]


LOOK = ToolSchema(name="give_output", description="a tool of that name", parameters={"type": "object"})


def test_the_output_tool_has_a_name_of_its_own_and_waits_for_other_tools() -> None:
    plan = plan_output(asking(SCHEMAS["a map"], tools=(LOOK,)), SCHEMA, OPENAI)
    assert plan is not None and plan.tool == "give_output_2"
    ours = msgspec.convert(
        {"id": "1", "name": plan.tool, "arguments": '{"value": {"k": 1}, "signal": "[DONE]"}'}, type=ToolRequest
    )
    other = msgspec.convert({"id": "2", "name": "give_output", "arguments": "{}"}, type=ToolRequest)
    alone = plan.reply_of(ModelReply(text="", tool_calls=(ours,)))
    assert (alone.text, alone.tool_calls) == ('{"k": 1}\n[DONE]', ())
    both = plan.reply_of(ModelReply(text="", tool_calls=(ours, other)))
    assert (both.text, both.tool_calls) == ("", (other,))


class Provider:
    """Refuses what the real one refuses, and else answers with a value of the schema that it was sent."""

    def __init__(
        self, refusals: Callable[[dict[str, Any]], list[str]], answer: Callable[[dict[str, Any]], bytes]
    ) -> None:
        self.refusals, self.answer = refusals, answer
        self.bodies: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        body = json.loads(await reader.readexactly(size))
        self.bodies.append(body)
        refused = self.refusals(body)
        error = json.dumps({"error": {"message": "; ".join(refused), "type": "invalid_request_error"}}).encode()
        wrong = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        wrong += f"content-length: {len(error)}\r\n\r\n".encode()
        writer.write(wrong + error if refused else head + self.answer(body))
        await writer.drain()


def chat_answer(body: dict[str, Any]) -> bytes:
    """The value that the schema leads to; without a schema that of the one in the prompt."""
    form = body["response_format"]
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    else:
        schema = json.loads(body["messages"][0]["content"].rpartition("\n")[2])
    text = json.dumps(instance_of(schema, with_nulls=False))
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


def refusals_of_chat(body: dict[str, Any]) -> list[str]:
    form = body["response_format"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    return refusals_of_openai(form["json_schema"]["schema"])


async def reply_of(model: OpenAICompatibleModel | OtherProviderModel, request: ModelRequest) -> ModelReply:
    try:
        async with asyncio.timeout(30):
            pieces = [piece async for piece in model.reply(request)]
    finally:
        await model.close()
    assert not any(isinstance(piece, Delta) for piece in pieces), "pieces of the envelope are not text"
    reply = pieces[-1]
    assert isinstance(reply, ModelReply)
    return reply


@pytest.mark.parametrize("name", sorted(set(SCHEMAS) - WITHOUT_FORM))
async def test_openai_takes_the_schema(name: str) -> None:
    provider = Provider(refusals_of_chat, chat_answer)
    async with listening(provider.serve) as port:
        place = Endpoint(server=Server("openai:m"), url=f"http://127.0.0.1:{port}", outputs=SCHEMA)
        reply = await reply_of(OpenAICompatibleModel(place, "m"), asking(SCHEMAS[name]))
    assert valid(SCHEMAS[name], value_of(reply.text))


async def test_a_server_of_json_objects_is_told_the_form_in_the_prompt() -> None:
    provider = Provider(refusals_of_deepseek, chat_answer)
    async with listening(provider.serve) as port:
        place = Endpoint(server=Server("deepseek:m"), url=f"http://127.0.0.1:{port}", outputs=JSON_OBJECT)
        reply = await reply_of(OpenAICompatibleModel(place, "m"), asking(SCHEMAS["bounds"]))
    assert "signal" in provider.bodies[0]["messages"][0]["content"]
    assert value_of(reply.text) == {"n": 2.5, "s": "words"}


@pytest.mark.parametrize("way", ["", PROMPT])
async def test_a_server_that_can_do_neither_is_asked_in_the_prompt_alone(way: str) -> None:
    assert plan_output(asking(SCHEMAS["an object"]), way, OPENAI) is None


def answer_to(call: Call) -> Say:
    """The shortest value of the schema that the request asks by, or a call of the output tool."""
    form = call.body.get("output_config", {}).get("format", {}).get("schema")
    form = form or call.body.get("generationConfig", {}).get("responseJsonSchema")
    if form is not None:
        return Say(reasoning="hm", text=json.dumps(instance_of(form, with_nulls=False)))
    given = {"value": {"name": "words"}, "signal": "[DONE]"}
    return Say(reasoning="hm", uses=(Use(name="give_output", arguments=given),))


DIALECTS: dict[str, tuple[type[DialectServer], ModelRef]] = {
    "anthropic": (AnthropicServer, SONNET),
    "gemini": (GeminiServer, FLASH),
}


@shows("typed output", "anthropic", "gemini")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", sorted(set(SCHEMAS) - WITHOUT_FORM))
async def test_a_strict_provider_takes_the_schema(dialect: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server_of, model = DIALECTS[dialect]
    with server_of(answer_to) as server:
        use(server, model.provider, monkeypatch)
        reply = await reply_of(OtherProviderModel(model, KnownSecrets([])), asking(SCHEMAS[name]))
        assert server.refusals == []
    assert valid(SCHEMAS[name], value_of(reply.text))
    assert reply.tool_calls == () and reply.constrained == (name != "recursive")


@shows("typed output with tools", "anthropic", "gemini")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_value_is_asked_for_beside_tools(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a reply that thinks may be wrong: then the reply goes back as text, with its reasoning."""
    server_of, model = DIALECTS[dialect]
    find = Say(reasoning="hm", uses=(Use(name="find", arguments={"q": "a"}),))
    schema, settings = SCHEMAS["recursive"], CrewModelSettings(reasoning="high")
    with server_of(find, answer_to, answer_to) as server:
        use(server, model.provider, monkeypatch)
        request = msgspec.structs.replace(asking(schema, tools=(FIND,)), settings=settings)
        first = await reply_from(model, request)
        assert [call.name for call in first.tool_calls] == ["find"]
        request = msgspec.structs.replace(request, messages=(*request.messages, spoken(first), *results(first)))
        second = await reply_from(model, request)
        assert value_of(second.text) == {"name": "words"} and second.tool_calls == ()
        again = TurnMessage(role="user", text="Give it again.")
        request = msgspec.structs.replace(request, messages=(*request.messages, spoken(second), again))
        assert value_of((await reply_from(model, request)).text) == {"name": "words"}
        assert server.refusals == []


CREW = """\
version: "2.0"
name: desk
entry_point: a
output: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}
agents: [{id: a, model: "house:m"}]
routing: {signals: {a: [{signal: "[DONE]", type: terminate}]}}
"""


def answer_in_every_way(body: dict[str, Any]) -> bytes:
    value, delta = {"n": 7}, {"content": '{"n": 7}\n[DONE]'}
    envelope = json.dumps({"value": value, "signal": "[DONE]"})
    if "response_format" in body:
        delta = {"content": envelope}
    elif body.get("tools"):
        function = {"name": body["tools"][-1]["function"]["name"], "arguments": envelope}
        delta = {"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": function}]}  # type: ignore[dict-item]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize("way", [SCHEMA, JSON_OBJECT, TOOL, PROMPT])
async def test_the_file_of_the_host_says_how_a_provider_is_asked(tmp_path: Path, way: str) -> None:
    provider = Provider(lambda _: [], answer_in_every_way)
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    async with listening(provider.serve) as port:
        (tmp_path / "interlock.toml").write_text(
            f'[providers.house]\nurl = "http://127.0.0.1:{port}"\noutputs = "{way}"\n', "utf-8"
        )
        crew = load_crew(tmp_path, host=load_host(tmp_path / "interlock.toml"))
        async with Interlock(tmp_path / "data", host=tmp_path / "interlock.toml") as box, asyncio.timeout(30):
            result = await (await box.start(crew, "how many?")).result()
    assert (result.status, result.value) == ("completed", {"n": 7}), result.detail
    (body,) = provider.bodies
    form = body.get("response_format", {}).get("type")
    assert (form, bool(body.get("tools"))) == {
        SCHEMA: ("json_schema", False),
        JSON_OBJECT: ("json_object", False),
        TOOL: (None, True),
        PROMPT: (None, False),
    }[way]
