"""Servers that speak OpenAI's chat completions or Responses: OpenAI itself, OpenRouter, DeepSeek, Ollama and others.

Rule 1: every wait has a deadline on the monotonic clock: for a connection, for the first byte, between bytes, for all.
Rule 2: an abandoned call closes its connection immediately, so that the server stops working on it.
Rule 3: only a complete reply counts; everything else is a `PortError` that tells what happened and is safe to show.
Rule 4: redirects are not followed, and a key is sent only to the address that was checked for it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.call_deadlines import CallDeadlines
from interlock.adapters.models.openai.chat_request import chat_body, tool_names
from interlock.adapters.models.openai.chat_stream import ChatStream
from interlock.adapters.models.openai.connections import Connections
from interlock.adapters.models.openai.constrained_decoding import (
    SCHEMA,
    advice_for,
    ending_for,
    fields_for,
    output_fields,
)
from interlock.adapters.models.openai.endpoint import RESPONSES, Endpoint
from interlock.adapters.models.openai.event_lines import EventLines
from interlock.adapters.models.openai.provider_failures import body_as_error, failure_of, retry_after_ms
from interlock.adapters.models.openai.reply_assembly import DONE, ReplyAssembly
from interlock.adapters.models.openai.responses_request import responses_body
from interlock.adapters.models.openai.responses_stream import ResponsesStream
from interlock.adapters.models.typed_output import OutputPlan, plan_output, without_thoughts
from interlock.adapters.models.wire_schemas import GRAMMAR_SERVERS, OPENAI
from interlock.engine.prompt.grammar import ReplyEnding
from interlock.errors import ModelRefused, ModelUnavailable, PortError, ReplyTooLarge
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta

if TYPE_CHECKING:
    from httpx2 import URL, AsyncHTTPTransport, Request, Response

Pieces = AsyncIterator[bytes]

EVENT_STREAM = "text/event-stream"

HEADERS = {
    "Content-Type": "application/json",
    "Accept": EVENT_STREAM,
    "Accept-Encoding": "identity",  # a small compressed body could be huge in memory
    "User-Agent": "interlock",
}

# A stream needs a few hundred bytes of overhead per piece of text.
STREAM_SHARE = 64

# The part of an error's body that a person would read.
ERROR_BYTES_MAX = 64 * 1024

# After the last word the end of the stream is usually there already; without it the connection cannot be reused.
END_SECONDS = 0.1


class OpenAICompatibleModel:
    """One model of one server."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        *,
        connections: Connections | None = None,
        keys: KnownSecrets | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`keys` are the secrets to redact; `extra` are fields of the body for this server only."""
        self.endpoint, self.model = endpoint, model
        self._connections = connections or Connections(endpoint.proxy)
        self._keys = keys or KnownSecrets([endpoint.key])
        self._extra = extra
        self._url: URL | None = None  # parsed by the first call
        is_responses = endpoint.api == RESPONSES
        self._path = "/responses" if is_responses else "/chat/completions"
        self._body_of = responses_body if is_responses else chat_body
        self._stream_of: type[ReplyAssembly] = ResponsesStream if is_responses else ChatStream

    async def close(self) -> None:
        await self._connections.close()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        plan = self._plan(request)
        request = request if plan is None else plan.request
        limits, stream = self.endpoint.limits, self._stream_for(request)
        lines = EventLines(limits.reply_bytes_max * 6 + ERROR_BYTES_MAX)  # an escape takes six bytes per character
        transport = self._connections.acquire()  # the first one loads modules; no deadline runs yet
        deadlines = CallDeadlines(self.endpoint.server.name, limits)
        ending = ending_for(request, self.endpoint.constrains, with_tools=self.endpoint.constrains_with_tools)
        ending, is_json = self._ending_beside(plan, ending)
        body = self._body_of(self.endpoint, self.model, request, self._fields(ending, plan))
        async with self._open_response(transport, self._request(body, request.key), deadlines) as (response, pieces):
            await self._require_stream(response, pieces, deadlines, advice_for(ending, has_tools=bool(request.tools)))
            is_framed, size = _is_framed(response), 0
            while not stream.is_done and (data := await deadlines.next_piece(pieces)) is not None:
                size += len(data)
                if size > limits.reply_bytes_max * STREAM_SHARE or lines.is_overlong:
                    raise ReplyTooLarge(self.endpoint.server.name, limits.reply_bytes_max)
                for piece in stream.add_payloads(lines.add(data)):
                    if not is_json or isinstance(piece, ReasoningDelta):
                        yield piece
            last = (payload for payload in lines.last() if is_framed or payload == DONE)
            for piece in (*stream.add_payloads(last), *stream.flush()):
                if not is_json or isinstance(piece, ReasoningDelta):
                    yield piece
            await _wait_for_end(pieces)
        try:
            reply = stream.reply(is_framed=is_framed)
            reply = plan.reply_of(reply) if plan is not None else self._as_constrained(ending, reply)
        except PortError as error:
            error.usage = stream.usage
            raise
        yield reply

    def _plan(self, request: ModelRequest) -> OutputPlan | None:
        dialect = GRAMMAR_SERVERS if self.endpoint.takes_bounds else OPENAI
        with_tools = self.endpoint.constrains_with_tools
        return plan_output(request, self.endpoint.outputs, dialect, with_tools=with_tools)

    def _ending_beside(self, plan: OutputPlan | None, ending: ReplyEnding | None) -> tuple[ReplyEnding | None, bool]:
        """The ending to constrain, and whether the text is JSON. A plan for a value includes the marks."""
        if plan is not None:
            return None, plan.is_json
        return ending, self._is_json(ending)

    def _fields(self, ending: ReplyEnding | None, plan: OutputPlan | None) -> Mapping[str, Any] | None:
        if plan is not None:
            return {**(self._extra or {}), **output_fields(plan, brief=bool(self.endpoint.sentences))}
        if ending is None:
            return self._extra
        return {**(self._extra or {}), **fields_for(ending, self.endpoint.constrains, self.endpoint.sentences)}

    def _is_json(self, ending: ReplyEnding | None) -> bool:
        """True if the body is JSON, so that its pieces are not text of the reply."""
        return ending is not None and self.endpoint.constrains == SCHEMA

    def _as_constrained(self, ending: ReplyEnding | None, reply: ModelReply) -> ModelReply:
        if ending is None:
            return reply
        if reply.tool_calls:  # it does not end the turn, and its text is not constrained
            return reply
        if self._is_json(ending):
            reply = without_thoughts(reply)
            reply = msgspec.structs.replace(reply, text=ending.reply_of(reply.text))
        return msgspec.structs.replace(reply, constrained=True)

    def _stream_for(self, request: ModelRequest) -> ReplyAssembly:
        return self._stream_of(self.endpoint, self._keys, key=request.key, tools=tool_names(request))

    @asynccontextmanager
    async def _open_response(
        self, transport: "AsyncHTTPTransport", request: "Request", deadlines: CallDeadlines
    ) -> AsyncIterator[tuple["Response", Pieces]]:
        """Opens the response before its body; leaving early, for any reason, closes the connection."""
        from httpx2 import TransportError

        try:
            with deadlines:
                response = await deadlines.wait_bounded(transport.handle_async_request(request), opening=True)
                async with _open_body(response) as pieces:
                    yield response, pieces
        except BaseException as error:
            await transport.aclose()
            if isinstance(error, TransportError):
                raise ModelUnavailable(self._transport_fault(error)) from error
            raise
        await self._connections.release(transport)

    def _request(self, body: bytes, call: str) -> "Request":
        """The request, with the idempotency key of the call if the server supports one: a crash must not pay twice."""
        from httpx2 import URL, Request

        if self._url is None:
            self._url = URL(f"{self.endpoint.url}{self._path}")
        limits, key, header = self.endpoint.limits, self.endpoint.key, self.endpoint.idempotency_header
        own = {"Authorization": f"Bearer {key}"} if key else {}
        return Request(
            "POST",
            self._url,
            headers=HEADERS | own | ({header: call} if header else {}),
            content=body,
            extensions={"timeout": {"connect": limits.connect_seconds}},
        )

    def _transport_fault(self, error: Exception) -> str:
        from httpx2 import ConnectError, ConnectTimeout

        words = self._keys.safe_line(str(error)) or type(error).__name__
        if isinstance(error, ConnectTimeout):
            return f"{self.endpoint.server.name} took longer than {self.endpoint.limits.connect_seconds:g} s to connect"
        what = "cannot be reached" if isinstance(error, ConnectError) else "dropped the connection"
        return f"{self.endpoint.server.name} {what}: {words}"

    async def _require_stream(
        self, response: "Response", pieces: Pieces, deadlines: CallDeadlines, advice: str
    ) -> None:
        """Raises an error unless the response is an event stream, with advice if the request was refused."""
        server, headers = self.endpoint.server, response.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == 200 and kind == EVENT_STREAM:
            if headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise ModelRefused(f"{server.name} compressed its reply without being asked to")
            return
        error = body_as_error(await _read_error_body(pieces, deadlines))
        if response.status_code == 200 and not (kind == "application/json" and _is_error(error)):
            shown = self._keys.safe_line(kind) or "nothing"
            raise ModelRefused(f"{server.name} answered with {shown} instead of {EVENT_STREAM}; check provider_url")
        wait = retry_after_ms(headers.get("retry-after"), int(time.time() * 1000))
        raise failure_of(server, self._keys, _status_or_none(response.status_code), error, wait, advice)


@asynccontextmanager
async def _open_body(response: "Response") -> AsyncIterator[Pieces]:
    """The bytes of the body. The connection is closed first, because that stops the server."""
    assert not isinstance(response.stream, Iterable), "an async transport gives async streams"
    pieces = aiter(response.stream)
    try:
        yield pieces
    finally:
        await response.stream.aclose()
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


async def _read_error_body(pieces: Pieces, deadlines: CallDeadlines) -> bytes:
    """Reads as much of a body as an error needs."""
    body = b""
    while len(body) < ERROR_BYTES_MAX and (data := await deadlines.next_piece(pieces)) is not None:
        body += data
    return body[:ERROR_BYTES_MAX]


async def _wait_for_end(pieces: Pieces) -> None:
    from httpx2 import TransportError

    with suppress(TimeoutError, TransportError):  # the reply is complete; only the connection failed
        async with asyncio.timeout(END_SECONDS):
            await anext(pieces, None)


def _is_framed(response: "Response") -> bool:
    """True if the end of the body is marked, so that the transport notices if it breaks off."""
    return "content-length" in response.headers or "transfer-encoding" in response.headers


def _is_error(error: object) -> bool:
    return isinstance(error, str) or (isinstance(error, dict) and "choices" not in error)


def _status_or_none(status: int) -> int | None:
    """The status, or None for 200: then the error itself tells what it is."""
    return None if status == 200 else status
