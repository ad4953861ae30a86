"""HTTP on a socket, with bounds that hold before there is a request: how many connections, how long for its headers.

Rule 1: a connection beyond the bound is told so and closed; it never reaches the routes.
Rule 2: headers that do not come are not waited for, those of a next request neither; headers without end are cut off by
their size.
Rule 3: the rest of a body that was refused is read and thrown away, so that its sender gets to read why; not for long.
Rule 4: an answer that nobody takes is not kept: whoever takes less than `TAKEN_BYTES_MIN` in its time is cut off.
"""

import asyncio
from http import HTTPStatus
from typing import Any, NamedTuple

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from interlock.errors import RequestRefused
from interlock.server.guard import HEADER_BYTES_MAX, HEADERS
from interlock.server.problems import PROBLEM_JSON, problem_of

# The least of an answer that must be taken in the time for it, while more waits: 2 kB a second with the default.
TAKEN_BYTES_MIN = 64 * 1024


class Bounds(NamedTuple):
    connections_max: int
    header_timeout_s: float
    send_timeout_s: float


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        bounds: Bounds,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "abort": self._abort}, _loop)
        self._bounds = bounds
        self._headers_due: asyncio.TimerHandle | None = None
        self._rest_due: asyncio.TimerHandle | None = None
        self._taken_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        if len(self.connections) >= self._bounds.connections_max:
            self.transport = transport
            bound = self._bounds.connections_max
            refused = RequestRefused("too-many-connections", f"{bound} connections are open; close one, or come back")
            transport.write(raw_answer(refused, "retry-after: 1\r\n"))
            transport.close()
            return
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_there()
        self._rest_is_there()
        self._is_taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY:
            self._rest_is_there()
        if self.conn.their_state is not h11.IDLE:
            self._headers_are_there()
        elif self.conn.trailing_data[0] and self._headers_due is None:
            self._expect_headers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and self._rest_due is None:
            self._rest_due = self.loop.call_later(self._bounds.header_timeout_s, self._abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        self._is_taken()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is on its way already
            self._abort()
            return
        detail = f"what was sent is no HTTP/1.1, or its headers are larger than {HEADER_BYTES_MAX:,} bytes"
        self.transport.write(raw_answer(RequestRefused("bad-request", detail)))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is logged, as anybody can ask for a websocket: the request is answered as if it had not."""

    def _expect_headers(self) -> None:
        self._headers_due = self.loop.call_later(self._bounds.header_timeout_s, self._too_slow)

    def _headers_are_there(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _rest_is_there(self) -> None:
        if self._rest_due is not None:
            self._rest_due.cancel()
            self._rest_due = None

    def _expect_taking(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._taken_due = self.loop.call_later(self._bounds.send_timeout_s, self._look_what_was_taken, waiting)

    def _look_what_was_taken(self, waiting: int) -> None:
        if waiting - self.transport.get_write_buffer_size() < TAKEN_BYTES_MIN:
            self._abort()
        else:
            self._expect_taking()

    def _is_taken(self) -> None:
        if self._taken_due is not None:
            self._taken_due.cancel()
            self._taken_due = None

    def _too_slow(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            detail = f"the headers were not there after {self._bounds.header_timeout_s:g} s; send them faster"
            self.transport.write(raw_answer(RequestRefused("headers-too-slow", detail)))
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


def raw_answer(error: RequestRefused, more: str = "") -> bytes:
    """A refusal where there is no request yet; it looks like all others."""
    problem = problem_of(error)
    body = msgspec.json.encode(problem)
    first = f"HTTP/1.1 {problem['status']} {HTTPStatus(problem['status']).phrase}\r\n"
    own = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    head = f"{first}content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n{own}"
    return f"{head}{more}connection: close\r\n\r\n".encode() + body
