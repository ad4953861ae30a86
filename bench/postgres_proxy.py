"""A TCP proxy before PostgreSQL that delays what passes, and counts round trips.

Rule 1: a round trip is a message after which a client waits for the server: `Query`, or the `Sync` of the extended
protocol. They are counted from outside, so a client cannot forget one.
Rule 2: each direction waits half of the round trip; bytes keep their order and are not slowed down otherwise.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

# The first message of a connection has no type; those after it have one byte, and the length with the next four.
HEAD_BYTES, LENGTH_BYTES = 5, 4
WAITS_AFTER = (b"Q"[0], b"S"[0])


class RoundTrips:
    """Counts the messages of one client."""

    def __init__(self) -> None:
        self._buffer, self._is_started = bytearray(), False
        self.count = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data
        head = HEAD_BYTES if self._is_started else LENGTH_BYTES
        while len(self._buffer) >= head:
            size = int.from_bytes(self._buffer[head - LENGTH_BYTES : head], "big") + head - LENGTH_BYTES
            if len(self._buffer) < size:
                return
            self.count += self._is_started and self._buffer[0] in WAITS_AFTER
            del self._buffer[:size]
            # A request for TLS has 8 bytes, and the message that starts the connection follows it.
            if not self._is_started and size > 2 * LENGTH_BYTES:
                self._is_started, head = True, HEAD_BYTES


class DelayProxy:
    """Forwards connections to the Unix socket of a server, from a thread of its own. `round_trip_s` may be changed."""

    def __init__(self, socket: Path, round_trip_s: float = 0.0) -> None:
        self._socket, self.round_trip_s = socket, round_trip_s
        self._counts: list[RoundTrips] = []
        self._ready, self._loop = Event(), asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @property
    def round_trips(self) -> int:
        """Of all connections since the start."""
        return sum(each.count for each in self._counts)

    def url(self, schema: str) -> str:
        return f"postgres://interlock@127.0.0.1:{self._port}/postgres?schema={schema}&sslmode=disable"

    # In the thread

    async def _serve(self) -> None:
        self._stopping, self._tasks = asyncio.Event(), set[asyncio.Task[None]]()
        server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(str(self._socket))
        counted = RoundTrips()
        self._counts.append(counted)
        for way in (self._pass_on(reader, there_writer, counted), self._pass_on(there_reader, writer, None)):
            task = asyncio.create_task(way)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: RoundTrips | None
    ) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(waiting, writer))
        try:
            with suppress(OSError):
                while data := await reader.read(2**16):
                    if counted is not None:
                        counted.feed(data)
                    waiting.put_nowait((self._loop.time() + self.round_trip_s / 2, data))
            waiting.put_nowait((0.0, b""))
            await sending
        finally:
            sending.cancel()

    async def _send(self, waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                due, data = await waiting.get()
                if not data:
                    break
                if (left := due - self._loop.time()) > 0:
                    await asyncio.sleep(left)
                writer.write(data)
                await writer.drain()
        writer.close()
