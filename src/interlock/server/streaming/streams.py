"""Event streams over HTTP: their limits, and disconnecting readers that do not read."""

from collections import Counter

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from interlock.adapters.config.server_settings import ServerSettings
from interlock.errors import RequestRefused
from interlock.ports import RecordFeed as Records
from interlock.server.auth import ApiCaller
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.positions import StreamPosition, parse_position
from interlock.server.streaming.reader import Reader

LAST_EVENT_ID = "last-event-id"


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

    @property
    def send_timeout_s(self) -> float:
        return self._settings.stream_send_timeout_seconds


class _StreamResponse(EventSourceResponse):
    def __init__(
        self, streams: Streams, caller: ApiCaller, reader: Reader, *, follow: bool, keep_alive_s: float
    ) -> None:
        self._streams, self._caller = streams, caller
        super().__init__(
            streams.feed.stream(reader, follow=follow),
            ping=keep_alive_s,
            ping_message_factory=lambda: ServerSentEvent(comment="alive"),
            send_timeout=streams.send_timeout_s,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._is_writing_paused = scope.get("state", {}).get("is_writing_paused")
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            # It reads nothing: its buffer would wait for ever.
            if (abort := scope.get("state", {}).get("abort")) is not None:
                abort()
        finally:
            self._streams.release_stream(self._caller)

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        """Sends; only a send that may wait for its reader needs the timer."""
        if self._is_writing_paused is not None and not self._is_writing_paused():
            await send(message)
        else:
            await super()._send_with_timeout(send, message)


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
