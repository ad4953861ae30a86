"""The client against a server that does everything wrong: each call ends in a reply or in a typed failure."""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from interlock.adapters.config.known_secrets import REDACTED
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.connections import Connections
from interlock.adapters.models.openai.endpoint import CallLimits, Endpoint, Server
from interlock.adapters.tools.tool_names import fit_name
from interlock.engine.events import ToolRequest, Usage
from interlock.engine.state import TurnMessage
from interlock.errors import ModelRefused, ModelUnavailable, PromptTooLong, ReplyCutShort, ReplyTooLarge
from interlock.ports import Delta, ModelReply, ModelRequest, ToolSchema
from tests.adapters.hostile_server import (
    DONE,
    USAGE,
    Behaviour,
    HostileServer,
    Line,
    answers,
    chunk,
    data,
    drips,
    fails,
    framed,
    hangs,
    head,
    hostile_server,
    replies,
    said,
    sends,
    tool_pieces,
)

KEY = "sk-canary-0123456789abcdef"
REQUEST = ModelRequest(key="r:1", agent="a", number=1, system="be kind", messages=[TurnMessage(role="user", text="hi")])
HASTY = CallLimits(connect_seconds=0.1, first_byte_seconds=0.3, idle_seconds=0.3, total_seconds=5)

# Longer than any deadline here, shorter than the patience of a person.
PATIENCE_SECONDS = 10


def model_of(server: HostileServer, limits: CallLimits = CallLimits(), key: str = KEY) -> OpenAICompatibleModel:  # noqa: B008
    return OpenAICompatibleModel(
        Endpoint(server=Server("test:m at here", "TEST_KEY"), url=server.url, key=key, limits=limits), "m"
    )


async def whole(model: OpenAICompatibleModel, request: ModelRequest = REQUEST) -> tuple[list[str], ModelReply]:
    deltas: list[str] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for piece in model.reply(request):
            if isinstance(piece, ModelReply):
                return deltas, piece
            deltas.append(piece.text)
    raise AssertionError("a stream of pieces ended without a reply and without an error")


async def asked(
    *behaviours: Behaviour,
    limits: CallLimits = CallLimits(),  # noqa: B008
    request: ModelRequest = REQUEST,
    key: str = KEY,
) -> tuple[list[str], ModelReply, HostileServer]:
    async with hostile_server(*behaviours) as server:
        model = model_of(server, limits, key)
        try:
            return *(await whole(model, request)), server
        finally:
            await model.close()


async def reply_to(*behaviours: Behaviour, **given: Any) -> ModelReply:
    return (await asked(*behaviours, **given))[1]


# Whole replies


async def test_a_reply_comes_in_pieces_and_then_whole_with_its_usage() -> None:
    deltas, reply, server = await asked(replies(said("Xin chào! [END]", pieces=5)))
    assert (len(deltas), "".join(deltas)) == (1, "Xin chào! [END]")  # one packet, one piece
    assert reply == ModelReply(text="Xin chào! [END]", usage=Usage(input_tokens=11, output_tokens=7))
    request = server.asked[0]
    assert request.head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}\r\n" in request.head
    assert request.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_without_a_key_none_is_sent() -> None:
    _, _, server = await asked(replies(said("ok")), key="")
    assert "authorization" not in server.asked[0].head.lower()


@pytest.mark.parametrize("pieces", [1, 2, 7, 60, 10_000])
async def test_any_chunking_gives_the_same_reply(pieces: int) -> None:
    body = said("Được rồi 🙂 — [KẾT_THÚC]", pieces=6)
    deltas, reply, _ = await asked(replies(body, pieces))
    assert reply.text == "".join(deltas) == "Được rồi 🙂 — [KẾT_THÚC]"
    assert reply.usage == Usage(input_tokens=11, output_tokens=7)


async def test_comments_other_fields_and_other_line_breaks_are_passed_over() -> None:
    body = b": OPENROUTER PROCESSING\r\n\r\nevent: x\r\nid: 7\r\n" + said("fine").replace(b"\n", b"\r\n")
    assert (await reply_to(replies(body, 5))).text == "fine"


