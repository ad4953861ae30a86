"""Who asks, and what they may.

Rule 1: keys are compared by their hashes, in constant time, all of them whichever fits; the text of a key is nowhere
but in its 0600 file and in the hands of whoever uses it.
Rule 2: the page gets in by a code that works once, and is then known by a cookie that only this server could have
made. The cookie is worth something only together with an origin of ours: see `guard`.
Rule 3: a session may what the key may that opened it. It ends when somebody closes it, when that key is replaced or
removed, and all end when the data folder gets a new key.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from interlock.adapters.server_settings import SCOPES, ServerKey
from interlock.ports import Clock

# Of a server on a port: browsers give a cookie to every port of a machine, and there may be several servers.
SESSION_COOKIE = "interlock_session_{port}"

# How codes and sessions begin: `known_keys` finds them by that in whatever is stored or shown.
CODE_PREFIX, SESSION_PREFIX = "ilc_", "ils_"

# The address with the code is opened at once, or the server started anew.
CODE_LIFE_MS = 15 * 60 * 1000


def _forget(_: str) -> None:
    """Nobody is to be told."""


class Caller(msgspec.Struct, frozen=True):
    """Somebody who was let in; `id` is what counts as one caller."""

    id: str
    scopes: frozenset[str]
    crews: frozenset[str] | None = None  # None: those of all crews
    has_session: bool = False  # of the page, opened with the key of this id

    @property
    def by(self) -> str:
        """How journals name it."""
        return f"session:{self.id}" if self.has_session else self.id

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def may_see(self, crew: str) -> bool:
        return self.crews is None or crew in self.crews

    @property
    def allowed(self) -> list[str]:
        """Every scope it has, by name or through `admin`."""
        return sorted(scope for scope in SCOPES if self.may(scope))


class Session(NamedTuple):
    """A browser that was let in, until then."""

    id: str
    until: int
    caller: Caller


# The key of the data folder, and the page that was let in by it, may everything.
OWNER = Caller("owner", frozenset(SCOPES))
# With --no-auth.
ANYONE = Caller("anyone", frozenset(SCOPES))


class Access:
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
        learn: Callable[[str], None] = _forget,
    ) -> None:
        """`closed` are the ids of sessions that are over before their time; `learn` is told each key that was used."""
        self._learn = learn
        self.cookie = SESSION_COOKIE.format(port=port)
        self._closed = set(closed)
        self._clock, self._session_ms = clock, round(session_hours * 3_600_000)
        self._known = [(_digest(key), OWNER)]
        self._known += [(bytes.fromhex(each.sha256), _caller_of(name, each)) for name, each in others.items()]
        self._seal = hmac.new(key.encode(), b"interlock session", hashlib.sha256).digest()
        self._code, self._code_until = "", 0

    def of_key(self, text: str) -> Caller | None:
        digest, found = _digest(text), None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        if found is not None:  # until now only its hash was known
            self._learn(text)
        return found

    def new_code(self) -> str:
        """For the address that is printed; it takes the place of the one before."""
        self._code, self._code_until = (
            CODE_PREFIX + secrets.token_urlsafe(24),
            self._clock.monotonic_ms() + CODE_LIFE_MS,
        )
        return self._code

    def exchanged(self, code: str) -> Caller | None:
        is_right = hmac.compare_digest(_digest(self._code), _digest(code))
        if not self._code or not is_right or self._clock.monotonic_ms() > self._code_until:
            return None
        self._code = ""
        return OWNER

    @property
    def session_seconds(self) -> int:
        return self._session_ms // 1000

    def new_session(self, caller: Caller) -> str:
        body = f"{SESSION_PREFIX}{self._clock.now_ms() + self._session_ms}.{secrets.token_urlsafe(16)}.{caller.id}"
        return f"{body}.{self._sealed(body, caller)}"

    def of_session(self, cookie: str) -> Caller | None:
        session = self._opened(cookie)
        if session is None or session.id in self._closed or self._clock.now_ms() >= session.until:
            return None
        return msgspec.structs.replace(session.caller, has_session=True)

    def close(self, cookie: str) -> Session | None:
        """The session of this cookie is over; gives it, if it was one."""
        session = self._opened(cookie)
        if session is not None:
            self._closed.add(session.id)
        return session

    def _opened(self, cookie: str) -> Session | None:
        """What a cookie says that we have made, whether or not it is over."""
        body, _, seal = cookie.rpartition(".")
        caller = next((known for _, known in self._known if known.id == body.rpartition(".")[2]), None)
        if caller is None or not hmac.compare_digest(_digest(self._sealed(body, caller)), _digest(seal)):
            return None
        until, session, _ = body.removeprefix(SESSION_PREFIX).split(".")
        return Session(session, int(until), caller)

    def _sealed(self, body: str, caller: Caller) -> str:
        """With the key of the caller, so that it holds no longer than that."""
        key = next(digest for digest, known in self._known if known == caller)
        return hmac.new(self._seal, key + body.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _caller_of(name: str, key: ServerKey) -> Caller:
    crews = frozenset(key.crews) if key.crews is not None else None
    return Caller(f"key:{name}", frozenset(key.scopes), crews)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
