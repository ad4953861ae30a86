"""Runs a server from start to end.

Rule 1: one server per data folder. It recovers every run whose process is gone before it accepts a request.
Rule 2: on SIGTERM or Ctrl-C it refuses new work, waits for calls in progress, closes streams with the time to come
back, and exits with code 0. A second signal ends it at once; recovery handles that.
"""

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import uvicorn

from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.adapters.files.served_folder import SERVER_KEY, ensure_server_key, hold_server_lock
from interlock.adapters.log.log_setup import LogChoice, LogDefaults, send_logs_to
from interlock.adapters.webhooks.sender import WebhookSender
from interlock.adapters.webhooks.verification import IncomingWebhook
from interlock.adapters.webhooks.verification import incoming_webhooks as incoming_webhooks
from interlock.compose.interlock import Interlock
from interlock.errors import UsageError
from interlock.runtime.drain import drain_runner
from interlock.server.app import build_app
from interlock.server.auth import Authenticator
from interlock.server.crews import ServedCrews as ServedCrews
from interlock.server.http.guard import HEADER_BYTES_MAX
from interlock.server.http.not_ready import NotReadyApp
from interlock.server.http.origins import Origins
from interlock.server.http.protocol import ConnectionLimits, LimitedProtocol
from interlock.server.reload import CrewReloader, ServedSource
from interlock.server.service import Service
from interlock.server.streaming.feed import DRAINING
from interlock.server.webhooks import WebhookPublisher

_log = logging.getLogger("interlock.server")

Say = Callable[[str], None]

# Connections that the system hands over at once, before the first of them can be refused.
BACKLOG = 256
# File descriptors for everything except served connections.
OTHER_FILES = BACKLOG + 64
# How long to wait for a client that disappeared, after something was sent to it.
UNACKNOWLEDGED_MS = 60_000
# How often a server that is not ready checks that the loss was accepted.
ACCEPTED_LOOK_S = 1.0
# How long answers may take that started before the server stopped listening.
LAST_ANSWERS_S = 2


class ServeOptions(NamedTuple):
    """Options of the command line."""

    box: Interlock
    crews: ServedCrews
    settings: ServerSettings
    host: str
    port: int
    with_keys: bool
    hooks: Mapping[str, OutgoingHook]
    incoming: Mapping[str, IncomingWebhook]
    secrets: Mapping[str, str]  # of outgoing webhooks, by their ids
    say: Say
    log_settings: LogSettings
    log: LogChoice
    reader: ServedSource  # reloads the crews, in the order of the command line
    prints_code: bool = False  # True if a person reads the output, and not a log
    reload: bool = False  # True if changed files are noticed without SIGHUP
    resume_parked: bool = False  # True if parked runs are continued
    warnings: Sequence[str] = ()


async def serve(order: ServeOptions) -> int | None:
    """Serves until stopped (Ctrl-C or SIGTERM); returns the port if it is to start again in a new process."""
    stop = _StopSignals()
    reloading = CrewReloader(
        order.crews,
        order.reader.read_crews,
        order.box,
        watch=order.reload,
        needs_restart=lambda: order.reader.needs_restart,
        stop_server=stop.stop,
    )
    log = send_logs_to(order.box.data, order.box.redactor(), order.log_settings, order.log, LogDefaults("info", "json"))
    with hold_server_lock(order.box.data), _open_listener(order.host, order.port) as listener, log:
        key = ensure_server_key(order.box.data) if order.with_keys else ""
        order.box.redactor().add(key, *order.secrets.values())
        for warning in order.warnings:
            _log.warning("%s", warning)
        stop.install_handlers()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloading.request_reload)
        port: int = listener.getsockname()[1]
        await _wait_for_data(order, listener, stop)
        async with order.box, _open_service(order, key, port, reloading) as service:
            app = build_app(service, _origins_of(order, port))
            server = _Server(_uvicorn_config(app, order.settings))
            gc.collect()
            gc.freeze()  # what is loaded by now stays; collections need not walk through it again and again
            serving = asyncio.create_task(server.serve([listener]))
            _print_addresses(order, service, port)
            await stop.wait_for_stop(serving)
            await _drain(service)
            server.should_exit = True
            await serving
    return port if reloading.is_restarting else None


def _origins_of(order: ServeOptions, port: int) -> Origins:
    settings = order.settings
    return Origins(order.host, port, settings.hosts, settings.origins, settings.public_url)