async def test_a_byte_order_mark_costs_no_words() -> None:
    body = b"\xef\xbb\xbf" + data(chunk("first"), chunk(" second"), chunk(finish="stop")) + DONE
    assert (await reply_to(replies(body, 60))).text == "first second"


async def test_a_marked_end_without_done_is_an_end() -> None:
    assert (await reply_to(replies(said("fine").removesuffix(DONE)))).text == "fine"


async def test_a_last_line_without_a_line_break_counts() -> None:
    assert (await reply_to(sends(head(chunked=False) + said("fine").rstrip()))).text == "fine"


async def test_tools_settings_and_earlier_rounds_are_in_the_request() -> None:
    """A temperature of 0 stays 0; arguments that are no object are not sent, as servers refuse the whole for them."""
    calls = (
        ToolRequest(id="c1", name="look", arguments='{"at": 1}'),
        ToolRequest(id="c2", name="mcp:x/y", arguments="{"),
    )
    request = ModelRequest(
        key="r:1",
        agent="a",
        number=2,
        system="",
        messages=[
            TurnMessage(role="user", text="half \ud800"),
            TurnMessage(role="assistant", text="", tool_calls=calls),
            TurnMessage(role="tool", text="seen", tool_call="c1"),
        ],
        tools=(ToolSchema(name="mcp:x/y", description="d", parameters={"type": "object"}),),
        temperature=0,
        top_p=0.5,
        top_k=7,
    )
    piece = {"index": 0, "id": "c3", "function": {"name": fit_name("mcp:x/y"), "arguments": "{}"}}
    _, reply, server = await asked(replies(tool_pieces(piece)), request=request)
    body = server.asked[0].body
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0, 0.5, 7)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": fit_name("mcp:x/y"), "description": "d", "parameters": {"type": "object"}},
        }
    ]
    assert body["messages"] == [
        {"role": "user", "content": "half ?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
                {"id": "c2", "type": "function", "function": {"name": fit_name("mcp:x/y"), "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]
    assert reply.tool_calls == (ToolRequest(id="c3", name="mcp:x/y", arguments="{}"),)


@pytest.mark.parametrize("names", [("tìm", "tím"), ("t_m", "tìm"), ("x" * 70 + "a", "x" * 70 + "b"), ("名前", "住所")])
async def test_the_tool_that_a_model_calls_is_the_one_that_it_was_shown(names: tuple[str, str]) -> None:
    tools = tuple(ToolSchema(name=name, description="", parameters={"type": "object"}) for name in names)
    shown = [fit_name(name) for name in names]
    calls = [piece(n, f"c{n}", name, "{}") for n, name in enumerate(shown)]
    reply = await reply_to(replies(tool_pieces(*calls)), request=msgspec.structs.replace(REQUEST, tools=tools))
    assert [call.name for call in reply.tool_calls] == list(names)


def piece(index: int | None, id_: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        (
            [
                piece(0, "c1", "look", ""),
                piece(0, None, None, '{"at"'),
                piece(1, "c2", "weigh", "{}"),
                piece(0, None, None, ":1}"),
            ],
            [("c1", "look", '{"at":1}'), ("c2", "weigh", "{}")],
        ),
        (
            [piece(None, "c1", "look", "{}"), piece(None, "c2", "look", "{}")],
            [("c1", "look", "{}"), ("c2", "look", "{}")],
        ),
        ([piece(0, "c1", "look", "{}"), piece(0, "c2", "weigh", "{}")], [("c1", "look", "{}"), ("c2", "weigh", "{}")]),
        ([piece(0, None, "look", {"at": 1})], [("r:1/0", "look", '{"at":1}')]),
        (
            [piece(0, "same", "look", "{}"), piece(1, "same", "weigh", "{}")],
            [("same", "look", "{}"), ("r:1/1", "weigh", "{}")],
        ),
        ([piece(0, "c1", "look", '{"at": ')], [("c1", "look", '{"at": ')]),
        ([piece(0, "c1", "look")], [("c1", "look", "{}")]),
        (
            [piece(0, "", "look", "{}"), piece(0, "", "weigh", '{"a"'), piece(0, "", None, ":1}")],
            [("r:1/0", "look", "{}"), ("r:1/1", "weigh", '{"a":1}')],
        ),
        ([piece(0, "c1", "look", '{"at"'), piece(0, "c1", "look", ":1}")], [("c1", "look", '{"at":1}')]),
    ],
    ids=[
        *("fragments", "ids only", "one index", "an object, no id", "ids twice", "malformed JSON", "no arguments"),
        *("one index, no ids", "the name again"),
    ],
)
async def test_tool_calls_are_put_together_as_servers_send_them(pieces: list[Any], calls: list[Any]) -> None:
    """What the model wrote as arguments is its own: the toolbox will tell it what is wrong with them."""
    found = (await reply_to(replies(tool_pieces(*pieces), 9))).tool_calls
    assert [(call.id, call.name, call.arguments) for call in found] == calls


# Streams that break off


def cut_chunked(body: bytes, n: int) -> bytes:
    return head() + b"%x\r\n" % len(body) + body[:n]


def cut_counted(body: bytes, n: int) -> bytes:
    return head("200 OK", "text/event-stream", f"Content-Length: {len(body)}", chunked=False) + body[:n]


def cut_unmarked(body: bytes, n: int) -> bytes:
    return head(chunked=False) + body[:n]


@pytest.mark.parametrize(("cut", "step"), [(cut_chunked, 1), (cut_counted, 9), (cut_unmarked, 9)])
async def test_a_reply_that_is_cut_at_any_byte_is_no_reply(cut: Any, step: int) -> None:
    """Every byte of a body of 1 kB. Only what holds [DONE] may be a reply, and then it is the whole one."""
    body = said("Tạm biệt [END]", pieces=5, usage={**USAGE, "padding": "x" * 100})
    assert 900 < len(body) < 1_200
    end = body.index(b"[DONE]") + len(b"[DONE]")
    cuts = sorted({*range(0, len(body), step), *range(len(body) - 30, len(body))})

    async with hostile_server(*(sends(cut(body, n)) for n in cuts)) as server:
        model = model_of(server)
        for n in cuts:
            try:
                _, reply = await whole(model)
            except ModelUnavailable as error:
                assert str(error).startswith(("the reply of test:m", "test:m at here")), n
            else:
                assert (n >= end, reply.text) == (True, "Tạm biệt [END]"), n
        await model.close()


async def test_the_whole_of_what_is_cut_above_is_a_reply() -> None:
    body = said("Tạm biệt [END]")
    for cut in (cut_counted, cut_unmarked):
        assert (await reply_to(sends(cut(body, len(body))))).text == "Tạm biệt [END]"


async def test_done_without_a_finish_reason_is_no_end() -> None:
    with pytest.raises(ModelUnavailable, match="broke off before its end"):
        await reply_to(replies(data(chunk("so far")) + DONE))


@pytest.mark.parametrize("finish", ["length", "MAX_TOKENS", "model_length"])
async def test_a_limit_of_tokens_is_no_end_and_what_there_is_can_be_looked_at(finish: str) -> None:
    with pytest.raises(ReplyCutShort, match=r"token limit.* without finishing") as cut:
        await reply_to(replies(said("it goes on and", finish=finish)))
    assert cut.value.text == "it goes on and"


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
async def test_a_server_that_gives_up_has_not_replied(finish: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"failed while it replied .finish_reason {finish}"):
        await reply_to(replies(said("I could [END]", finish=finish)))


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"", "dropped the connection"), (b"HTTP/1.1 20", "dropped the connection"), (b"\x16\x03\x01 what", "dropped")],
    ids=["nothing", "half a head", "another protocol"],
)
async def test_a_closed_socket_is_a_call_to_repeat(raw: bytes, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        await reply_to(sends(raw))


async def test_nobody_at_the_address_is_a_call_to_repeat() -> None:
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        async with hostile_server(replies(said("gone"))) as server:
            model = model_of(server)
        await whole(model)


async def test_a_server_that_takes_no_connection_is_given_up_in_time() -> None:
    """Its queue is full, so that nobody answers, and nobody refuses."""

    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as queue:
        for _ in range(3):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        limits = CallLimits(connect_seconds=0.1, first_byte_seconds=5)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        model = OpenAICompatibleModel(Endpoint(server=Server("m"), url=url, limits=limits), "m")
        with pytest.raises(ModelUnavailable, match=r"m took longer than 0\.1 s to connect"):
            await whole(model)


# What is malformed


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[]", b'"x"', b'{"choices": 7}', b'{"choices": [{"delta": {"content": 7}}]}', b'{"a":' + b"[" * 9_000,
     b'{"usage": {"prompt_tokens": NaN}}', b"\xff\xfe"],
)  # fmt: skip
async def test_what_is_no_chat_completion_fails_the_call(payload: bytes) -> None:
    with pytest.raises(ModelUnavailable, match="something that is not a chat completion"):
        await reply_to(replies(data(chunk("so far")) + b"data: " + payload + b"\n\n" + said("fine")))


