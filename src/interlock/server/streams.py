"""Event streams over HTTP: how many there may be, and what becomes of a reader that takes nothing."""

from collections import Counter

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.adapters.server_settings import ServerSettings
from interlock.errors import RequestRefused
from interlock.ports import Feed as Records
from interlock.server.access import Caller
from interlock.server.feed import Feed, Reader
from interlock.server.places import Place, place_of

LAST_EVENT_ID = "last-event-id"


class Streams:
    """The open streams of one server."""

    def __init__(self, feed: Feed, settings: ServerSettings) -> None:
        self.feed, self._settings = feed, settings
        self._open: Counter[str] = Counter()

    def reader(
        self, place: Place, run: str = "", *, deltas: bool, after: int = 0, crews: frozenset[str] | None = None
    ) -> Reader:
        bytes_max = round(self._settings.stream_buffer_kb * 1024)
        return Reader(place, run, bytes_max, deltas=deltas, after=after, crews=crews)

    def open(self, caller: Caller, reader: Reader, *, follow: bool, keep_alive_s: float) -> Response:
        """A stream for a reader; refused when the caller, or all together, have enough of them."""
        settings = self._settings
        if self._open.total() >= settings.streams_max or self._open[caller.id] >= settings.streams_per_key_max:
            raise RequestRefused(
                "too-many-streams",
                f"at most {settings.streams_per_key_max} streams a key and {settings.streams_max} in all; close one",
                retry_after_s=1,
            )
        self._open[caller.id] += 1
        return _Stream(self, caller, reader, follow=follow, keep_alive_s=keep_alive_s)

    def leave(self, caller: Caller) -> None:
        self._open[caller.id] -= 1
        if not self._open[caller.id]:
            del self._open[caller.id]

    @property
    def count(self) -> int:
        return self._open.total()

    @property
    def send_timeout_s(self) -> float:
        return self._settings.stream_send_timeout_seconds


class _Stream(EventSourceResponse):
    def __init__(self, streams: Streams, caller: Caller, reader: Reader, *, follow: bool, keep_alive_s: float) -> None:
        self._streams, self._caller = streams, caller
        super().__init__(
            streams.feed.stream(reader, follow=follow),
            ping=keep_alive_s,
            ping_message_factory=lambda: ServerSentEvent(comment="alive"),
            send_timeout=streams.send_timeout_s,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            # It takes nothing: what waits for it would wait for ever.
            if (abort := scope.get("state", {}).get("abort")) is not None:
                abort()
        finally:
            self._streams.leave(self._caller)


def wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def last_place(request: Request, store: Records) -> Place | None:
    """Where a reader says that it stands; None if it has seen nothing."""
    text = request.headers.get(LAST_EVENT_ID, "").strip()
    place = place_of(text) if text else None
    if place is not None:
        await require_reached(store, max(place.position, place.record), "Last-Event-ID")
    return place


async def require_reached(store: Records, position: int, where: str) -> None:
    """A place that the store has not reached is refused: whoever waited there would miss all that comes before it."""
    if position > await store.newest_position():
        raise RequestRefused("event-ahead", f"there is no event {position} in this data folder; begin without {where}")
