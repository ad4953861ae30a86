"""Connections to model servers, kept open between calls.

Rule 1: one call, one connection. Each has a transport of its own, because a shared pool looks at every connection for
every request; a thousand calls at once would pay for each other.
Rule 2: nothing is taken from the environment: no proxy, no .netrc. A proxy is one that the host's file names.
Rule 3: certificates are checked, always.
Rule 4: connections belong to an event loop: they are closed before it ends, and opened anew in the next.
"""

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncHTTPTransport

# Connections that stay open for each server while nobody uses them: as many as calls may be under way at once.
IDLE_MAX = 1_000

# Servers close idle connections after 5 to 60 seconds; one that is reused too late costs a failed call.
IDLE_SECONDS = 4.0


class Connections:
    """What is open to one server, the last used first."""

    def __init__(self, proxy: str = "") -> None:
        self._proxy = proxy or None
        self._idle: deque[tuple[float, AsyncHTTPTransport]] = deque()
        self._context: ssl.SSLContext | None = None

    def take(self) -> "AsyncHTTPTransport":
        return self._idle.pop()[1] if self._idle else self._new()

    async def give_back(self, transport: "AsyncHTTPTransport") -> None:
        now = monotonic()
        self._idle.append((now, transport))
        while len(self._idle) > IDLE_MAX or self._idle[0][0] < now - IDLE_SECONDS:
            await self._idle.popleft()[1].aclose()

    async def close(self) -> None:
        idle, self._idle = self._idle, deque()
        for _, transport in idle:
            await transport.aclose()

    def context(self) -> "ssl.SSLContext":
        """What every connection is checked by."""
        from httpx2 import create_ssl_context

        if self._context is None:
            self._context = create_ssl_context(trust_env=False)
        return self._context

    def _new(self) -> "AsyncHTTPTransport":
        # Imported by the first call: no command that calls no model should pay for it.
        from httpx2 import AsyncHTTPTransport, Limits

        limits = Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)
        return AsyncHTTPTransport(verify=self.context(), trust_env=False, limits=limits, proxy=self._proxy)