async def test_half_characters_are_replaced_and_the_rest_is_kept() -> None:
    half = json.dumps(chunk("caf§"), ensure_ascii=False).encode().replace("§".encode(), b"\xc3")
    surrogate = json.dumps(chunk("§§")).replace("\\u00a7\\u00a7", "\\ud83d!").encode()
    body = b"data: " + half + b"\n\ndata: " + surrogate + b"\n\n" + data(chunk("\x00."), chunk(finish="stop")) + DONE
    reply = await reply_to(replies(body, 3))
    assert reply.text == "caf\ufffd?!\x00."
    reply.text.encode("utf-8")


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -5, "completion_tokens": 1e300, "cost": -1}, {}])
async def test_a_usage_that_makes_no_sense_never_counts_below_nothing(usage: Any) -> None:
    found = (await reply_to(replies(said("ok", usage={"choices": [], "usage": usage})))).usage
    assert min(found.input_tokens, found.output_tokens, found.cost_micros) >= 0
    assert found.output_tokens <= 2**40


USAGES = [[], "much", {"prompt_tokens": "12", "cost": "0.1"}, {"cost": {"total_cost": 0.1}}, {"prompt_tokens": True}]


@pytest.mark.parametrize("usage", USAGES)
async def test_a_usage_that_is_none_costs_no_reply(usage: Any) -> None:
    """Perplexity, for one, has an object under cost."""
    assert await reply_to(replies(said("ok", usage={"choices": [], "usage": usage}))) == ModelReply(
        text="ok", uncounted=True
    )


