"""What the routes of one server share."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from interlock.adapters.log_settings import LogSettings
from interlock.adapters.server_settings import ServerSettings
from interlock.adapters.webhook_verifying import IncomingWebhook
from interlock.compose.box import Interlock
from interlock.crew.definition import Crew
from interlock.errors import InterlockError, RequestRefused, RunNotFound, StorageFull, StoreFailed
from interlock.ids import root_of
from interlock.server.access import Access, Caller
from interlock.server.crews import ServedCrews
from interlock.server.feed import Feed
from interlock.server.gauges import LoopLag, folder_gauges, process_gauges
from interlock.server.metrics import Metrics
from interlock.server.once import Once
from interlock.server.run_metrics import RunMetrics
from interlock.server.streams import Streams

_log = logging.getLogger("interlock.server")

# How long nothing is taken in after the disk was found full.
FULL_MS = 1_000


class Service:
    """One open data folder, the crews that are served, and who reads along."""

    def __init__(
        self,
        box: Interlock,
        crews: ServedCrews,
        settings: ServerSettings,
        access: Access | None,
        incoming: Mapping[str, IncomingWebhook] | None = None,
    ) -> None:
        self.box, self.crews, self.settings, self.access = box, crews, settings, access
        self.incoming = incoming or {}
        self.metrics = Metrics()
        # What an answer passes before it is sent: records may be older than what this host knows of secrets.
        self.redact = box.known_keys().hidden_body
        self.feed = Feed(box.store, box.clock, self._dropped, self.redact)
        self.streams = Streams(self.feed, settings)
        self.once = Once(box.store, box.clock, self.failed_with, self.redact)
        self.is_draining = False
        self.cookie_path = urlsplit(settings.public_url).path.rstrip("/") or "/"
        self.slow_request_s = LogSettings().slow_request_seconds
        self._full_until_ms = 0
        # Set by the guard: what whoever came with a wrong key is told.
        self.failed: Callable[[Scope], RequestRefused] = _wrong_key
        self.lag = LoopLag()
        box.watch(self.feed.observe, self.feed.hear)
        box.watch(RunMetrics(self.metrics, self.crew_of_run))

    async def readiness(self) -> str:
        """`ready`, or why it takes no work now."""
        if self.is_draining:
            return "draining"
        if self._is_full:
            return "storage-full"
        try:
            await self.box.store.newest_position()
        except StoreFailed as error:
            return error.code
        return "ready"

    @property
    def _is_full(self) -> bool:
        return self.box.clock.monotonic_ms() < self._full_until_ms

    def admission(self) -> RequestRefused | None:
        """Why nothing is taken in now, if so."""
        if self.is_draining:
            wait_s = max(1, round(self.settings.drain_timeout_seconds))
            return RequestRefused("draining", "the server is stopping; ask again soon", retry_after_s=wait_s)
        if self._is_full:
            return RequestRefused("admission-closed", "the disk was full a moment ago", retry_after_s=1)
        return None

    def failed_with(self, error: InterlockError) -> None:
        """A full disk closes the door for a moment; the next to ask afterwards tries whether there is room."""
        if isinstance(error, StorageFull):
            self._full_until_ms = self.box.clock.monotonic_ms() + FULL_MS

    async def metrics_text(self) -> str:
        gauges = [*process_gauges(self.box, self.streams.count, self.lag), *await folder_gauges(self.box)]
        return self.metrics.text(gauges)

    async def require_run(self, request: Request, run: str) -> None:
        """`RunNotFound` for a run of a crew that the key may not see, as if there were none.

        A run belongs to the crew of the outermost run that called it.
        """
        caller: Caller = request.state.caller
        if caller.crews is not None and not caller.may_see((await self.box.journal.row(root_of(run))).crew):
            raise RunNotFound(run)

    def crew_of_run(self, run: str) -> Crew | None:
        """The crew of a run that this process drives."""
        live = self.box.runner.live.get(run)
        return live.run.crew if live is not None else None

    def _dropped(self) -> None:
        self.metrics.dropped.add()


def _wrong_key(_: Scope) -> RequestRefused:
    return RequestRefused("wrong-key", "this is no key of this server")


def needs(*scopes: str, by_crew: bool = False) -> Callable[[Request], Awaitable[Caller]]:
    """The caller, if the key has one of the scopes. Asynchronous: FastAPI would have a thread call it otherwise.

    A key that is limited to some crews is refused, unless the route says `by_crew`: then the route itself lets it see
    nothing of others.
    """

    async def caller(request: Request) -> Caller:
        found: Caller = request.state.caller
        if not any(found.may(scope) for scope in scopes):
            wanted = " or ".join(f"'{scope}'" for scope in scopes)
            _log_refused(request, found, f"no scope {wanted}")
            raise RequestRefused("missing-scope", f"this needs a key with the scope {wanted}")
        if found.crews is not None and not by_crew:
            _log_refused(request, found, "it is limited to some crews")
            raise RequestRefused("missing-scope", "this is about all crews, and the key is limited to some")
        return found

    caller.scope = scopes[0]  # type: ignore[attr-defined]  # for the OpenAPI document
    return caller


def _log_refused(request: Request, caller: Caller, why: str) -> None:
    place = f"{request.method[:20]} {request.url.path[:200]}"
    _log.warning("refused %s for %s: %s", caller.by, place, why, extra={"fields": {"by": caller.by}})


async def known_caller(request: Request) -> Caller:
    """Whoever has a key, whatever it allows."""
    found: Caller = request.state.caller
    return found


known_caller.scope = ""  # type: ignore[attr-defined]  # as above
