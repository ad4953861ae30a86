"""A server from its start to its end.

Rule 1: one server a data folder. It recovers every run whose process is gone before it takes a request.
Rule 2: told to stop, it takes nothing in any more and says so, waits for calls under way, lets streams go with a word
when to come back, and ends with exit code 0. Told twice it ends at once; the journal is made for that.
"""

import asyncio
import contextlib
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

from interlock.adapters.log_settings import LogSettings
from interlock.adapters.logging_setup import LogChoice, LogDefaults, logging_to
from interlock.adapters.served_folder import SERVER_KEY, served, server_key
from interlock.adapters.server_settings import ServerSettings
from interlock.adapters.webhook_sender import WebhookSender
from interlock.adapters.webhook_settings import OutgoingHook
from interlock.adapters.webhook_verifying import IncomingWebhook
from interlock.adapters.webhook_verifying import incoming_webhooks as incoming_webhooks
from interlock.compose.box import Interlock
from interlock.errors import UsageError
from interlock.runtime.draining import drained
from interlock.server.access import Access
from interlock.server.app import guarded_app
from interlock.server.crews import ServedCrews as ServedCrews
from interlock.server.feed import DRAINING
from interlock.server.guard import HEADER_BYTES_MAX
from interlock.server.not_ready import RefusingApp
from interlock.server.origins import Origins
from interlock.server.protocol import BoundedProtocol, Bounds
from interlock.server.reloading import ReadCrews, Reloading
from interlock.server.service import Service
from interlock.server.webhooks_out import WebhooksOut

_log = logging.getLogger("interlock.server")

Say = Callable[[str], None]

# So many connections are taken from the system in one go, before the first of them can be refused.
BACKLOG = 256
# Descriptors that are needed for other things than connections that are served.
OTHER_FILES = BACKLOG + 64
# How long a client that is gone without a word is waited for, where something was sent to it.
UNACKNOWLEDGED_MS = 60_000
# How often a server that is not ready looks whether the loss was accepted.
ACCEPTED_LOOK_S = 1.0
# How long answers may take that were begun before the server stopped listening.
LAST_ANSWERS_S = 2


class Order(NamedTuple):
    """What was asked for on the command line."""

    box: Interlock
    crews: ServedCrews
    settings: ServerSettings
    host: str
    port: int
    with_keys: bool
    hooks: Mapping[str, OutgoingHook]
    incoming: Mapping[str, IncomingWebhook]
    secrets: Mapping[str, str]  # of webhooks out, by their ids
    say: Say
    log_settings: LogSettings
    log: LogChoice
    read_crews: ReadCrews  # reads the crews again, in the order in which they were named
    prints_code: bool = False  # whether a person, and no log, reads what is said
    reload: bool = False  # whether changed files are noticed without a signal
    resume_parked: bool = False  # whether runs that a person stopped are continued
    warnings: Sequence[str] = ()


async def serve(order: Order) -> None:
    """Serves until a signal says otherwise."""
    stop, reloading = _Stop(), Reloading(order.crews, order.read_crews, order.box, watch=order.reload)
    log = logging_to(order.box.data, order.box.known_keys(), order.log_settings, order.log, LogDefaults("info", "json"))
    with served(order.box.data), _listening(order.host, order.port) as listener, log:
        key = server_key(order.box.data) if order.with_keys else ""
        order.box.known_keys().add(key, *order.secrets.values())
        for warning in order.warnings:
            _log.warning("%s", warning)
        stop.listen()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloading.ask)
        port: int = listener.getsockname()[1]
        await _wait_for_data(order, listener, stop)
        async with order.box, _service(order, key, port, reloading) as service:
            app = guarded_app(service, _origins(order, port))
            server = _Server(_config(app, order.settings))
            serving = asyncio.create_task(server.serve([listener]))
            _say_where(order, service, port)
            await stop.asked_or(serving)
            await _drain(service)
            server.should_exit = True
            await serving


def _origins(order: Order, port: int) -> Origins:
    settings = order.settings
    return Origins(order.host, port, settings.hosts, settings.origins, settings.public_url)


