"""A proxy in front of a PostgreSQL server whose connections can be stalled, delayed, cut and reset, by lane.

Rule 1: it runs in a thread of its own; what it does is changed from other threads and holds for bytes that come later.
Rule 2: a lane is known by the client's words: the session that says who is alive, reads, and all else, which writes.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from typing import NamedTuple

SESSION, READ, WRITE = "session", "read", "write"
LANES = (SESSION, READ, WRITE)

# Words that only the connection of a lane sends.
_OF_SESSION = b"idle_session_timeout="
_OF_READS = b"idle_in_transaction_session_timeout = '30s'"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class Conduct(NamedTuple):
    """What happens to the bytes of a lane. What is stalled waits and is passed on later, unless it is cut before."""

    stalls_questions: bool = False
    stalls_answers: bool = False
    stalls_answers_to: int = 0  # only those to questions of at least so many bytes
    delay_s: float = 0.0
    refuses: bool = False


OPEN = Conduct()
HALF_OPEN = Conduct(stalls_questions=True, stalls_answers=True)
# Appends are longer than claims, releases and signs of life.
APPENDS_UNANSWERED = Conduct(stalls_answers_to=900)


class ChaosProxy:
    """Listens on the loopback, and passes everything on to a Unix socket."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._conduct = dict.fromkeys(LANES, OPEN)
        self._links: set[_Link] = set()
        self.stalled = 0  # how often a piece had to wait
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)
        self._thread.start()
        self._changed = asyncio.Event()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = server.result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def url(self, schema: str) -> str:
        return f"postgres://interlock@127.0.0.1:{self.port}/postgres?schema={schema}&sslmode=disable"

    def behave(self, conduct: Conduct, *lanes: str) -> None:
        """Sets what happens from now on; to all lanes if none is named."""

        async def change() -> None:
            self._conduct.update(dict.fromkeys(lanes or LANES, conduct))
            self._changed.set()
            self._changed = asyncio.Event()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10)

    def cut(self, *lanes: str, reset: bool = False) -> None:
        """Ends the connections of the lanes, with a reset if told."""

        async def end() -> None:
            for link in [link for link in self._links if link.lane in (lanes or LANES)]:
                link.end(reset=reset)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def count(self, *lanes: str) -> int:
        """How many connections the lanes have."""
        return sum(link.lane in (lanes or LANES) for link in tuple(self._links))

    def close(self) -> None:
        async def end_all() -> None:
            self._server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the thread

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, questions = await asyncio.open_unix_connection(self._target)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        link = _Link(writer, questions)
        self._links.add(link)
        with suppress(asyncio.CancelledError):  # the proxy is closed
            await asyncio.gather(self._pass_questions(link, reader), self._pass_answers(link, answers))
        self._links.discard(link)
        link.end(reset=False)

    async def _pass_questions(self, link: "_Link", reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                link.learn(piece)
                if self._conduct[link.lane].refuses:
                    break
                await self._wait(link, lambda conduct: conduct.stalls_questions)
                link.question_bytes = len(piece)
                link.to_server.write(piece)
                await link.to_server.drain()
        link.end(reset=False)

    async def _pass_answers(self, link: "_Link", answers: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while piece := await answers.read(65536):
                await self._wait(link, partial(_stalls_answer, link))
                link.to_client.write(piece)
                await link.to_client.drain()
        link.end(reset=False)

    async def _wait(self, link: "_Link", stalls: Callable[[Conduct], bool]) -> None:
        if delay := self._conduct[link.lane].delay_s:
            await asyncio.sleep(delay)
        while stalls(self._conduct[link.lane]) and not link.to_client.is_closing():
            self.stalled += 1
            await self._changed.wait()


class _Link:
    """A connection of a client and the one behind it."""

    def __init__(self, to_client: asyncio.StreamWriter, to_server: asyncio.StreamWriter) -> None:
        self.to_client, self.to_server, self.lane = to_client, to_server, WRITE
        self.question_bytes = 0

    def learn(self, piece: bytes) -> None:
        if _OF_SESSION in piece:
            self.lane = SESSION
        elif _OF_READS in piece:
            self.lane = READ

    def end(self, *, reset: bool) -> None:
        given = self.to_client.get_extra_info("socket")
        if reset and given is not None:
            given.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.to_client.transport.abort()
        self.to_client.close()
        self.to_server.close()


def _stalls_answer(link: _Link, conduct: Conduct) -> bool:
    return conduct.stalls_answers or 0 < conduct.stalls_answers_to <= link.question_bytes


@contextmanager
def chaos_proxy(target: str) -> Iterator[ChaosProxy]:
    proxy = ChaosProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
