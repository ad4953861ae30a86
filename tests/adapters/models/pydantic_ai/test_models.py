"""The real client of a provider against a server on this machine: one request a call, closed when it is given up."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.pydantic_ai.other_providers import OtherProviderModel
from interlock.crew.definition import ModelRef
from interlock.engine.prompt.grammar import ending_in
from interlock.engine.state import TurnMessage
from interlock.errors import ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest, ToolSchema
from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.clients import FIND, FLASH, SONNET, pieces_from, reply_from, request_of, use
from tests.fakes.dialects.features import ANTHROPIC, GEMINI, shows
from tests.fakes.dialects.gemini import GeminiServer
from tests.fakes.dialects.server import DialectServer, Say, Use
from tests.loopback import listening

KEY = "sk-ant-0123456789abcdef"
MODEL = ModelRef(provider="anthropic", model="claude-sonnet-4-6")
REQUEST = ModelRequest(
    key="k",
    agent="a",
    number=1,
    system="be kind",
    messages=(TurnMessage(role="user", text="hi"),),
    temperature=0.0,
    top_k=5,
)
SECONDS = 30

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1000, "output_tokens": 1},
    },
}  # fmt: skip
SAID: list[dict[str, Any]] = [
    START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "well "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}},
]
ENDED: list[dict[str, Any]] = [
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}},
    {"type": "message_stop"},
]


class Server:
    """Answers every request with the same bytes, then closes, or waits until the client does."""

    def __init__(self, answer: bytes, *, hold: bool = False) -> None:
        self.answer, self.hold = answer, hold
        self.asked: list[dict[str, Any]] = []
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        self.asked.append({"head": head.decode(), **json.loads(await reader.readexactly(size))})
        writer.write(self.answer)
        await writer.drain()
        if self.hold:
            await reader.read()
            self.left.set()


def stream_of(events: list[dict[str, Any]]) -> bytes:
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + lines.encode()


@asynccontextmanager
async def against(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OtherProviderModel]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with listening(server.serve) as port:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
        model = OtherProviderModel(MODEL, KnownSecrets([KEY]))
        model._load()  # which takes a while, and is not what the deadline is for
        async with asyncio.timeout(SECONDS):
            try:
                yield model
            finally:
                await model.close()


async def test_a_call_is_one_request_and_its_reply_has_its_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(stream_of([*SAID, *ENDED]))

    async with against(server, monkeypatch) as model:
        pieces = [piece async for piece in model.reply(REQUEST)]
        assert pieces[:-1] == [Delta("well "), Delta("done")]
        reply = pieces[-1]
        assert isinstance(reply, ModelReply) and reply.text == "well done"
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
        assert reply.usage.cost_micros == 0  # its cost is found where that of all models is
    (asked,) = server.asked
    assert (asked["temperature"], asked["top_k"], asked["stream"]) == (0.0, 5, True)
    assert "be kind" in json.dumps(asked["system"]) and asked["messages"][0]["role"] == "user"


async def test_too_many_requests_are_not_asked_again_here(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": f"{KEY} is too eager"}})
    head = f"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: {len(body)}\r\n"
    server = Server(f"{head}content-type: application/json\r\nconnection: close\r\n\r\n{body}".encode())

    async with against(server, monkeypatch) as model:
        with pytest.raises(ModelUnavailable, match=r"answered 429: \[redacted\] is too eager") as failed:
            [piece async for piece in model.reply(REQUEST)]
        assert failed.value.retry_after_ms == 7000
    assert len(server.asked) == 1


async def test_a_stream_that_breaks_off_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(stream_of(SAID))

    async with against(server, monkeypatch) as model:
        with pytest.raises(ModelUnavailable, match="broke off"):
            [piece async for piece in model.reply(REQUEST)]
    assert len(server.asked) == 1


async def test_a_call_that_is_given_up_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(stream_of(SAID), hold=True)

    async with against(server, monkeypatch) as model:
        pieces = model.reply(REQUEST)
        assert await anext(pieces) == Delta("well ")
        await pieces.aclose()  # type: ignore[attr-defined]
        await server.left.wait()


HELD = [pytest.param(AnthropicServer, SONNET, id="anthropic"), pytest.param(GeminiServer, FLASH, id="gemini")]


@shows("constrained", ANTHROPIC, GEMINI)
@pytest.mark.parametrize("tools", [(), (FIND,)])
@pytest.mark.parametrize(("server_of", "model"), HELD)
async def test_a_reply_is_held_to_its_marks_by_a_schema(
    server_of: Callable[..., DialectServer],
    model: ModelRef,
    tools: tuple[ToolSchema, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Say(text=json.dumps({"text": "well done", "signal": "[DONE]"}))
    with server_of(answer) as server:
        use(server, model.provider, monkeypatch)
        request = request_of(tools=tools, ending=ending_in(("[DONE]", "[ASK]")))
        (reply,) = await pieces_from(model, request)  # no pieces: they are of JSON
        assert "[ASK]" in str(server.requests[0].get("output_config", server.requests[0].get("generationConfig")))
    assert isinstance(reply, ModelReply) and (reply.text, reply.constrained) == ("well done\n[DONE]", True)


async def test_a_reply_that_calls_a_tool_is_not_held_to_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    with AnthropicServer(Say(text="I look.", uses=(Use(name="find", arguments={"q": "a"}),))) as server:
        use(server, "anthropic", monkeypatch)
        reply = await reply_from(SONNET, request_of(tools=(FIND,), ending=ending_in(("[DONE]",))))
    assert (reply.text, [call.name for call in reply.tool_calls], reply.constrained) == ("I look.", ["find"], False)


async def test_a_model_that_takes_no_schema_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    older = ModelRef(provider="google", model="gemini-2.5-flash")
    with GeminiServer(Say(text="well done\n[DONE]")) as server:
        use(server, "google", monkeypatch)
        reply = await reply_from(older, request_of(tools=(FIND,), ending=ending_in(("[DONE]",))))
        assert "responseJsonSchema" not in server.requests[0]["generationConfig"]
    assert (reply.text, reply.constrained) == ("well done\n[DONE]", False)