async def test_a_cost_below_everything_is_nothing() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":1e400,"cost":-1e400}}\n\n'
    found = (await reply_to(replies(data(chunk("ok"), chunk(finish="stop")) + usage + DONE))).usage
    assert found == Usage(input_tokens=2**40)


@pytest.mark.parametrize(("cost", "micros"), [(0.07, 70_000), (0.0000004, 1), (1.2345678, 1_234_568)])
async def test_a_cost_is_counted_upwards(cost: float, micros: int) -> None:
    usage = {"choices": [], "usage": {"cost": cost}}
    assert (await reply_to(replies(said("ok", usage=usage)))).usage.cost_micros == micros


async def test_a_cost_that_the_provider_reports_is_taken() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.0015}}
    assert (await reply_to(replies(said("ok", usage=usage)))).usage.cost_micros == 1_500


async def test_a_tool_without_a_name_fails_the_call() -> None:
    with pytest.raises(ModelUnavailable, match="a tool without a name"):
        await reply_to(replies(tool_pieces(piece(0, "c1", None, "{}"))))


async def test_ten_thousand_tool_calls_are_refused() -> None:
    with pytest.raises(ModelRefused, match="more than 128 tools"):
        await reply_to(replies(tool_pieces(*(piece(n, f"c{n}", "look", "{}") for n in range(10_000))), 50))


@pytest.mark.parametrize("kind", ["text/html", "application/json", "", "text/event-streams"])
async def test_another_content_type_is_refused_whatever_the_body_says(kind: str) -> None:
    with pytest.raises(ModelRefused, match="instead of text/event-stream"):
        await reply_to(answers("200 OK", json.dumps({"choices": []}).encode(), kind=kind))


