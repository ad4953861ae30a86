"""Checks every request before it reaches a route.

Rule 1: the order is host, origin, key, rate, body. No body is read for a caller that is refused, and little for one
that needs no key.
Rule 2: every answer has the same security headers, refusals included.
Rule 3: unread answers are counted, and limited per caller.
Rule 4: a cookie is valid only with an allowed origin; a body only as JSON.
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

from interlock.adapters.config.server_settings import ServerSettings
from interlock.errors import InterlockError, RequestRefused
from interlock.ports import Clock
from interlock.server.auth import ANYONE, ApiCaller, Authenticator
from interlock.server.http.bodies import read_body, require_json, require_size
from interlock.server.http.origins import Origins
from interlock.server.http.problems import problem_response
from interlock.server.http.rate_limits import RateLimiter
from interlock.server.metrics import Metrics

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

# For monitoring, which may use any address of this server.
PROBES = ("/healthz", "/readyz")
METRICS_PATH = "/metrics"

# Open to everyone: health, the OpenAPI document, and the dashboard, which contains no data.
OPEN_PATHS = ("/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")
OPEN_PREFIX = "/static/"
SESSION_PATH = "/v1/session"
# The sender of a webhook has no key: its route checks the signature.
SIGNED_PREFIX = "/v1/webhooks/"

# Includes cookies of other servers on this machine; a key and a code are far smaller.
HEADER_BYTES_MAX = 16 * 1024

# Bytes of a large document per write; the next piece waits until this one is sent.
CHUNK_BYTES = 64 * 1024

# Enough for a code or a key as JSON.
SESSION_BYTES_MAX = 4 * 1024

JSON_TYPES = ("application/json", "application/cloudevents+json")
WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
# Methods that are counted by name; a client may invent others.
METHODS = (*WITHOUT_BODY, "POST", "PUT", "PATCH", "DELETE")


class GuardContext(NamedTuple):
    """The settings and functions that the guard uses."""

    settings: ServerSettings
    origins: Origins
    access: Authenticator | None  # None: no authentication
    clock: Clock
    metrics: Metrics
    admission: Callable[[], RequestRefused | None]  # the refusal of new work, if it is refused now
    body_bytes_max: Callable[[], int]
    hooks: Collection[str]  # incoming webhooks
    redact: Callable[[bytes], bytes]  # removes secrets from an answer in JSON
    slow_request_s: Callable[[], float]  # slower requests are logged


class Guard:
    """An ASGI application in front of the routes."""

    def __init__(self, app: ASGIApp, context: GuardContext) -> None:
        self.app, self._context = app, context
        settings, clock = context.settings, context.clock
        self._rates = RateLimiter(clock, settings.requests_per_second, 2 * settings.requests_per_second)
        self._failures = RateLimiter(clock, settings.failures_per_minute / 60, settings.failures_per_minute)
        # Bytes of answers not yet written to a socket, by caller.
        self._unread: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = self._without_prefix(scope)
        scope.setdefault("state", {})
        answering = _ResponseSender(scope, send, self._context, self._unread)
        try:
            body = await self._admit_request(scope, receive)
            await self.app(scope, _replay_body(body, receive), answering.send)
        except InterlockError as error:
            await problem_response(error)(scope, receive, answering.send)
        except Exception:
            _log.exception("a request failed: %s %s", scope["method"], scope["path"])
            if not answering.has_begun:
                failed = RequestRefused("internal-error", "see the server's log")
                await problem_response(failed)(scope, receive, answering.send)

    def _without_prefix(self, scope: Scope) -> Scope:
        path = self._context.origins.path_without_prefix(scope["path"])
        return scope if path == scope["path"] else {**scope, "path": path, "raw_path": quote(path).encode()}

    def _is_open_to_all(self, path: str) -> bool:
        """True for requests that need neither an allowed host nor a key."""
        return path in PROBES or (path == METRICS_PATH and self._context.settings.metrics_open)

    async def _admit_request(self, scope: Scope, receive: Receive) -> bytes:
        """Refuses the request, or stores its caller for the routes; returns the body."""
        require_small_headers(scope)
        _require_text(scope)
        headers = _headers_of(scope)
        self._require_host_and_origin(scope, headers)
        state: dict[str, Any] = scope["state"]
        state["caller"] = self._caller_of(scope, headers)
        if scope["method"] in WITHOUT_BODY:
            return b""
        if (closed := self._context.admission()) is not None:
            raise closed
        self._require_hook(scope["path"])
        state["body"] = await self._read_json_body(scope, headers, receive)
        return state["body"] if isinstance(state["body"], bytes) else b""

    def _require_host_and_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        origins = self._context.origins
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        is_known = len(hosts) == 1 and origins.is_allowed_host(headers.get("host"))
        if not is_known and not self._is_open_to_all(scope["path"]):
            raise RequestRefused(
                "host-not-allowed",
                f"host {headers.get('host', '')[:100]!r} is not allowed; add it to server.hosts",
            )
        if "origin" in headers and not origins.is_allowed_origin(headers["origin"]):
            raise RequestRefused(
                "origin-not-allowed", f"origin {headers['origin'][:100]!r} is not allowed; add it to server.origins"
            )

    def _require_hook(self, path: str) -> None:
        hook = path.removeprefix(SIGNED_PREFIX)
        if hook != path and hook not in self._context.hooks:
            raise RequestRefused("webhook-not-found", f"there is no webhook '{hook[:80]}', or it has no secret")

    def _caller_of(self, scope: Scope, headers: dict[str, str]) -> ApiCaller | None:
        path: str = scope["path"]
        opens_session = path == SESSION_PATH and scope["method"] == "POST"
        if opens_session or path in OPEN_PATHS or path.startswith((OPEN_PREFIX, SIGNED_PREFIX)):
            return None
        if self._is_open_to_all(path):
            return None
        caller = ANYONE if self._context.access is None else self._require_caller(self._context.access, scope, headers)
        wait_ms = self._rates.take_token_or_wait_ms(caller.id)
        if wait_ms:
            raise RequestRefused(
                "too-many-requests",
                f"more than {self._context.settings.requests_per_second:g} requests a second with this key; slow down",
                retry_after_s=-(-wait_ms // 1000),
            )
        self._require_unread_below_limit(caller)
        return caller

    def _require_unread_below_limit(self, caller: ApiCaller) -> None:
        """Refuses a caller with too many unread answers."""
        most_mb = self._context.settings.unread_mb_per_key
        if self._unread[caller.id] >= most_mb * 1024 * 1024:
            raise RequestRefused(
                "too-much-unread",
                f"{most_mb:g} MB of answers to this key are unread; read or close them first",
                retry_after_s=1,
            )

    def _require_caller(self, access: Authenticator, scope: Scope, headers: dict[str, str]) -> ApiCaller:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and key.strip():
            caller = access.caller_of_key(key.strip())
        elif (cookie := cookie_of(headers.get("cookie", ""), access.cookie)) and self._context.origins.is_from_own_page(
            headers
        ):
            caller = access.caller_of_session(cookie)
        else:
            raise RequestRefused(
                "no-key", "send 'Authorization: Bearer KEY'; the key is in server.key in the data folder"
            )
        if caller is None:
            raise self.refuse_wrong_key(scope)
        return caller

    def refuse_wrong_key(self, scope: Scope) -> RequestRefused:
        """The refusal of a wrong key, code or signature, or of too many of them."""
        address = (scope.get("client") or ("", 0))[0]
        wait_ms = self._failures.take_token_or_wait_ms(address)
        self._context.metrics.wrong_keys.add()
        if wait_ms:
            wait_s = -(-wait_ms // 1000)
            return RequestRefused("too-many-failures", f"too many wrong keys; wait {wait_s} s", retry_after_s=wait_s)
        # Beyond the limit nothing is logged: strangers must not fill the log.
        place = f"{scope['method'][:20]} {scope['path'][:200]}"
        is_signed = scope["path"].startswith(SIGNED_PREFIX)
        what = "signature" if is_signed else "key"
        _log.warning("refused a wrong %s from %s: %s", what, address, place, extra={"fields": {"address": address}})
        return RequestRefused(
            "wrong-key",
            "the signature or token of this webhook is not valid"
            if is_signed
            else "this key is not valid for this server",
        )

    async def _read_json_body(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        context = self._context
        bytes_max = SESSION_BYTES_MAX if scope["path"] == SESSION_PATH else context.body_bytes_max()
        if length := headers.get("content-length", ""):
            require_size(int(length), bytes_max)  # h11 accepts only numbers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if headers.get("content-encoding", "identity").lower() != "identity" or (kind and kind not in JSON_TYPES):
            raise RequestRefused("not-json", "send the body as application/json, without an encoding")
        body = await read_body(receive, bytes_max, context.settings.body_timeout_seconds)
        if body and not kind:
            raise RequestRefused("not-json", "Content-Type is missing; send application/json")
        if body and not scope["path"].startswith(SIGNED_PREFIX):
            require_json(body)
        return body


class _ResponseSender:
    """Sends with our headers, counts, removes secrets from documents, and sends large ones in pieces."""

    def __init__(self, scope: Scope, send: Send, context: GuardContext, unread: Counter[str]) -> None:
        self._scope, self._send, self._context, self._unread = scope, send, context, unread
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
        """Redacts a JSON document that is sent whole; streams are redacted where they are made."""
        body, more = message.get("body", b""), message.get("more_body", False)
        start, self._start = self._start, None
        if start is not None:
            if not more and _is_json(start):
                body = self._redact_body(start, body)
            if len(body) <= CHUNK_BYTES and (hold := self._scope["state"].get("hold_writes")) is not None:
                hold()
            await self._send_start(start)
        caller = self._scope["state"].get("caller")
        name = caller.id if caller is not None else ""
        self._unread[name] += len(body)
        try:
            await self._send_chunks(body, more=more, whole=start is None or more)
        finally:
            self._unread[name] -= len(body)
            if not self._unread[name]:
                del self._unread[name]
            if start is not None and (release := self._scope["state"].get("release_writes")) is not None:
                release()

    async def _send_chunks(self, body: bytes, *, more: bool, whole: bool) -> None:
        """Splits a large document. Pieces of a stream stay whole: other text may come between two of them."""
        step = len(body) if whole else CHUNK_BYTES
        for start in range(0, max(len(body), 1), max(step, 1)):
            piece = body[start : start + step] if step < len(body) else body
            is_last = start + step >= len(body)
            await self._send({"type": "http.response.body", "body": piece, "more_body": more or not is_last})

    def _redact_body(self, start: Message, body: bytes) -> bytes:
        redacted = self._context.redact(body)
        if redacted != body:
            kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
            start["headers"] = [*kept, (b"content-length", str(len(redacted)).encode())]
        return redacted

    async def _send_start(self, message: Message) -> None:
        self.has_begun = True
        message["headers"] = [*message.get("headers", ()), *self._security_headers(), *self._cache_headers(message)]
        route = getattr(self._scope.get("route"), "path", "none")
        seconds = time.perf_counter() - self._since
        method = self._scope["method"] if self._scope["method"] in METHODS else "other"
        self._context.metrics.count_request(method, route, message["status"], seconds)
        self._log_request(method, route, message["status"], seconds)
        await self._send(message)

    def _log_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Logs a request: slow and failed ones as warnings, the others at debug level."""
        is_slow = seconds >= self._context.slow_request_s()
        level = logging.WARNING if is_slow or status >= HTTPStatus.INTERNAL_SERVER_ERROR else logging.DEBUG
        if not _log.isEnabledFor(level):
            return
        caller = self._scope.get("state", {}).get("caller")
        fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000)}
        fields |= {"by": caller.by} if caller is not None else {}
        what = "slow request" if is_slow else "request"
        _log.log(level, "%s: %s %s gave %d", what, method, route, status, extra={"fields": fields})

    def _security_headers(self) -> list[tuple[bytes, bytes]]:
        """None if the protocol adds them by itself: it would check them again and again."""
        add_headers = self._scope["state"].get("add_headers")
        if add_headers is None:
            return _RAW_HEADERS
        add_headers()
        return []

    def _cache_headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        said = any(name.lower() == b"cache-control" for name, _ in message.get("headers", ()))
        return [] if said else [(b"cache-control", b"no-store")]


def _is_json(start: Message) -> bool:
    return any(name.lower() == b"content-type" and b"json" in value for name, value in start.get("headers", ()))


def _require_text(scope: Scope) -> None:
    """Refuses a NUL in the address: not every store can look for one."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise RequestRefused("bad-parameter", "the address contains a NUL (%00); remove it")


def require_small_headers(scope: Scope) -> None:
    """Refuses large headers: the parser checks only headers that arrive in pieces."""
    fields = sum(len(name) + len(value) for name, value in scope["headers"])
    if fields + len(scope["path"]) + len(scope["query_string"]) > HEADER_BYTES_MAX:
        raise RequestRefused("headers-too-large", f"address and headers have more than {HEADER_BYTES_MAX:,} bytes")


def _headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def cookie_of(cookies: str, name: str) -> str:
    try:
        found = SimpleCookie(cookies).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Returns the body that was read, and then the messages after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
