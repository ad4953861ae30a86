"""Runs a worker from start to end: it drives runs of a store and serves no API.

Rule 1: on SIGTERM or Ctrl-C it claims nothing more, and hands each run over when its calls in progress are done; then
it exits with code 0. A second signal ends it at once.
Rule 2: it answers `/healthz`, `/readyz` and `/metrics`, and nothing else. Metrics are answered on the loopback, or
where `metrics_open` is set.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.log.log_setup import LogChoice, LogDefaults, send_logs_to
from interlock.compose.given.crew_like import AnyCrew
from interlock.compose.interlock import Interlock
from interlock.crew.definition import CrewDefinition
from interlock.errors import RequestRefused
from interlock.runtime.claiming.handover import hand_over_all
from interlock.server.gauges import LoopLag, folder_gauges, process_gauges
from interlock.server.http.problems import problem_response
from interlock.server.listening import QuietServer, StopSignals, is_loopback, open_listener, uvicorn_config
from interlock.server.metrics import Metrics
from interlock.server.readiness import READY, readiness_of_store
from interlock.server.run_metrics import RunMetrics
from interlock.server.serve import log_warnings, spawn_background_task, stop_when_lease_is_lost

_log = logging.getLogger("interlock.server")


class WorkerOptions(NamedTuple):
    """Options of the command line. `crews` are stored, and their agents subscribed, as their files say."""

    box: Interlock
    crews: Sequence[AnyCrew]
    settings: ServerSettings
    host: str
    port: int
    say: Callable[[str], None]
    log_settings: LogSettings
    log: LogChoice
    warnings: Sequence[str] = ()


class WorkerApp:
    """An ASGI application for probes."""

    def __init__(self, box: Interlock, *, has_metrics: bool) -> None:
        self._box, self._has_metrics = box, has_metrics
        self.is_draining = False
        self.lag, self._metrics = LoopLag(), Metrics()
        box.watch(RunMetrics(self._metrics, self._crew_of_run))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._response_to(Request(scope).url.path)
        await response(scope, receive, send)

    async def _response_to(self, path: str) -> Response:
        if path == "/healthz":
            return JSONResponse({"status": "ok"})
        if path == "/readyz":
            status = await self._readiness()
            return JSONResponse({"status": status}, 200 if status == READY else 503)
        if path == "/metrics" and self._has_metrics:
            gauges = [*process_gauges(self._box, 0, self.lag), *await folder_gauges(self._box)]
            return Response(self._metrics.text(gauges), media_type="text/plain; version=0.0.4")
        return problem_response(RequestRefused("not-found", f"{path[:80]} was not found; a worker serves no API"))

    async def _readiness(self) -> str:
        return "draining" if self.is_draining else await readiness_of_store(self._box)

    def _crew_of_run(self, run: str) -> CrewDefinition | None:
        table = self._box.runner.table_of(run)
        return table.crew if table is not None else None


async def work(order: WorkerOptions) -> None:
    """Drives runs until it is stopped (Ctrl-C or SIGTERM); `LeaseLost` if others drive its runs."""
    stop, box = StopSignals(), order.box
    log = send_logs_to(box.home.folder, box.redactor(), order.log_settings, order.log, LogDefaults("info", "json"))
    with open_listener(order.host, order.port, "--listen") as listener, log:
        log_warnings(order.warnings)
        stop.install_handlers()
        async with box:
            log_warnings(box.store_warnings)
            for crew in order.crews:
                await box.listen(crew)
            app = WorkerApp(box, has_metrics=order.settings.metrics_open or is_loopback(order.host))
            server = QuietServer(uvicorn_config(app, order.settings))
            measuring = spawn_background_task("loop measurements", app.lag.run())
            serving = asyncio.create_task(server.serve([listener]))
            name = f"[{order.host}]" if ":" in order.host else order.host
            order.say(f"interlock drives runs of {box.home.name}; health on http://{name}:{listener.getsockname()[1]}")
            async with stop_when_lease_is_lost(box, stop):
                await stop.wait_for_stop(serving)
            box.require_lease()
            app.is_draining = True
            await _drain(box, order.settings.drain_timeout_seconds)
            measuring.cancel()
            server.should_exit = True
            await serving


async def _drain(box: Interlock, seconds: float) -> None:
    _log.info("shutting down: handing over runs, waiting up to %g s for calls in progress", seconds)
    box.stop_claiming()
    try:
        async with asyncio.timeout(seconds):
            await hand_over_all(box.runner)
    except TimeoutError:
        left = len(box.runner.live)
        _log.warning("calls of %d runs did not end within %g s; the next process makes them again", left, seconds)
