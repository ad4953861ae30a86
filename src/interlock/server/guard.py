"""What every request passes before it reaches a route.

Rule 1: in this order: by which name, from whose page, with which key, how often, then what body. Nothing of a body is
read for somebody who may not ask, and little for somebody who does not need a key.
Rule 2: every answer carries the same security headers, refusals included.
Rule 3: answers that wait to be read are counted, and one caller may have only so much of them.
Rule 4: a cookie counts only with an origin of ours; a body only as JSON.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.adapters.server_settings import ServerSettings
from interlock.errors import InterlockError, RequestRefused
from interlock.ports import Clock
from interlock.server.access import ANYONE, Access, Caller
from interlock.server.bodies import read_body, require_json, require_size
from interlock.server.metrics import Metrics
from interlock.server.origins import Origins
from interlock.server.problems import problem_response
from interlock.server.rates import Rates

_log = logging.getLogger("interlock.server")

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

# What a machine asks that watches this one: it calls the server by whatever address it knows.
PROBES = ("/healthz", "/readyz")
METRICS = "/metrics"

# What anybody may see: that the server lives, how to talk to it, and the page, which holds nothing.
OPEN_PATHS = ("/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")
OPEN_FOLDER = "/static/"
SESSION = "/v1/session"
# Whoever sends a webhook has no key: its signature is looked at by its route.
SIGNED_FOLDER = "/v1/webhooks/"

# Cookies of other servers on this machine come along too; a key and a code are far smaller.
HEADER_BYTES_MAX = 16 * 1024

# Of a large document that is handed to the socket at once; the next piece waits until this one is taken.
PIECE_BYTES = 64 * 1024

# A code or a key, and the names of both.
SESSION_BYTES_MAX = 4 * 1024

JSON_TYPES = ("application/json", "application/cloudevents+json")
WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
# What is counted by name; a client may make up any number of others.
METHODS = (*WITHOUT_BODY, "POST", "PUT", "PATCH", "DELETE")


class Gatekeeper(NamedTuple):
    """What the guard asks."""

    settings: ServerSettings
    origins: Origins
    access: Access | None  # None lets anybody in
    clock: Clock
    metrics: Metrics
    admission: Callable[[], RequestRefused | None]  # why nothing is taken in now, if so
    body_bytes_max: Callable[[], int]
    hooks: Collection[str]  # webhooks that are taken in
    redact: Callable[[bytes], bytes]  # takes secrets out of an answer in JSON
    slow_request_s: Callable[[], float]  # from which on a request is worth a line in the log


class Guard:
    """ASGI in front of the routes."""

    def __init__(self, app: ASGIApp, keeper: Gatekeeper) -> None:
        self.app, self._keeper = app, keeper
        settings, clock = keeper.settings, keeper.clock
        self._rates = Rates(clock, settings.requests_per_second, 2 * settings.requests_per_second)
        self._failures = Rates(clock, settings.failures_per_minute / 60, settings.failures_per_minute)
        # Bytes of answers that are made and not yet handed to a socket, by caller.
        self._unread: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = self._without_prefix(scope)
        answering = _Answering(scope, send, self._keeper, self._unread)
        try:
            body = await self._admitted(scope, receive)
            await self.app(scope, _again(body, receive), answering.send)
        except InterlockError as error:
            await problem_response(error)(scope, receive, answering.send)
        except Exception:
            _log.exception("a request failed: %s %s", scope["method"], scope["path"])
            if not answering.has_begun:
                failed = RequestRefused("internal-error", "the log of the server tells more")
                await problem_response(failed)(scope, receive, answering.send)

    def _without_prefix(self, scope: Scope) -> Scope:
        path = self._keeper.origins.path_without_prefix(scope["path"])
        return scope if path == scope["path"] else {**scope, "path": path, "raw_path": quote(path).encode()}

    def _is_open_to_all(self, path: str) -> bool:
        """Whether neither the name of the server nor a key counts."""
        return path in PROBES or (path == METRICS and self._keeper.settings.metrics_open)

    async def _admitted(self, scope: Scope, receive: Receive) -> bytes:
        """Refuses, or tells the routes who asks; gives the body."""
        require_small_headers(scope)
        headers = _headers(scope)
        self._require_place(scope, headers)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["caller"] = self._caller(scope, headers)
        if scope["method"] in WITHOUT_BODY:
            return b""
        if (closed := self._keeper.admission()) is not None:
            raise closed
        self._require_hook(scope["path"])
        state["body"] = await self._body(scope, headers, receive)
        return state["body"] if isinstance(state["body"], bytes) else b""

    def _require_place(self, scope: Scope, headers: dict[str, str]) -> None:
        origins = self._keeper.origins
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        is_known = len(hosts) == 1 and origins.knows_host(headers.get("host"))
        if not is_known and not self._is_open_to_all(scope["path"]):
            raise RequestRefused(
                "host-not-allowed",
                f"this server is not called {headers.get('host', '')[:100]!r}; add the name to server.hosts",
            )
        if "origin" in headers and not origins.knows(headers["origin"]):
            raise RequestRefused(
                "origin-not-allowed", f"pages of {headers['origin'][:100]!r} may not ask; add it to server.origins"
            )

    def _require_hook(self, path: str) -> None:
        hook = path.removeprefix(SIGNED_FOLDER)
        if hook != path and hook not in self._keeper.hooks:
            raise RequestRefused("webhook-not-found", f"there is no webhook '{hook[:80]}', or it has no secret")

    def _caller(self, scope: Scope, headers: dict[str, str]) -> Caller | None:
        path: str = scope["path"]
        opens_session = path == SESSION and scope["method"] == "POST"
        if opens_session or path in OPEN_PATHS or path.startswith((OPEN_FOLDER, SIGNED_FOLDER)):
            return None
        if self._is_open_to_all(path):
            return None
        caller = ANYONE if self._keeper.access is None else self._known(self._keeper.access, scope, headers)
        wait_ms = self._rates.wait_ms(caller.id)
        if wait_ms:
            raise RequestRefused(
                "too-many-requests",
                f"more than {self._keeper.settings.requests_per_second:g} requests a second with this key; slow down",
                retry_after_s=-(-wait_ms // 1000),
            )
        self._require_read(caller)
        return caller

    def _require_read(self, caller: Caller) -> None:
        """Whoever asks for more and more, and reads nothing of it, is to read first."""
        most_mb = self._keeper.settings.unread_mb_per_key
        if self._unread[caller.id] >= most_mb * 1024 * 1024:
            raise RequestRefused(
                "too-much-unread",
                f"{most_mb:g} MB of answers to this key wait to be read; read or close them first",
                retry_after_s=1,
            )

    def _known(self, access: Access, scope: Scope, headers: dict[str, str]) -> Caller:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and key.strip():
            caller = access.of_key(key.strip())
        elif (cookie := cookie_of(headers.get("cookie", ""), access.cookie)) and self._keeper.origins.is_ours(headers):
            caller = access.of_session(cookie)
        else:
            raise RequestRefused("no-key", "send 'Authorization: Bearer KEY'; the key is in server.key of the folder")
        if caller is None:
            raise self.failed(scope)
        return caller

    def failed(self, scope: Scope) -> RequestRefused:
        """What somebody with a wrong key, code or signature is told; too often, and it is only that."""
        address = (scope.get("client") or ("", 0))[0]
        wait_ms = self._failures.wait_ms(address)
        self._keeper.metrics.wrong_keys.add()
        if wait_ms:
            wait_s = -(-wait_ms // 1000)
            return RequestRefused("too-many-failures", f"too many wrong keys; wait {wait_s} s", retry_after_s=wait_s)
        # Beyond the bound nothing is logged: the log is not for strangers to fill.
        place = f"{scope['method'][:20]} {scope['path'][:200]}"
        _log.warning("refused a wrong key from %s: %s", address, place, extra={"fields": {"address": address}})
        return RequestRefused("wrong-key", "this is no key of this server")

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        keeper = self._keeper
        bytes_max = SESSION_BYTES_MAX if scope["path"] == SESSION else keeper.body_bytes_max()
        if length := headers.get("content-length", ""):
            require_size(int(length), bytes_max)  # h11 lets through only what is a number
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if headers.get("content-encoding", "identity").lower() != "identity" or (kind and kind not in JSON_TYPES):
            raise RequestRefused("not-json", "send the body as application/json, without an encoding")
        body = await read_body(receive, bytes_max, keeper.settings.body_timeout_seconds)
        if body and not kind:
            raise RequestRefused("not-json", "say that the body is application/json: Content-Type is missing")
        if body and not scope["path"].startswith(SIGNED_FOLDER):
            require_json(body)
        return body


class _Answering:
    """Sends with our headers, counts, takes secrets out of documents, and hands large ones over in pieces."""

    def __init__(self, scope: Scope, send: Send, keeper: Gatekeeper, unread: Counter[str]) -> None:
        self._scope, self._send, self._keeper, self._unread = scope, send, keeper, unread
        self._since = time.perf_counter()
        self._start: Message | None = None
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            await self._send_body(message)
        else:
            await self._send(message)

    async def _send_body(self, message: Message) -> None:
        """A document in JSON is whole here; what comes in several pieces was looked at where they were made."""
        body, more = message.get("body", b""), message.get("more_body", False)
        start, self._start = self._start, None
        if start is not None:
            if not more and _is_json(start):
                body = self._redacted(start, body)
            await self._begin(start)
        caller = self._scope.get("state", {}).get("caller")
        name = caller.id if caller is not None else ""
        self._unread[name] += len(body)
        try:
            await self._send_pieces(body, more=more, whole=start is None or more)
        finally:
            self._unread[name] -= len(body)
            if not self._unread[name]:
                del self._unread[name]

    async def _send_pieces(self, body: bytes, *, more: bool, whole: bool) -> None:
        """Pieces of a stream stay whole: others may be sent between two of them."""
        step = len(body) if whole else PIECE_BYTES
        for start in range(0, max(len(body), 1), max(step, 1)):
            piece = body[start : start + step] if step < len(body) else body
            is_last = start + step >= len(body)
            await self._send({"type": "http.response.body", "body": piece, "more_body": more or not is_last})

    def _redacted(self, start: Message, body: bytes) -> bytes:
        redacted = self._keeper.redact(body)
        if redacted != body:
            kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
            start["headers"] = [*kept, (b"content-length", str(len(redacted)).encode())]
        return redacted

    async def _begin(self, message: Message) -> None:
        self.has_begun = True
        message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS, *self._caching(message)]
        route = getattr(self._scope.get("route"), "path", "none")
        seconds = time.perf_counter() - self._since
        method = self._scope["method"] if self._scope["method"] in METHODS else "other"
        self._keeper.metrics.seen(method, route, message["status"], seconds)
        self._log_request(method, route, message["status"], seconds)
        await self._send(message)

    def _log_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Slow ones and those that we failed are warnings; the others are for who asks for every detail."""
        is_slow = seconds >= self._keeper.slow_request_s()
        level = logging.WARNING if is_slow or status >= HTTPStatus.INTERNAL_SERVER_ERROR else logging.DEBUG
        if not _log.isEnabledFor(level):
            return
        caller = self._scope.get("state", {}).get("caller")
        fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000)}
        fields |= {"by": caller.by} if caller is not None else {}
        what = "slow request" if is_slow else "request"
        _log.log(level, "%s: %s %s gave %d", what, method, route, status, extra={"fields": fields})

    def _caching(self, message: Message) -> list[tuple[bytes, bytes]]:
        said = any(name.lower() == b"cache-control" for name, _ in message.get("headers", ()))
        return [] if said else [(b"cache-control", b"no-store")]


def _is_json(start: Message) -> bool:
    return any(name.lower() == b"content-type" and b"json" in value for name, value in start.get("headers", ()))


def require_small_headers(scope: Scope) -> None:
    """The parser looks at headers that come in pieces alone, and not at those that are there at once."""
    fields = sum(len(name) + len(value) for name, value in scope["headers"])
    if fields + len(scope["path"]) + len(scope["query_string"]) > HEADER_BYTES_MAX:
        raise RequestRefused("headers-too-large", f"address and headers have more than {HEADER_BYTES_MAX:,} bytes")


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def cookie_of(cookies: str, name: str) -> str:
    try:
        found = SimpleCookie(cookies).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, and then what comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