async def test_a_content_type_may_name_its_character_set() -> None:
    body = said("fine")
    kind = "Text/Event-Stream; charset=utf-8"
    assert (await reply_to(answers("200 OK", body, kind=kind))).text == "fine"


async def test_a_compressed_reply_is_refused() -> None:
    with pytest.raises(ModelRefused, match="compressed"):
        await reply_to(answers("200 OK", gzip.compress(said("x")), "Content-Encoding: gzip", kind="text/event-stream"))


async def test_a_redirect_is_not_followed() -> None:
    async with hostile_server(replies(said("trapped"))) as trap:
        async with hostile_server(answers("307 Temporary Redirect", b"", f"Location: {trap.url}/x")) as server:
            with pytest.raises(ModelRefused, match="answered 307; redirects are not followed"):
                await whole(model_of(server))
        assert trap.asked == []


# What is too much


def floods(body: bytes, sent: list[int]) -> Behaviour:
    async def behave(line: Line) -> None:
        await line.send(head(chunked=False))
        for n in range(0, len(body), 65_536):
            if line.writer.is_closing():
                break
            await line.send(body[n : n + 65_536])
            sent.append(n)
        line.writer.close()

    return behave


@pytest.mark.parametrize(
    "body",
    [data(*(chunk("x" * 1_000) for _ in range(10_000))), data(chunk("é" * 5_000_000)), b"data: " + b"x" * 20_000_000],
    ids=["many pieces", "one piece", "no line break"],
)
async def test_ten_megabytes_are_refused_and_the_stream_is_cut_off(body: bytes) -> None:
    sent: list[int] = []
    with pytest.raises(ReplyTooLarge, match="1,000,000 bytes") as refusal:
        await reply_to(floods(body, sent))
    assert isinstance(refusal.value, ModelRefused)  # asked again, it would be as large
    assert sent[-1] < len(body) - 65_536


async def test_endless_comments_are_cut_off_too() -> None:
    sent: list[int] = []
    limits = CallLimits(reply_bytes_max=10_000)
    with pytest.raises(ReplyTooLarge):
        await reply_to(floods(b": nothing yet\n" * 100_000, sent), limits=limits)


async def test_arguments_of_tools_count_as_text() -> None:
    body = tool_pieces(*(piece(0, "c1", None, "x" * 1_000) for _ in range(1_100)))
    with pytest.raises(ReplyTooLarge):
        await reply_to(replies(body, 20))


# What takes too long


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (hangs(), "said nothing for 0.3 s"),
        (hangs(head()), "said nothing for 0.3 s"),
        (hangs(b"HTTP/1.1 429 Too Many\r\nContent-Length: 9\r\n\r\n"), "said nothing for 0.3 s"),
        (
            hangs(head() + framed(data(chunk("so far")))),
            "stopped in the middle of its reply and said nothing for 0.3 s",
        ),
        (drips(head(chunked=False) + said("slow" * 200), 0.02), "took longer than 0.4 s for its reply"),
    ],
    ids=["no head", "no body", "no error body", "no more", "one byte at a time"],
)
async def test_every_wait_has_a_deadline(behaviour: Behaviour, message: str) -> None:
    limits = HASTY if "nothing" in message else CallLimits(first_byte_seconds=5, total_seconds=0.4)
    with pytest.raises(ModelUnavailable, match=message):
        await reply_to(behaviour, limits=limits)


async def test_headers_one_byte_at_a_time_are_no_way_around_the_deadline() -> None:
    limits = CallLimits(connect_seconds=0.1, first_byte_seconds=0.1, idle_seconds=5, total_seconds=5)
    with pytest.raises(ModelUnavailable, match=r"said nothing for 0\.1 s"):
        await reply_to(drips(head() * 9, 0.01), limits=limits)


async def test_nothing_after_the_last_word_does_not_hold_the_reply_up_nor_is_the_connection_used_again() -> None:
    async with hostile_server(hangs(head() + framed(said("fine"))), replies(said("again"))) as server:
        model = model_of(server, CallLimits(idle_seconds=5))
        _, first = await whole(model)
        _, second = await whole(model)
        await model.close()
        assert (first.text + second.text, server.connections) == ("fineagain", 2)