async def _wait_for_data(order: Order, listener: socket.socket, stop: "_Stop") -> None:
    """While acknowledged records are missing it is not ready and says why, until a person has accepted the loss.

    Told to stop meanwhile, it raises what is missing, so that its exit code tells as well.
    """
    missing = order.box.what_is_missing()
    if missing is None:
        return
    _log.critical("%s", missing)
    order.say(f"interlock is not ready, and says so on {_address(order, listener.getsockname()[1])}")
    server = _Server(_config(RefusingApp(missing), order.settings))
    serving = asyncio.create_task(server.serve([listener.dup()]))
    try:
        while order.box.what_is_missing() is not None:
            if await stop.is_asked_within(ACCEPTED_LOOK_S):
                raise missing
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def _service(order: Order, key: str, port: int, reloading: Reloading) -> AsyncIterator[Service]:
    box, settings = order.box, order.settings
    parked = await box.resume_parked() if order.resume_parked else ()
    for aside in (*box.set_aside, *parked):
        _log.warning("run %s does not go on here: %s", aside.run, aside.reason)
    service = Service(box, order.crews, settings, await _access(order, key, port), order.incoming)
    service.slow_request_s = order.log_settings.slow_request_seconds
    for each in order.crews.all():
        if each.is_sound:
            await box.listen(each.crew)
    senders = {name: WebhookSender(hook, order.secrets[name], box.clock) for name, hook in order.hooks.items()}
    keys = box.known_keys()
    telling = WebhooksOut(
        box.store,
        box.signals.bus,
        box.clock,
        order.hooks,
        senders,
        redact=keys.hidden_body,
        public_url=settings.public_url,
    )
    await telling.begin()
    box.watch(telling.wake)
    working = [
        at_work("streams", service.feed.run()),
        at_work("webhooks", telling.run()),
        at_work("changed crews", reloading.run()),
        at_work("measurements of the loop", service.lag.run()),
    ]
    try:
        yield service
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


def at_work(what: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """A task that ends by being cancelled; if a fault of ours ends it before, the log tells at once."""

    def tell(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("%s are served no more; start the server again", what, exc_info=error)

    task = asyncio.create_task(work)
    task.add_done_callback(tell)
    return task


async def _access(order: Order, key: str, port: int) -> Access | None:
    if not order.with_keys:
        return None
    box, settings = order.box, order.settings
    closed = await box.store.closed_sessions(box.clock.now_ms())
    learn = box.known_keys().add
    return Access(key, settings.keys, box.clock, settings.session_hours, port=port, closed=closed, learn=learn)


async def _drain(service: Service) -> None:
    service.is_draining = True
    seconds = service.settings.drain_timeout_seconds
    _log.info("stopping: nothing is taken in, calls under way have %g s", seconds)
    try:
        async with asyncio.timeout(seconds):
            await drained(service.box.runner)
    except TimeoutError:
        _log.warning("calls under way were not over after %g s; they are made again by whoever goes on", seconds)
    service.feed.close(DRAINING)


class _Stop:
    """Signals that end the server."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take, number)

    def _take(self, number: int) -> None:
        if self._asked.is_set():
            os._exit(128 + number)
        self._asked.set()

    async def is_asked_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        return self._asked.is_set()

    async def asked_or(self, serving: "asyncio.Task[None]") -> None:
        """Returns when somebody asks to stop; raises what ended the server before that."""
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait((asked, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            asked.cancel()
            serving.result()


class _Server(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: object, settings: ServerSettings) -> uvicorn.Config:
    bounds = Bounds(
        _connections_max(settings.connections_max),
        settings.header_timeout_seconds,
        settings.stream_send_timeout_seconds,
    )
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # an ASGI program
        http=partial(BoundedProtocol, bounds=bounds),  # type: ignore[arg-type]  # called as a class is
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
    """As many as the system allows: beyond that even refusing one would fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - OTHER_FILES))


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or the loop would not know that it may send small answers at once (TCP_NODELAY).
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # every connection has it from the listener
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


def _address(order: Order, port: int) -> str:
    name = f"[{order.host}]" if ":" in order.host else order.host
    return f"http://{name}:{port}"


def _say_where(order: Order, service: Service, port: int) -> None:
    address = _address(order, port)
    shown = order.settings.public_url.rstrip("/") or address
    names = ", ".join(each.crew.name for each in order.crews.all())
    order.say(f"interlock serves {names} on {address}")
    if service.access is None:
        order.say("NO KEY IS ASKED FOR: whoever reaches this address may do everything")
        order.say(f"open {shown}/")
    elif order.prints_code:
        order.say(f"open {shown}/#code={service.access.new_code()}  (works once)")
    else:  # a log keeps what is printed, and a code in it would let its readers in
        order.say(f"open {shown}/ and sign in with the key")
    if service.access is not None:
        order.say(f"the key for programs is in {order.box.data / SERVER_KEY}")
    if not is_loopback(order.host):
        order.say("this address can be reached from other machines, unencrypted: put a proxy with TLS before it")
