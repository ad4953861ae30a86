"""A provider on the loopback that is as strict as the real one. Each dialect is one class on top of `DialectServer`.

Rule 1: it lives in a thread of its own, for as long as its `with` block, so it serves tests with and without a loop.
Rule 2: a request is checked before a reply is taken. One that the real provider would refuse gets the provider's own
        error and uses up no reply. With no reply left the answer is a 500 that says so.
Rule 3: replies are written in words that all dialects share (`Say`), so that one story can run over all of them.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import msgspec

from tests.loopback import listening

T = TypeVar("T")


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply cost. `input` counts the whole prompt and `output` the whole reply, as Interlock counts them."""

    input: int = 11
    output: int = 7
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model asks for. The dialect gives it an id if there is none."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """A reply. The dialect adds its own signatures, ids and events."""

    text: str = ""
    reasoning: str = ""
    uses: tuple[Use, ...] = ()
    tokens: Tokens = Tokens()
    stop: str = ""  # the provider's own word for why it stopped; empty for its usual one
    extra: dict[str, Any] = {}  # what only one dialect knows


class Refusal(Exception):
    """An error of the provider: raised by its checks, or put among the replies."""

    def __init__(
        self,
        status: int,
        message: str,
        type: str = "",  # noqa: A002 - as in the errors of providers
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type = status, message, type
        self.headers, self.more = dict(headers or {}), more


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Reply = Say | Refusal | Callable[[Call], Say | Refusal]


class DialectServer:
    """Answers the n-th request that it does not refuse with the n-th of `replies`."""

    root: ClassVar[str] = ""  # the path that belongs to the address, such as /v1
    answered: ClassVar[list[str]] = []  # the modules of the dialects that have given a reply, for `features`

    def __init__(self, *replies: Reply) -> None:
        self.replies: deque[Reply] = deque(replies)
        self.calls: list[Call] = []  # all of them, the refused ones too
        self.refusals: list[Refusal] = []  # what was refused by its checks, never by a reply
        self.url = ""
        self._over: Callable[[], object] = lambda: None
        self._thread: threading.Thread | None = None

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of all requests, decoded."""
        return [call.body for call in self.calls]

    # What a dialect says

    def check(self, call: Call) -> None:
        """Refuses, by `refuse`, what the provider refuses."""
        raise NotImplementedError

    def write(self, call: Call, say: Say) -> tuple[str, bytes]:
        """The content type and the body of a reply."""
        raise NotImplementedError

    def error_body(self, refusal: Refusal) -> dict[str, Any]:
        """An error in the provider's own form."""
        raise NotImplementedError

    # What a dialect uses

    def refuse(self, status: int, message: str, type: str = "", **more: Any) -> NoReturn:  # noqa: A002
        raise Refusal(status, message, type, **more)

    def read(self, value: Any, form: type[T]) -> T:
        """The value as a struct with `forbid_unknown_fields`; a wrong type or an unknown field is refused."""
        try:
            return msgspec.convert(value, form, strict=True)
        except msgspec.ValidationError as error:
            self.refuse_shape(str(error))

    def refuse_shape(self, fault: str) -> NoReturn:
        """Refuses a body of the wrong shape; `fault` is the message of msgspec."""
        self.refuse(400, fault, "invalid_request_error")

    # How it is served

    def __enter__(self) -> Self:
        ready: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), daemon=True)
        self._thread.start()
        port, loop, over = ready.result(timeout=10)
        self.url = f"http://127.0.0.1:{port}{self.root}"
        self._over = lambda: loop.call_soon_threadsafe(over.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._over()
        assert self._thread is not None
        self._thread.join(timeout=10)
        assert not self._thread.is_alive()

    async def _live(self, ready: "Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        over = asyncio.Event()
        async with listening(self._talk) as port:
            ready.set_result((port, asyncio.get_running_loop(), over))
            await over.wait()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                writer.write(self._answer(await _read_call(reader)))
                await writer.drain()

    def _answer(self, call: Call) -> bytes:
        self.calls.append(call)
        try:
            self.check(call)
        except Refusal as refusal:
            self.refusals.append(refusal)
            return self._refused(refusal)
        if not self.replies:
            return self._refused(Refusal(500, "the test gave no reply for this request", "server_error"))
        reply = self.replies.popleft()
        said = reply(call) if callable(reply) else reply
        if isinstance(said, Refusal):
            return self._refused(said)
        kind, body = self.write(call, said)
        self.answered.append(type(self).__module__.rpartition(".")[2])
        return _response(200, kind, body)

    def _refused(self, refusal: Refusal) -> bytes:
        body = json.dumps(self.error_body(refusal)).encode()
        return _response(refusal.status, "application/json", body, refusal.headers)


async def _read_call(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(method=method, path=path, headers=headers, body=json.loads(raw) if raw else {})


def _response(status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def event_lines(*events: Any, named: bool = False) -> bytes:
    """Events of a stream; `named` ones have their `type` as the name of the event too."""
    lines = [(f"event: {each['type']}\n" if named else "") + f"data: {json.dumps(each)}\n\n" for each in events]
    return "".join(lines).encode()


def pieces_of(text: str, count: int = 3) -> list[str]:
    """The text in about so many pieces, as a stream carries it."""
    size = max(1, -(-len(text) // count))
    return [text[n : n + size] for n in range(0, len(text), size)]
