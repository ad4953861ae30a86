"""Providers that asked to wait: no process of the store calls them until they take calls again.

Rule 1: only a provider that has too many calls holds back others; any other failure concerns one call.
Rule 2: a call waits for a minute at most, as a run that was told to wait itself; then it is made anyway.
Rule 3: calls that waited return spread over a quarter of their wait, not all at once.
Rule 4: without a hold a call costs one look at an empty dictionary. Holds of other processes come as news of the store.
"""

import asyncio
import logging
from collections.abc import Callable
from zlib import crc32

from interlock.crew.definition import AgentDefinition
from interlock.engine.turns.model_calls import RETRY_AFTER_MAX_MS
from interlock.errors import StoreBroken, StoreFailed
from interlock.ports import Bus, Clock, ProviderHold, ProviderHolds
from interlock.runtime.live_run import LiveRun

# The server that answers an agent in a run; empty if none does.
ServerOf = Callable[[AgentDefinition, str], str]

# A hold that ends later than the last one by less is not stored: a hundred calls are refused together.
LONGER_MS_MIN = 1_000

# After news of the store: at most so often.
READ_AGAIN_MS = 500

_log = logging.getLogger("interlock")


def server_of_agent(agent: AgentDefinition, _run: str) -> str:
    """The server of an agent's own model."""
    return agent.primary.server if agent.primary is not None else ""


class HeldProviders:
    """The holds that this process knows. `until` is empty while there are none."""

    def __init__(self, holds: ProviderHolds, bus: Bus, clock: Clock, server_of: ServerOf) -> None:
        self._holds, self._bus, self._clock, self._server_of = holds, bus, clock, server_of
        self.until: dict[str, int] = {}
        self._news = asyncio.Event()
        self._storing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Reads the holds before the first call is made."""
        self._stop = self._bus.watch(self._news.set, "providers")
        await self._try_read()

    async def run(self) -> None:
        """Reads the holds again after news of the store, until it is cancelled."""
        read_ms = self._clock.monotonic_ms()
        try:
            while True:
                await self._news.wait()
                if self._clock.monotonic_ms() < read_ms + READ_AGAIN_MS:
                    await self._clock.sleep_until(read_ms + READ_AGAIN_MS)
                self._news.clear()
                if not await self._try_read():
                    return
                read_ms = self._clock.monotonic_ms()
        finally:
            self._stop()
            await asyncio.gather(*self._storing)

    def on_overloaded(self, live: LiveRun, agent: AgentDefinition, wait_ms: int) -> None:
        """Holds back the calls to the provider of an agent, in all processes, for as long as it asks."""
        server, now = self._server_of(agent, live.id), self._clock.now_ms()
        until = now + min(wait_ms, RETRY_AFTER_MAX_MS)
        if not server or until <= now or until < self.until.get(server, now) + LONGER_MS_MIN:
            return
        self.until[server] = until
        task = asyncio.create_task(self._store(ProviderHold(server=server, until=until), now))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    def holds_back(self, live: LiveRun, agent: AgentDefinition) -> bool:
        """True while the provider of an agent takes no calls."""
        return bool(self.until) and self._remaining_ms(self._server_of(agent, live.id)) > 0

    async def wait_until_free(self, live: LiveRun, agent: AgentDefinition) -> bool:
        """Waits while the provider of an agent takes no calls; False if that lasts longer than the longest hold."""
        if not self.until:
            return True
        server, began_ms = self._server_of(agent, live.id), self._clock.monotonic_ms()
        while (left_ms := self._remaining_ms(server)) > 0:
            now = self._clock.monotonic_ms()
            if now - began_ms >= RETRY_AFTER_MAX_MS:
                return False
            spread_ms = crc32(f"{live.id}:{agent.id}".encode()) % (left_ms // 4 + 1)
            await self._clock.sleep_until(now + left_ms + spread_ms)
        return True

    def _remaining_ms(self, server: str) -> int:
        """How long the hold of a server still lasts; one that is over is forgotten."""
        left_ms = self.until.get(server, 0) - self._clock.now_ms()
        if left_ms <= 0:
            self.until.pop(server, None)
        return min(left_ms, RETRY_AFTER_MAX_MS)

    async def _try_read(self) -> bool:
        """Reads the holds, or as soon as the store is back; False if it never is."""
        try:
            for hold in await self._holds.provider_holds(self._clock.now_ms()):
                self.until[hold.server] = max(hold.until, self.until.get(hold.server, 0))
        except StoreBroken:
            return False
        except StoreFailed as error:
            _log.warning("which providers are to be waited for cannot be read now: %s", error)
            self._news.set()
        return True

    async def _store(self, hold: ProviderHold, at: int) -> None:
        try:
            await self._holds.hold_provider(hold, at)
        except StoreFailed as error:  # the others are told to wait by the provider itself
            _log.warning("other processes cannot be told to wait for %s: %s", hold.server, error)
