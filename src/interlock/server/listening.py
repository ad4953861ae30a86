"""A socket that listens, the server on it, and the signals that end it."""

import asyncio
import contextlib
import ipaddress
import os
import resource
import signal
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn

from interlock.adapters.config.server_settings import ServerSettings
from interlock.errors import UsageError
from interlock.server.http.guard import HEADER_BYTES_MAX
from interlock.server.http.protocol import ConnectionLimits, LimitedProtocol

# Connections that the system hands over at once, before the first of them can be refused.
BACKLOG = 256
# File descriptors for everything except served connections.
OTHER_FILES = BACKLOG + 64
# How long to wait for a client that disappeared, after something was sent to it.
UNACKNOWLEDGED_MS = 60_000
# How long answers may take that started before the server stopped listening.
LAST_ANSWERS_S = 2


class StopSignals:
    """Signals that end the process."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def install_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def stop(self) -> None:
        """Ends the process as the first signal does."""
        self._asked.set()

    def _on_signal(self, number: int) -> None:
        if self._asked.is_set():
            os._exit(128 + number)
        self.stop()

    async def is_requested_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        return self._asked.is_set()

    async def wait_for_stop(self, serving: "asyncio.Task[None]") -> None:
        """Returns when the server is asked to stop; raises the error that ended it before that."""
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait((asked, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            asked.cancel()
            serving.result()


class QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def uvicorn_config(app: object, settings: ServerSettings) -> uvicorn.Config:
    bounds = ConnectionLimits(
        _connections_max(settings.connections_max),
        settings.header_timeout_seconds,
        settings.stream_send_timeout_seconds,
    )
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # an ASGI program
        http=partial(LimitedProtocol, bounds=bounds),  # type: ignore[arg-type]  # called as a class is
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        timeout_keep_alive=settings.header_timeout_seconds,  # type: ignore[arg-type]  # it is only counted down
        timeout_graceful_shutdown=LAST_ANSWERS_S,
    )


def _connections_max(wanted: int) -> int:
    """The limit of connections that the system allows: beyond it even a refusal would fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - OTHER_FILES))


@contextlib.contextmanager
def open_listener(host: str, port: int, options: str = "--port or --host") -> Iterator[socket.socket]:
    """A socket that listens; `options` are those of the command that name its address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named so that the loop sends small answers at once (TCP_NODELAY).
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # every connection inherits it from the listener
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise UsageError(f"cannot listen on {host} port {port}: {error}; choose another {options}") from error
        listener.setblocking(False)
        yield listener


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