async def _wait_for_data(order: ServeOptions, listener: socket.socket, stop: "_StopSignals") -> None:
    """Answers "not ready" while acknowledged records are missing, until a person has accepted the loss.

    If it is stopped meanwhile, it raises `RecordsMissing`, so that the exit code shows it.
    """
    missing = order.box.find_missing_records()
    if missing is None:
        return
    _log.critical("%s", missing)
    order.say(f"interlock is not ready; it answers health checks on {_address_of(order, listener.getsockname()[1])}")
    server = _Server(_uvicorn_config(NotReadyApp(missing), order.settings))
    serving = asyncio.create_task(server.serve([listener.dup()]))
    try:
        while order.box.find_missing_records() is not None:
            if await stop.is_requested_within(ACCEPTED_LOOK_S):
                raise missing
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def _open_service(order: ServeOptions, key: str, port: int, reloading: CrewReloader) -> AsyncIterator[Service]:
    box, settings = order.box, order.settings
    parked = await box.resume_parked() if order.resume_parked else ()
    for aside in (*box.set_aside, *parked):
        _log.warning("run %s cannot continue here: %s", aside.run, aside.reason)
    service = Service(box, order.crews, settings, await _build_authenticator(order, key, port), order.incoming)
    service.slow_request_s = order.log_settings.slow_request_seconds
    for each in order.crews.all():
        if each.is_sound:
            await box.listen(each.crew)
    senders = {name: WebhookSender(hook, order.secrets[name], box.clock) for name, hook in order.hooks.items()}
    keys = box.redactor()
    webhooks = WebhookPublisher(
        box.store,
        box.signals.bus,
        box.clock,
        order.hooks,
        senders,
        redact=keys.redact_body,
        public_url=settings.public_url,
    )
    await webhooks.initialize_positions()
    box.watch(webhooks.on_record_stored)
    working = [
        spawn_background_task("streams", service.feed.run()),
        spawn_background_task("webhooks", webhooks.run()),
        spawn_background_task("changed crews", reloading.run()),
        spawn_background_task("loop measurements", service.lag.run()),
    ]
    try:
        yield service
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


def spawn_background_task(what: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Runs a task until it is cancelled; if a bug ends it earlier, logs that at once."""

    def log_failure(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("%s stopped working; restart the server", what, exc_info=error)

    task = asyncio.create_task(work)
    task.add_done_callback(log_failure)
    return task


async def _build_authenticator(order: ServeOptions, key: str, port: int) -> Authenticator | None:
    if not order.with_keys:
        return None
    box, settings = order.box, order.settings
    closed = await box.store.list_closed_sessions(box.clock.now_ms())
    learn = box.redactor().add
    return Authenticator(key, settings.keys, box.clock, settings.session_hours, port=port, closed=closed, learn=learn)


async def _drain(service: Service) -> None:
    service.is_draining = True
    seconds = service.settings.drain_timeout_seconds
    _log.info("shutting down: refusing new work, waiting up to %g s for calls in progress", seconds)
    try:
        async with asyncio.timeout(seconds):
            await drain_runner(service.box.runner)
    except TimeoutError:
        _log.warning("calls in progress did not end within %g s; the next process makes them again", seconds)
    service.feed.close(DRAINING)


class _StopSignals:
    """Signals that end the server."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def install_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def stop(self) -> None:
        """Ends the server as the first signal does."""
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


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_config(app: object, settings: ServerSettings) -> uvicorn.Config:
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
def _open_listener(host: str, port: int) -> Iterator[socket.socket]:
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
            raise UsageError(
                f"cannot listen on {host} port {port}: {error}; choose another --port or --host"
            ) from error
        listener.setblocking(False)
        yield listener


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address_of(order: ServeOptions, port: int) -> str:
    name = f"[{order.host}]" if ":" in order.host else order.host
    return f"http://{name}:{port}"


def _print_addresses(order: ServeOptions, service: Service, port: int) -> None:
    address = _address_of(order, port)
    shown = order.settings.public_url.rstrip("/") or address
    names = ", ".join(each.crew.name for each in order.crews.all())
    order.say(f"interlock serves {names} on {address}")
    if service.access is None:
        order.say("WARNING: authentication is off; anyone who can reach this address has full access")
        order.say(f"open {shown}/")
    elif order.prints_code:
        order.say(f"open {shown}/#code={service.access.issue_code()}  (works once)")
    else:  # a log keeps its lines, and a code in it would let its readers sign in
        order.say(f"open {shown}/ and sign in with the key")
    if service.access is not None:
        order.say(f"the key for programs is in {order.box.data / SERVER_KEY}")
    if not is_loopback(order.host):
        order.say("other machines can reach this address, unencrypted: put a TLS proxy in front of it")