async def test_a_connection_is_used_again() -> None:
    async with hostile_server(replies(said("fine"))) as server:
        model = model_of(server)
        for _ in range(5):
            await whole(model)
        await model.close()
        assert server.connections == 1


def closes(closed: asyncio.Event) -> Behaviour:
    async def behave(line: Line) -> None:
        await line.send(head() + framed(data(chunk("so far"))))
        await line.was_closed()
        closed.set()

    return behave


@pytest.mark.parametrize("by", ["cancel", "close"])
async def test_giving_a_call_up_closes_its_connection(by: str) -> None:
    closed = asyncio.Event()
    async with hostile_server(closes(closed)) as server:
        model = model_of(server)
        pieces = model.reply(REQUEST)
        assert isinstance(pieces, AsyncGenerator)
        assert await anext(pieces) == Delta("so far")
        if by == "cancel":
            waiting = asyncio.ensure_future(anext(pieces))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            await pieces.aclose()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await closed.wait()
        await model.close()


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await reply_to(replies(said("direct")))).text == "direct"


async def test_a_proxy_that_the_host_names_is_used() -> None:
    async with hostile_server(replies(said("through"))) as proxy:
        endpoint = Endpoint(server=Server("x"), url="http://models.invalid/v1", proxy=proxy.origin)
        model = OpenAICompatibleModel(endpoint, "m")
        assert (await whole(model))[1].text == "through"
        await model.close()
        assert proxy.asked[0].head.startswith("POST http://models.invalid/v1/chat/completions HTTP/1.1\r\n")


def test_certificates_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    context = Connections().ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509_ca"] > 0  # whatever the environment says


# What servers refuse

TOO_LONG = [
    ("400 X", {"message": "too much", "code": "context_length_exceeded"}),
    ("400 X", {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000"}),
    ("400 X", {"message": "it exceeds the available context size", "type": "exceed_context_size_error"}),
    ("400 X", {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid_request_error"}),
    ("413 X", {"message": ""}),
    ("500 X", {"message": "input is too large, increase the context window"}),
]


@pytest.mark.parametrize(("status", "error"), TOO_LONG)
async def test_a_conversation_that_does_not_fit_is_recognised(status: str, error: dict[str, Any]) -> None:
    with pytest.raises(PromptTooLong):
        await reply_to(fails(status, **error))


@pytest.mark.parametrize("status", ["408 X", "409 X", "425 X", "429 X", "500 X", "502 X", "503 X", "529 X"])
async def test_what_may_pass_is_tried_again(status: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"answered {status[:3]}: busy"):
        await reply_to(fails(status, "busy"))


@pytest.mark.parametrize("status", ["400 X", "401 X", "403 X", "404 X", "422 X", "302 X"])
async def test_what_will_not_pass_is_not(status: str) -> None:
    with pytest.raises(ModelRefused, match=f"test:m at here answered {status[:3]}: no") as refusal:
        await reply_to(fails(status, "no"))
    assert not isinstance(refusal.value, PromptTooLong)
    assert ("check TEST_KEY" in str(refusal.value)) == status.startswith(("401", "403"))


async def test_a_quota_that_is_used_up_is_no_call_to_repeat() -> None:
    with pytest.raises(ModelRefused, match="You exceeded your current quota"):
        await reply_to(fails("429 X", "You exceeded your current quota", code="insufficient_quota"))


async def test_too_many_tokens_a_minute_are_not_too_many_in_a_conversation() -> None:
    with pytest.raises(ModelUnavailable, match="too many tokens this minute"):
        await reply_to(fails("429 X", "too many tokens this minute", code="rate_limit_exceeded"))


async def test_what_only_looks_like_a_key_is_hidden_in_errors_and_words_are_not() -> None:
    with pytest.raises(ModelRefused) as refusal:
        await reply_to(fails("400 X", "sk-other-key-1234567 is no api-key-of-this-project"))
    assert str(refusal.value).endswith(f"400: {REDACTED} is no api-key-of-this-project")


@pytest.mark.parametrize("finish", ["content_filter", "SAFETY"])
async def test_a_filter_that_holds_the_reply_back_is_a_refusal(finish: str) -> None:
    with pytest.raises(ModelRefused, match=finish.lower()):
        await reply_to(replies(said("half", finish=finish)))


async def test_a_model_that_refuses_is_heard() -> None:
    """Not taken for one that said nothing, and asked again."""
    parts = data(chunk(refusal="I cannot help"), chunk(refusal=f" with {KEY}."), chunk(finish="stop"))
    with pytest.raises(ModelRefused, match=r"test:m at here refused: I cannot help with \[redacted\]\."):
        await reply_to(replies(parts + DONE))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "overloaded", "code": 502}, ModelUnavailable),
        ({"message": "overloaded", "type": "overloaded_error"}, ModelUnavailable),
        ({"message": "overloaded", "code": "503"}, ModelUnavailable),
        ({"message": "no such thing", "code": 400}, ModelRefused),
        ({"message": "no", "code": "invalid_request"}, ModelRefused),
        ({"message": "prompt is too long"}, PromptTooLong),
        ("it broke", ModelUnavailable),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_is_one(error: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await reply_to(replies(data(chunk("so far"), {"error": error}) + said("and on")))


async def test_an_error_that_comes_with_200_is_one() -> None:
    with pytest.raises(ModelUnavailable, match="failed while it replied: model is loading"):
        await reply_to(answers("200 OK", b'{"error": "model is loading"}'))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "said so"}}', "said so"),
        (b'{"error": "said so"}', "said so"),
        (b'[{"error": {"message": "said so"}}]', "said so"),
        (b'{"detail": "said so"}', "said so"),
        (b'{"message": "said so", "object": "error"}', "said so"),
        (b"said so", "said so"),
        (b"said\x00\r\n\x1b[31m so", r"said \[31m so"),
        (b"\xff\xfe said so", "said so"),
        (b"[" * 50_000, "…"),
        (b"x" * 1_000_000, "…"),
    ],
)
async def test_of_what_a_server_says_one_short_line_is_kept(body: bytes, words: str) -> None:
    with pytest.raises(ModelRefused, match=words) as refusal:
        await reply_to(answers("400 Bad Request", body))
    assert len(str(refusal.value)) < 400
    assert str(refusal.value).isprintable()


