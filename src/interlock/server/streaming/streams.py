"""Event streams over HTTP, and their limits. The protocol disconnects readers that do not read."""

import asyncio
from collections import Counter

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.adapters.config.server_settings import ServerSettings
from interlock.errors import RequestRefused
from interlock.ports import RecordFeed as Records
from interlock.server.auth import ApiCaller
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.positions import StreamPosition, parse_position
from interlock.server.streaming.reader import Reader

LAST_EVENT_ID = "last-event-id"

# Proxies close connections on which nothing is sent.
COMMENT = b": alive\r\n\r\n"

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # proxies pass each text on at once
)


class Streams:
    """The open streams of one server."""

    def __init__(self, feed: EventFeed, settings: ServerSettings) -> None:
        self.feed, self._settings = feed, settings
        self._open: Counter[str] = Counter()

    def new_reader(
        self, place: StreamPosition, run: str = "", *, deltas: bool, after: int = 0, crews: frozenset[str] | None = None
    ) -> Reader:
        bytes_max = round(self._settings.stream_buffer_kb * 1024)
        return Reader(place, run, bytes_max, deltas=deltas, after=after, crews=crews)

    def open_stream(self, caller: ApiCaller, reader: Reader, *, follow: bool, keep_alive_s: float) -> Response:
        """Opens a stream; refuses it if the caller, or the server, has reached the limit."""
        settings = self._settings
        if self._open.total() >= settings.streams_max or self._open[caller.id] >= settings.streams_per_key_max:
            raise RequestRefused(
                "too-many-streams",
                f"at most {settings.streams_per_key_max} streams per key and {settings.streams_max} in all; close one",
                retry_after_s=1,
            )
        self._open[caller.id] += 1
        return _StreamResponse(self, caller, reader, follow=follow, keep_alive_s=keep_alive_s)

    def release_stream(self, caller: ApiCaller) -> None:
        self._open[caller.id] -= 1
        if not self._open[caller.id]:
            del self._open[caller.id]

    @property
    def count(self) -> int:
        return self._open.total()


class _StreamResponse(Response):
    """Sends the texts of a stream, and a comment now and then, until one side ends it."""

    def __init__(
        self, streams: Streams, caller: ApiCaller, reader: Reader, *, follow: bool, keep_alive_s: float
    ) -> None:
        self.status_code, self.background, self.raw_headers = 200, None, [*_HEADERS]
        self._streams, self._caller, self._keep_alive_s = streams, caller, keep_alive_s
        self._texts = streams.feed.stream(reader, follow=follow)
        self._ending = asyncio.Lock()
        self._has_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = [asyncio.create_task(work) for work in (self._send_texts(send), self._attend(receive, send))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await self._texts.aclose()
            self._streams.release_stream(self._caller)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _send_texts(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self._texts:
            await send({"type": "http.response.body", "body": text, "more_body": True})
        async with self._ending:
            self._has_ended = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _attend(self, receive: Receive, send: Send) -> None:
        """Keeps the connection in use, and returns when the client is gone."""
        while True:
            try:
                async with asyncio.timeout(self._keep_alive_s):
                    while (await receive())["type"] != "http.disconnect":
                        pass
                return
            except TimeoutError:
                await self._send_comment(send)

    async def _send_comment(self, send: Send) -> None:
        async with self._ending:
            if not self._has_ended:
                await send({"type": "http.response.body", "body": COMMENT, "more_body": True})


def accepts_event_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def last_event_position(request: Request, store: Records) -> StreamPosition | None:
    """The position that a reader sends; None if it has seen nothing."""
    text = request.headers.get(LAST_EVENT_ID, "").strip()
    place = parse_position(text) if text else None
    if place is not None:
        await require_reached(store, max(place.position, place.record), "Last-Event-ID")
    return place


async def require_reached(store: Records, position: int, where: str) -> None:
    """Refuses a position that the store has not reached: a reader there would miss the events before it."""
    if position > await store.newest_position():
        raise RequestRefused("event-ahead", f"there is no event {position} in this store; start without {where}")
