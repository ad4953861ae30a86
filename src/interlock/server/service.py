"""The state that the routes of one server share."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.webhooks.verification import IncomingWebhook
from interlock.compose.interlock import Interlock
from interlock.crew.definition import CrewDefinition
from interlock.errors import InterlockError, RequestRefused, RunNotFound, StorageFull
from interlock.ids import root_of
from interlock.server.auth import ApiCaller, Authenticator
from interlock.server.crews import ServedCrews
from interlock.server.gauges import LoopLag, folder_gauges, process_gauges
from interlock.server.http.idempotency import Idempotency
from interlock.server.metrics import Metrics
from interlock.server.readiness import readiness_of_store
from interlock.server.run_answers import RunAnswers
from interlock.server.run_metrics import RunMetrics
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.streams import Streams

_log = logging.getLogger("interlock.server")

# How long new work is refused after the disk was full.
FULL_MS = 1_000


class Service:
    """One open data folder, its served crews, and its streams."""

    def __init__(
        self,
        box: Interlock,
        crews: ServedCrews,
        settings: ServerSettings,
        access: Authenticator | None,
        incoming: Mapping[str, IncomingWebhook] | None = None,
    ) -> None:
        self.box, self.crews, self.settings, self.access = box, crews, settings, access
        self.incoming = incoming or {}
        self.metrics = Metrics()
        # Removes secrets from an answer: records may be older than the list of known secrets.
        self.redact = box.redactor().redact_body
        self.feed = EventFeed(box.store, self._count_dropped_stream, self.redact)
        self.streams = Streams(self.feed, settings)
        self.idempotency = Idempotency(box.store, box.clock, self.on_failure, self.redact)
        self.is_draining = False
        self.cookie_path = urlsplit(settings.public_url).path.rstrip("/") or "/"
        self.slow_request_s = LogSettings().slow_request_seconds
        self._full_until_ms = 0
        # Set by the guard: the refusal of a wrong key.
        self.refuse_wrong_key: Callable[[Scope], RequestRefused] = _wrong_key_refusal
        self.lag = LoopLag()
        self.run_answers = RunAnswers(box)
        box.watch(self.feed.on_record_stored, self.feed.on_delta)
        box.watch(RunMetrics(self.metrics, self.crew_of_run))

    async def readiness(self) -> str:
        """`ready`, or the reason why new work is refused now."""
        if self.is_draining:
            return "draining"
        if self._is_full:
            return "storage-full"
        return await readiness_of_store(self.box)

    @property
    def _is_full(self) -> bool:
        return self.box.clock.monotonic_ms() < self._full_until_ms

    def admission_refusal(self) -> RequestRefused | None:
        """The refusal of new work, if it is refused now."""
        if self.is_draining:
            wait_s = max(1, round(self.settings.drain_timeout_seconds))
            return RequestRefused("draining", "the server is stopping; try again soon", retry_after_s=wait_s)
        if self._is_full:
            return RequestRefused("admission-closed", "the disk was full a moment ago", retry_after_s=1)
        return None

    def on_failure(self, error: InterlockError) -> None:
        """Refuses new work for a moment after a full disk; the next request after that tries again."""
        if isinstance(error, StorageFull):
            self._full_until_ms = self.box.clock.monotonic_ms() + FULL_MS

    async def metrics_text(self) -> str:
        gauges = [*process_gauges(self.box, self.streams.count, self.lag), *await folder_gauges(self.box)]
        return self.metrics.text(gauges)

    async def require_run(self, request: Request, run: str) -> None:
        """Raises `RunNotFound` for a run of a crew that the key may not see, as if it did not exist.

        A run belongs to the crew of the outermost run that called it.
        """
        caller: ApiCaller = request.state.caller
        if caller.crews is not None and not caller.may_see((await self.run_answers.row_of(root_of(run))).crew):
            raise RunNotFound(run)

    def crew_of_run(self, run: str) -> CrewDefinition | None:
        """The crew of a run that this process drives."""
        table = self.box.runner.table_of(run)
        return table.crew if table is not None else None

    def _count_dropped_stream(self) -> None:
        self.metrics.dropped.add()


def _wrong_key_refusal(_: Scope) -> RequestRefused:
    return RequestRefused("wrong-key", "this key is not valid for this server")


def require_scope(*scopes: str, by_crew: bool = False) -> Callable[[Request], Awaitable[ApiCaller]]:
    """Returns the caller if the key has one of the scopes. It is async: FastAPI runs other functions in threads.

    A key that is limited to some crews is refused, unless the route has `by_crew`: then the route itself hides other
    crews.
    """

    async def caller(request: Request) -> ApiCaller:
        found: ApiCaller = request.state.caller
        if not any(found.has_scope(scope) for scope in scopes):
            wanted = " or ".join(f"'{scope}'" for scope in scopes)
            _log_refusal(request, found, f"no scope {wanted}")
            raise RequestRefused("missing-scope", f"this needs a key with the scope {wanted}")
        if found.crews is not None and not by_crew:
            _log_refusal(request, found, "it is limited to some crews")
            raise RequestRefused("missing-scope", "this needs a key for all crews; the key is limited to some")
        return found

    caller.scope = scopes[0]  # type: ignore[attr-defined]  # for the OpenAPI document
    return caller


def _log_refusal(request: Request, caller: ApiCaller, why: str) -> None:
    route = f"{request.method[:20]} {request.url.path[:200]}"
    _log.warning("refused %s for %s: %s", caller.by, route, why, extra={"fields": {"by": caller.by}})


async def any_caller(request: Request) -> ApiCaller:
    """Returns the caller of any valid key."""
    found: ApiCaller = request.state.caller
    return found


any_caller.scope = ""  # type: ignore[attr-defined]  # as above
