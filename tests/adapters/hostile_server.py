"""A model server on the loopback whose every byte is under the test's control.

Rule 1: what a connection gets is written by a `Behaviour`, raw; the server adds nothing.
Rule 2: it lives in the test's own loop and dies with its block; connections that still hang are cut then.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from tests.loopback import listening


class Line:
    """One connection, as the server sees it, after the request was read."""

    def __init__(self, request: "Asked", writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self.request, self.writer, self._reader = request, writer, reader

    async def send(self, data: bytes) -> None:
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def was_closed(self) -> None:
        """Returns when the client has hung up."""
        with suppress(ConnectionError):
            while await self._reader.read(1024):
                pass


class Asked:
    """A request as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head, self.raw = head.decode("latin-1"), body

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found


Behaviour = Callable[[Line], Awaitable[None]]


class HostileServer:
    """Answers its n-th request by its n-th behaviour, and all after the last by the last."""

    def __init__(self, behaviours: Sequence[Behaviour]) -> None:
        self.behaviours = behaviours
        self.asked: list[Asked] = []
        self.connections = 0
        self.url = ""

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/v1")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length"))
        request = Asked(head, await reader.readexactly(length))
        self.asked.append(request)
        behaviour = self.behaviours[min(len(self.asked), len(self.behaviours)) - 1]
        await behaviour(Line(request, writer, reader))
        if writer.is_closing():
            raise ConnectionResetError


@asynccontextmanager
async def hostile_server(*behaviours: Behaviour) -> AsyncIterator[HostileServer]:
    server = HostileServer(behaviours)
    async with listening(server.serve) as port:
        server.url = f"http://127.0.0.1:{port}/v1"
        yield server


# What is said


def chunk(content: str | None = None, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    said = {"content": content, **delta} if content is not None else delta
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def data(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in chunks)


USAGE = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}
DONE = b"data: [DONE]\n\n"


def said(text: str, *, pieces: int = 4, finish: str = "stop", usage: Any = USAGE) -> bytes:
    """The body of a whole reply."""
    step = max(1, -(-len(text) // pieces))
    parts = [chunk(text[n : n + step]) for n in range(0, len(text), step)]
    return data(chunk(role="assistant"), *parts, chunk(finish=finish), usage) + DONE


def tool_pieces(*pieces: dict[str, Any], finish: str = "tool_calls") -> bytes:
    return data(*(chunk(tool_calls=[piece]) for piece in pieces), chunk(finish=finish), USAGE) + DONE


# How it is sent


def head(status: str = "200 OK", kind: str = "text/event-stream", *more: str, chunked: bool = True) -> bytes:
    framing = ["Transfer-Encoding: chunked"] if chunked else []
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {kind}"] if kind else []), *framing, *more]
    return "\r\n".join([*lines, "", ""]).encode()


def framed(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body) if body else b""


def replies(body: bytes, pieces: int = 1) -> Behaviour:
    """The body, whole, in so many chunks, over a connection that stays open."""

    async def behave(line: Line) -> None:
        step = max(1, -(-len(body) // pieces))
        await line.send(head())
        for n in range(0, len(body), step):
            await line.send(framed(body[n : n + step]))
        await line.send(b"0\r\n\r\n")

    return behave


def sends(raw: bytes) -> Behaviour:
    """These bytes, and then the connection is closed."""

    async def behave(line: Line) -> None:
        await line.send(raw)
        line.writer.close()

    return behave


def answers(status: str, body: bytes, *more: str, kind: str = "application/json") -> Behaviour:
    async def behave(line: Line) -> None:
        await line.send(head(status, kind, f"Content-Length: {len(body)}", *more, chunked=False) + body)

    return behave


def fails(status: str, message: str, *more: str, **error: Any) -> Behaviour:
    return answers(status, json.dumps({"error": {"message": message, **error}}).encode(), *more)


def drips(raw: bytes, pause_seconds: float, before: bytes = b"") -> Behaviour:
    """A byte at a time, until the client hangs up; what comes before is sent at once."""

    async def behave(line: Line) -> None:
        await line.send(before)
        for n in range(len(raw)):
            if line.writer.is_closing():
                return
            await line.send(raw[n : n + 1])
            await asyncio.sleep(pause_seconds)

    return behave


def hangs(raw: bytes = b"") -> Behaviour:
    """These bytes, and then nothing until the client hangs up."""

    async def behave(line: Line) -> None:
        await line.send(raw)
        await line.was_closed()
        line.writer.close()

    return behave


@contextmanager
def served_beside(*behaviours: Behaviour) -> Iterator[HostileServer]:
    """The server in a thread of its own, for tests of commands that run a loop themselves."""
    ready: Future[tuple[HostileServer, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        over = asyncio.Event()
        async with hostile_server(*behaviours) as server:
            ready.set_result((server, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    server, loop, over = ready.result(timeout=10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(timeout=10)
        assert not thread.is_alive()
