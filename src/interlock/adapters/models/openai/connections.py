"""Connections to model servers, kept open between calls.

Rule 1: one call, one connection. Each has its own transport, because a shared pool scans all connections for every
request, which is slow with a thousand calls at once.
Rule 2: nothing is read from the environment: no proxy, no .netrc. A proxy is named in the host's file.
Rule 3: certificates are always checked.
Rule 4: the chunks of one read are merged (`merged_chunks`).
Rule 5: connections belong to an event loop: they are closed before it ends, and opened again in the next.
"""

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from interlock.adapters.models.openai.merged_chunks import MergingBackend

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncHTTPTransport

# Idle connections that stay open per server: as many as there may be calls at once.
IDLE_MAX = 1_000

# Servers close idle connections after 5 to 60 seconds; one that is reused too late costs a failed call.
IDLE_SECONDS = 4.0


class Connections:
    """The open connections to one server, the last used first."""

    def __init__(self, proxy: str = "") -> None:
        self._proxy = proxy or None
        self._idle: deque[tuple[float, AsyncHTTPTransport]] = deque()
        self._context: ssl.SSLContext | None = None

    def acquire(self) -> "AsyncHTTPTransport":
        return self._idle.pop()[1] if self._idle else self._new_transport()

    async def release(self, transport: "AsyncHTTPTransport") -> None:
        now = monotonic()
        self._idle.append((now, transport))
        while len(self._idle) > IDLE_MAX or self._idle[0][0] < now - IDLE_SECONDS:
            await self._idle.popleft()[1].aclose()

    async def close(self) -> None:
        idle, self._idle = self._idle, deque()
        for _, transport in idle:
            await transport.aclose()

    def ssl_context(self) -> "ssl.SSLContext":
        """The TLS context of every connection."""
        from httpx2 import create_ssl_context

        if self._context is None:
            self._context = create_ssl_context(trust_env=False)
        return self._context

    def _new_transport(self) -> "AsyncHTTPTransport":
        # Imported by the first call: a command that calls no model should not pay for it.
        from httpx2 import AsyncHTTPTransport, Limits

        limits = Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)
        transport = AsyncHTTPTransport(verify=self.ssl_context(), trust_env=False, limits=limits, proxy=self._proxy)
        # httpx2 does not pass this option of httpcore2 on. Only speed depends on it.
        pool = transport._pool
        if hasattr(pool, "_network_backend"):
            pool._network_backend = MergingBackend(pool._network_backend)  # type: ignore[assignment]
        return transport
