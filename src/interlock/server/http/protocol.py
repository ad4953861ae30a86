"""HTTP on a socket, with limits that apply before there is a request: connections, time and size of headers.

Rule 1: a connection beyond the limit gets a refusal and is closed; it never reaches the routes.
Rule 2: headers have a time limit, also those of a next request, and a size limit.
Rule 3: the rest of a refused body is read and discarded for a short time, so that its sender can read the refusal.
Rule 4: the head of an answer and its first bytes are one write: each write is a call of the system. Security headers
are constant, and are added to the head as bytes: the parser would check each of them in every answer.
Rule 5: a client that reads less than `TAKEN_BYTES_MIN` of an answer in its time is disconnected.
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
from interlock.server.http.guard import HEADER_BYTES_MAX, HEADERS
from interlock.server.http.problems import PROBLEM_JSON, problem_of

# Bytes of an answer that a client must read within the timeout while more waits: 2 kB per second by default.
SEND_BYTES_MIN = 64 * 1024


# The security headers, and the end of a head.
_HEADER_LINES = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()).encode() + b"\r\n"


class ConnectionLimits(NamedTuple):
    connections_max: int
    header_timeout_s: float
    send_timeout_s: float


class HeldWrites:
    """A transport whose writes can be held for a moment and made at once. The rest is that of the real transport.

    The next write after `add_headers` is the head of an answer, and gets the security headers.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._held: list[bytes] | None = None
        self._lacks_headers = False

    def add_headers(self) -> None:
        self._lacks_headers = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held, None
        if held:
            self.transport.write(b"".join(held))

    def write(self, data: bytes) -> None:
        if self._lacks_headers:
            assert data.endswith(b"\r\n\r\n"), "h11 gives the whole head at once"
            data, self._lacks_headers = data[:-2] + _HEADER_LINES, False
        if self._held is None:
            self.transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        self.release()
        self.transport.close()


class LimitedProtocol(H11Protocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        bounds: ConnectionLimits,
    ) -> None:
        self._writer = HeldWrites()
        hooks = {
            "add_headers": self._writer.add_headers,
            "hold_writes": self._writer.hold,
            "release_writes": self._writer.release,
        }
        super().__init__(config, server_state, {**app_state, **hooks}, _loop)
        self._bounds = bounds
        self._headers_due: asyncio.TimerHandle | None = None
        self._rest_due: asyncio.TimerHandle | None = None
        self._taken_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        if len(self.connections) >= self._bounds.connections_max:
            self.transport = transport
            bound = self._bounds.connections_max
            refused = RequestRefused(
                "too-many-connections", f"{bound} connections are open; close one, or try again later"
            )
            transport.write(raw_refusal(refused, "retry-after: 1\r\n"))
            transport.close()
            return
        self._writer.transport = transport
        super().connection_made(self._writer)  # type: ignore[arg-type]  # it has all of a transport
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_header_timer()
        self._cancel_body_timer()
        self._cancel_send_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY:
            self._cancel_body_timer()
        if self.conn.their_state is not h11.IDLE:
            self._cancel_header_timer()
        elif self.conn.trailing_data[0] and self._headers_due is None:
            self._start_header_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and self._rest_due is None:
            self._rest_due = self.loop.call_later(self._bounds.header_timeout_s, self._abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_send_timer()

    def resume_writing(self) -> None:
        self._cancel_send_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has started already
            self._abort()
            return
        detail = f"this is not HTTP/1.1, or its headers are larger than {HEADER_BYTES_MAX:,} bytes"
        self.transport.write(raw_refusal(RequestRefused("bad-request", detail)))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Ignores websocket upgrades without a log line, because anyone can send them."""

    def _start_header_timer(self) -> None:
        self._headers_due = self.loop.call_later(self._bounds.header_timeout_s, self._refuse_slow_headers)

    def _cancel_header_timer(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _cancel_body_timer(self) -> None:
        if self._rest_due is not None:
            self._rest_due.cancel()
            self._rest_due = None

    def _start_send_timer(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._taken_due = self.loop.call_later(self._bounds.send_timeout_s, self._check_send_progress, waiting)

    def _check_send_progress(self, waiting: int) -> None:
        if waiting - self.transport.get_write_buffer_size() < SEND_BYTES_MIN:
            self._abort()
        else:
            self._start_send_timer()

    def _cancel_send_timer(self) -> None:
        if self._taken_due is not None:
            self._taken_due.cancel()
            self._taken_due = None

    def _refuse_slow_headers(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            detail = f"the headers did not arrive within {self._bounds.header_timeout_s:g} s; send them faster"
            self.transport.write(raw_refusal(RequestRefused("headers-too-slow", detail)))
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


def raw_refusal(error: RequestRefused, more: str = "") -> bytes:
    """A refusal before there is a request, in the form of all others."""
    problem = problem_of(error)
    body = msgspec.json.encode(problem)
    first = f"HTTP/1.1 {problem['status']} {HTTPStatus(problem['status']).phrase}\r\n"
    own = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    head = f"{first}content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n{own}"
    return f"{head}{more}connection: close\r\n\r\n".encode() + body