# Keys


async def test_a_key_that_the_model_says_is_hidden_wherever_the_stream_cuts_it() -> None:
    for pieces in (1, 2, 5, 26, 60):
        deltas, reply, _ = await asked(replies(said(f"it is {KEY}, {KEY[:9]} and {KEY}", pieces=pieces), 200))
        assert reply.text == "".join(deltas) == f"it is {REDACTED}, {KEY[:9]} and {REDACTED}"


async def test_a_key_in_the_arguments_of_a_tool_is_hidden() -> None:
    half = piece(0, KEY, "look", f'{{"key": "{KEY[:8]}')
    (call,) = (await reply_to(replies(tool_pieces(half, piece(0, None, None, KEY[8:] + '"}'))))).tool_calls
    assert (call.id, call.arguments) == (REDACTED, f'{{"key":"{REDACTED}"}}')


@pytest.mark.parametrize(
    "behaviour",
    [
        fails("401 X", f"Incorrect API key provided: {KEY}"),
        fails("500 X", f"headers: Authorization: Bearer {KEY}"),
        answers("403 X", KEY.encode(), f"X-Echo: {KEY}"),
        answers("200 OK", b"", kind=f"text/{KEY}"),
        replies(data({"error": {"message": KEY}})),
        replies(b"data: " + KEY.encode() + b"\n\n"),
        sends(f"{KEY}\r\n\r\n".encode()),
        answers("302 X", b"", f"Location: http://127.0.0.1/{KEY}"),
    ],
)
async def test_a_key_that_comes_back_is_in_no_message(behaviour: Behaviour) -> None:
    with pytest.raises((ModelRefused, ModelUnavailable)) as failure:
        await reply_to(behaviour)
    assert KEY not in str(failure.value)
    assert KEY not in repr(failure.value)


def test_an_endpoint_does_not_show_its_key() -> None:
    assert KEY not in repr(Endpoint(server=Server("x"), url="http://x", key=KEY))
