"""Authentication and scopes: keys, one-time codes and sessions.

Rule 1: keys are compared by their hashes, in constant time, and always all of them. The text of a key is only in its
0600 file and with its user.
Rule 2: the dashboard signs in with a code that works once, and gets a cookie that this server has signed. The cookie
is valid only together with an allowed origin: see `guard`.
Rule 3: a session has the scopes of the key that opened it. It ends when the user signs out, or when that key is
replaced or removed. All sessions end when the data folder gets a new key.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from interlock.adapters.config.server_settings import SCOPES, ServerKey
from interlock.ports import Clock

# Per port: browsers send a cookie to every port of a machine, and there may be several servers.
SESSION_COOKIE = "interlock_session_{port}"

# Prefixes of codes and sessions: the redaction of secrets finds them by these.
CODE_PREFIX, SESSION_PREFIX = "ilc_", "ils_"

# The address with the code is opened soon, or the server is restarted.
CODE_LIFE_MS = 15 * 60 * 1000


def _ignore_key(_: str) -> None:
    """Does nothing: no one needs to learn the key."""


class ApiCaller(msgspec.Struct, frozen=True):
    """An authenticated caller; `id` identifies it for rate limits."""

    id: str
    scopes: frozenset[str]
    crews: frozenset[str] | None = None  # None: those of all crews
    has_session: bool = False  # of the page, opened with the key of this id

    @property
    def by(self) -> str:
        """The name in journals."""
        return f"session:{self.id}" if self.has_session else self.id

    def has_scope(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def may_see(self, crew: str) -> bool:
        return self.crews is None or crew in self.crews

    @property
    def all_scopes(self) -> list[str]:
        """All scopes, by name or through `admin`."""
        return sorted(scope for scope in SCOPES if self.has_scope(scope))


class BrowserSession(NamedTuple):
    """A signed-in browser, and when its session ends."""

    id: str
    until: int
    caller: ApiCaller


# The key of the data folder, and sessions opened with it: all scopes.
OWNER = ApiCaller("owner", frozenset(SCOPES))
# With --no-auth.
ANYONE = ApiCaller("anyone", frozenset(SCOPES))


class Authenticator:
    """The keys of one server."""

    def __init__(
        self,
        key: str,
        others: Mapping[str, ServerKey],
        clock: Clock,
        session_hours: float,
        *,
        port: int,
        closed: Iterable[str] = (),
        learn: Callable[[str], None] = _ignore_key,
    ) -> None:
        """`closed` are the ids of sessions that ended early; `learn` is called with each key that was used."""
        self._learn = learn
        self.cookie = SESSION_COOKIE.format(port=port)
        self._closed = set(closed)
        self._clock, self._session_ms = clock, round(session_hours * 3_600_000)
        self._known = [(_digest(key), OWNER)]
        self._known += [(bytes.fromhex(each.sha256), _caller_of(name, each)) for name, each in others.items()]
        self._learned: set[bytes] = set()
        self._seal = hmac.new(key.encode(), b"interlock session", hashlib.sha256).digest()
        self._code, self._code_until = "", 0

    def caller_of_key(self, text: str) -> ApiCaller | None:
        digest, found = _digest(text), None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        if found is not None and digest not in self._learned:  # only its hash was known before
            self._learn(text)
            self._learned.add(digest)
        return found

    def issue_code(self) -> str:
        """Issues a code for the printed address; it replaces the one before."""
        self._code, self._code_until = (
            CODE_PREFIX + secrets.token_urlsafe(24),
            self._clock.monotonic_ms() + CODE_LIFE_MS,
        )
        return self._code

    def redeem_code(self, code: str) -> ApiCaller | None:
        is_right = hmac.compare_digest(_digest(self._code), _digest(code))
        if not self._code or not is_right or self._clock.monotonic_ms() > self._code_until:
            return None
        self._code = ""
        return OWNER

    @property
    def session_seconds(self) -> int:
        return self._session_ms // 1000

    def new_session_cookie(self, caller: ApiCaller) -> str:
        body = f"{SESSION_PREFIX}{self._clock.now_ms() + self._session_ms}.{secrets.token_urlsafe(16)}.{caller.id}"
        return f"{body}.{self._signature_of(body, caller)}"

    def caller_of_session(self, cookie: str) -> ApiCaller | None:
        session = self._session_of(cookie)
        if session is None or session.id in self._closed or self._clock.now_ms() >= session.until:
            return None
        return msgspec.structs.replace(session.caller, has_session=True)

    def close_session(self, cookie: str) -> BrowserSession | None:
        """Ends the session of a cookie; returns the session, if it was one."""
        session = self._session_of(cookie)
        if session is not None:
            self._closed.add(session.id)
        return session

    def _session_of(self, cookie: str) -> BrowserSession | None:
        """The session in a cookie with our signature, also if it has ended."""
        body, _, seal = cookie.rpartition(".")
        caller = next((known for _, known in self._known if known.id == body.rpartition(".")[2]), None)
        if caller is None or not hmac.compare_digest(_digest(self._signature_of(body, caller)), _digest(seal)):
            return None
        until, session, _ = body.removeprefix(SESSION_PREFIX).split(".")
        return BrowserSession(session, int(until), caller)

    def _signature_of(self, body: str, caller: ApiCaller) -> str:
        """Signs with the key of the caller, so that the session is valid no longer than the key."""
        key = next(digest for digest, known in self._known if known == caller)
        return hmac.new(self._seal, key + body.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _caller_of(name: str, key: ServerKey) -> ApiCaller:
    crews = frozenset(key.crews) if key.crews is not None else None
    return ApiCaller(f"key:{name}", frozenset(key.scopes), crews)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
