"""Runs a server from start to end.

Rule 1: one server per data folder. It recovers every run whose process is gone before it accepts a request.
Rule 2: on SIGTERM or Ctrl-C it refuses new work, waits for calls in progress, closes streams with the time to come
back, and exits with code 0. A second signal ends it at once; recovery handles that.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.adapters.log.log_setup import LogChoice, LogDefaults, send_logs_to
from interlock.adapters.webhooks.sender import WebhookSender
from interlock.adapters.webhooks.verification import IncomingWebhook
from interlock.adapters.webhooks.verification import incoming_webhooks as incoming_webhooks
from interlock.compose.interlock import Interlock
from interlock.compose.stores.store_home import ServerKeyPlace
from interlock.runtime.drain import drain_runner
from interlock.runtime.lifecycle.leading import lead
from interlock.server.app import build_app
from interlock.server.auth import Authenticator
from interlock.server.crews import ServedCrews as ServedCrews
from interlock.server.http.not_ready import NotReadyApp
from interlock.server.http.origins import Origins
from interlock.server.listening import QuietServer, StopSignals, open_listener, uvicorn_config
from interlock.server.listening import is_loopback as is_loopback
from interlock.server.reload import CrewReloader, ServedSource
from interlock.server.service import Service
from interlock.server.streaming.feed import DRAINING
from interlock.server.webhooks import WEBHOOKS, WebhookPublisher

_log = logging.getLogger("interlock.server")

Say = Callable[[str], None]

# How often a server that is not ready checks that the loss was accepted.
ACCEPTED_LOOK_S = 1.0


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
    stop = StopSignals()
    reloading = CrewReloader(
        order.crews,
        order.reader.read_crews,
        order.box,
        watch=order.reload,
        needs_restart=lambda: order.reader.needs_restart,
        stop_server=stop.stop,
    )
    home, keys = order.box.home, order.box.redactor()
    log = send_logs_to(home.folder, keys, order.log_settings, order.log, LogDefaults("info", "json"))
    with home.hold_server_lock(), open_listener(order.host, order.port) as listener, log:
        key = home.ensure_server_key() if order.with_keys else ServerKeyPlace("", "")
        keys.add(key.value, *order.secrets.values())
        log_warnings(order.warnings)
        stop.install_handlers()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloading.request_reload)
        port: int = listener.getsockname()[1]
        await _wait_for_data(order, listener, stop)
        async with order.box, _open_service(order, key.value, port, reloading) as service:
            log_warnings(order.box.store_warnings)
            app = build_app(service, _origins_of(order, port))
            server = QuietServer(uvicorn_config(app, order.settings))
            gc.collect()
            gc.freeze()  # what is loaded by now stays; collections need not walk through it again and again
            serving = asyncio.create_task(server.serve([listener]))
            _print_addresses(order, service, port, key.place)
            async with stop_when_lease_is_lost(order.box, stop):
                await stop.wait_for_stop(serving)
            order.box.require_lease()
            await _drain(service)
            server.should_exit = True
            await serving
    return port if reloading.is_restarting else None


def log_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        _log.warning("%s", warning)


@contextlib.asynccontextmanager
async def stop_when_lease_is_lost(box: Interlock, stop: StopSignals) -> AsyncIterator[None]:
    """Stops the process when others drive its runs."""

    async def watch() -> None:
        await box.lease_lost.wait()
        stop.stop()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _origins_of(order: ServeOptions, port: int) -> Origins:
    settings = order.settings
    return Origins(order.host, port, settings.hosts, settings.origins, settings.public_url)


async def _wait_for_data(order: ServeOptions, listener: socket.socket, stop: "StopSignals") -> None:
    """Answers "not ready" while acknowledged records are missing, until a person has accepted the loss.

    If it is stopped meanwhile, it raises `RecordsMissing`, so that the exit code shows it.
    """
    missing = order.box.find_missing_records()
    if missing is None:
        return
    _log.critical("%s", missing)
    order.say(f"interlock is not ready; it answers health checks on {_address_of(order, listener.getsockname()[1])}")
    server = QuietServer(uvicorn_config(NotReadyApp(missing), order.settings))
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
        spawn_background_task("webhooks", lead(box.leaders, box.clock, WEBHOOKS, webhooks.run)),
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


def _address_of(order: ServeOptions, port: int) -> str:
    name = f"[{order.host}]" if ":" in order.host else order.host
    return f"http://{name}:{port}"


def _print_addresses(order: ServeOptions, service: Service, port: int, key_place: str) -> None:
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
        order.say(f"the key for programs is in {key_place}")
    if not is_loopback(order.host):
        order.say("other machines can reach this address, unencrypted: put a TLS proxy in front of it")
