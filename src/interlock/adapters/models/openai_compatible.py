"""Servers that speak OpenAI's chat completions: OpenAI itself, OpenRouter, Ollama, vLLM, llama.cpp and others.

Rule 1: every wait has a deadline on the monotonic clock: for a connection, for the first byte, between bytes, for all.
Rule 2: a call that is given up closes its connection at once, so that the server stops working on it.
Rule 3: nothing but a whole reply is one; everything else is a `PortError` that says what happened and is safe to show.
Rule 4: redirects are not followed, and a key goes nowhere but to the address it was checked for.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.adapters.models.chat_request import body_of, tool_names
from interlock.adapters.models.chat_stream import DONE, ChatStream
from interlock.adapters.models.connections import Connections
from interlock.adapters.models.constraining import SCHEMA, advice_for, ending_for, fields_for
from interlock.adapters.models.deadlines import Deadlines
from interlock.adapters.models.endpoint import Endpoint
from interlock.adapters.models.event_lines import EventLines
from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.models.provider_failures import body_as_error, failure_of, retry_after_ms
from interlock.engine.grammar import Ending
from interlock.errors import ModelRefused, ModelUnavailable, ReplyTooLarge
from interlock.ports import Delta, ModelReply, ModelRequest

if TYPE_CHECKING:
    from httpx2 import URL, AsyncHTTPTransport, Request, Response

Pieces = AsyncIterator[bytes]

EVENT_STREAM = "text/event-stream"

HEADERS = {
    "Content-Type": "application/json",
    "Accept": EVENT_STREAM,
    "Accept-Encoding": "identity",  # what is small on the wire and huge in memory is not asked for
    "User-Agent": "interlock",
}

# A stream carries each piece of text in a few hundred bytes of its own.
STREAM_SHARE = 64

# An error's body is read as far as a person would.
ERROR_BYTES_MAX = 64 * 1024

# After the last word the end of the stream is normally there already; without it the connection cannot be used again.
END_SECONDS = 0.1


class OpenAICompatibleModel:
    """One model of one server."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        *,
        connections: Connections | None = None,
        keys: KnownKeys | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`keys` are all that must not be heard of; `extra` are fields of the body that only this server knows."""
        self.endpoint, self.model = endpoint, model
        self._connections = connections or Connections(endpoint.proxy)
        self._keys = keys or KnownKeys([endpoint.key])
        self._extra = extra
        self._url: URL | None = None  # taken apart by the first call

    async def close(self) -> None:
        await self._connections.close()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        limits, stream = self.endpoint.limits, self._stream_for(request)
        lines = EventLines(limits.reply_bytes_max * 6 + ERROR_BYTES_MAX)  # an escape takes six bytes a character
        transport = self._connections.take()  # the first one loads what it needs; no deadline runs yet
        deadlines = Deadlines(self.endpoint.server.name, limits)
        ending = ending_for(request, self.endpoint.constrains, with_tools=self.endpoint.constrains_with_tools)
        body = body_of(self.model, request, self._fields(ending))
        async with self._answered(transport, self._request(body, request.key), deadlines) as (response, pieces):
            await self._require_stream(response, pieces, deadlines, advice_for(ending, has_tools=bool(request.tools)))
            is_framed, size = _is_framed(response), 0
            while not stream.is_done and (data := await deadlines.next_of(pieces)) is not None:
                size += len(data)
                if size > limits.reply_bytes_max * STREAM_SHARE or lines.is_overlong:
                    raise ReplyTooLarge(self.endpoint.server.name, limits.reply_bytes_max)
                text = "".join(map(stream.take, lines.add(data)))
                if text and not self._is_json(ending):
                    yield Delta(text)
            last = (payload for payload in lines.last() if is_framed or payload == DONE)
            text = "".join(map(stream.take, last)) + stream.rest()
            if text and not self._is_json(ending):
                yield Delta(text)
            await _see_the_end(pieces)
        yield self._held_to(ending, stream.reply(is_framed=is_framed))

    def _fields(self, ending: Ending | None) -> Mapping[str, Any] | None:
        if ending is None:
            return self._extra
        return {**(self._extra or {}), **fields_for(ending, self.endpoint.constrains, self.endpoint.sentences)}

    def _is_json(self, ending: Ending | None) -> bool:
        """Whether the pieces of the answer are no pieces of the reply."""
        return ending is not None and self.endpoint.constrains == SCHEMA

    def _held_to(self, ending: Ending | None, reply: ModelReply) -> ModelReply:
        if ending is None:
            return reply
        if reply.tool_calls:  # it does not end the turn, and its text is held to nothing
            return reply
        text = ending.reply_of(reply.text) if self._is_json(ending) else reply.text
        return msgspec.structs.replace(reply, text=text, constrained=True)

    def _stream_for(self, request: ModelRequest) -> ChatStream:
        bytes_max = self.endpoint.limits.reply_bytes_max
        return ChatStream(
            self.endpoint.server, self._keys, key=request.key, tools=tool_names(request), bytes_max=bytes_max
        )

    @asynccontextmanager
    async def _answered(
        self, transport: "AsyncHTTPTransport", request: "Request", deadlines: Deadlines
    ) -> AsyncIterator[tuple["Response", Pieces]]:
        """The response with its body still to come; leaving early, for whatever reason, closes the connection."""
        from httpx2 import TransportError

        try:
            with deadlines:
                response = await deadlines.bounded(transport.handle_async_request(request), opening=True)
                async with _closing(response) as pieces:
                    yield response, pieces
        except BaseException as error:
            await transport.aclose()
            if isinstance(error, TransportError):
                raise ModelUnavailable(self._dropped(error)) from error
            raise
        await self._connections.give_back(transport)

    def _request(self, body: bytes, call: str) -> "Request":
        """With the key of the call where the server takes one: after a crash the same call is not paid for twice."""
        from httpx2 import URL, Request

        if self._url is None:
            self._url = URL(f"{self.endpoint.url}/chat/completions")
        limits, key, header = self.endpoint.limits, self.endpoint.key, self.endpoint.idempotency_header
        own = {"Authorization": f"Bearer {key}"} if key else {}
        return Request(
            "POST",
            self._url,
            headers=HEADERS | own | ({header: call} if header else {}),
            content=body,
            extensions={"timeout": {"connect": limits.connect_seconds}},
        )

    def _dropped(self, error: Exception) -> str:
        from httpx2 import ConnectError, ConnectTimeout

        words = self._keys.safe_line(str(error)) or type(error).__name__
        if isinstance(error, ConnectTimeout):
            return f"{self.endpoint.server.name} took longer than {self.endpoint.limits.connect_seconds:g} s to connect"
        what = "cannot be reached" if isinstance(error, ConnectError) else "dropped the connection"
        return f"{self.endpoint.server.name} {what}: {words}"

    async def _require_stream(self, response: "Response", pieces: Pieces, deadlines: Deadlines, advice: str) -> None:
        """Goes on with an event stream only; everything else is read as an error, with advice if it was refused."""
        server, headers = self.endpoint.server, response.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == 200 and kind == EVENT_STREAM:
            if headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise ModelRefused(f"{server.name} compressed its reply, which nobody asked for")
            return
        error = body_as_error(await _beginning(pieces, deadlines))
        if response.status_code == 200 and not (kind == "application/json" and _is_error(error)):
            shown = self._keys.safe_line(kind) or "nothing"
            raise ModelRefused(f"{server.name} answered with {shown} instead of {EVENT_STREAM}; check provider_url")
        wait = retry_after_ms(headers.get("retry-after"), int(time.time() * 1000))
        raise failure_of(server, self._keys, _status(response.status_code), error, wait, advice)


@asynccontextmanager
async def _closing(response: "Response") -> AsyncIterator[Pieces]:
    """The bytes of the body. The connection is closed first, because that is what stops the server."""
    assert not isinstance(response.stream, Iterable), "an async transport gives async streams"
    pieces = aiter(response.stream)
    try:
        yield pieces
    finally:
        await response.stream.aclose()
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


async def _beginning(pieces: Pieces, deadlines: Deadlines) -> bytes:
    """As much of a body as an error needs."""
    body = b""
    while len(body) < ERROR_BYTES_MAX and (data := await deadlines.next_of(pieces)) is not None:
        body += data
    return body[:ERROR_BYTES_MAX]


async def _see_the_end(pieces: Pieces) -> None:
    from httpx2 import TransportError

    with suppress(TimeoutError, TransportError):  # the reply is whole; what is wrong now is the connection's
        async with asyncio.timeout(END_SECONDS):
            await anext(pieces, None)


def _is_framed(response: "Response") -> bool:
    """Whether the end of the body is marked, so that the transport would have noticed if it had broken off."""
    return "content-length" in response.headers or "transfer-encoding" in response.headers


def _is_error(error: object) -> bool:
    return isinstance(error, str) or (isinstance(error, dict) and "choices" not in error)


def _status(status: int) -> int | None:
    """An error that came with 200 says itself what it is."""
    return None if status == 200 else status
