"""What goes outside: kept in the store with the record that ordered it, handed over, then struck off.

Rule 1: at least once. A host that was told and could not say so is told again, with the same key.
Rule 2: a host that fails is told again, a few times; then the signal stays in the store for the next start.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from interlock.engine.effects import Effect, Tell
from interlock.ports import Clock, Outbox, Outgoing
from interlock.runtime.holding import while_away


class ExternalSignal(msgspec.Struct, frozen=True, kw_only=True):
    """An external signal as the host gets it. `key` is the same on every try; with a `token` the run waits for an
    answer: `box.resume(signal.run, answer, token=signal.token)`."""

    key: str
    run: str
    signal: str
    agent_id: str
    content: str
    requires_response: bool
    token: str = ""

    @property
    def agent(self) -> str:
        return self.agent_id


OnExternal = Callable[[ExternalSignal], Awaitable[None] | None]

_log = logging.getLogger("interlock")

# How long a host that failed is left alone before it is told again.
PAUSES_MS = (1_000, 10_000, 60_000)


class Deliveries:
    """Hands external signals to the host, one task each. Without a handler nobody is to be told."""

    def __init__(self, outbox: Outbox, clock: Clock, on_external: OnExternal | None) -> None:
        self._outbox, self._clock, self._on_external = outbox, clock, on_external
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def outgoing(self, run: str, effects: Sequence[Effect]) -> tuple[Outgoing, ...]:
        if self._on_external is None or not any(isinstance(effect, Tell) for effect in effects):
            return ()
        told = [effect for effect in effects if isinstance(effect, Tell)]
        named = [msgspec.structs.replace(tell, key=f"{run}:{tell.key}") for tell in told]
        return tuple(Outgoing(key=tell.key, run=run, body=msgspec.json.encode(tell)) for tell in named)

    def begin(self, outgoing: Sequence[Outgoing]) -> None:
        for each in outgoing:
            if each.key not in self._tasks:
                task = self._tasks[each.key] = asyncio.create_task(self._deliver(each), name=each.key)
                task.add_done_callback(lambda done: self._tasks.pop(done.get_name(), None))

    async def runs(self) -> list[str]:
        """Whose signals are still to be handed over."""
        if self._on_external is None:
            return []
        return list(dict.fromkeys(each.run for each in await self._outbox.pending()))

    async def again(self, run: str) -> None:
        if self._on_external is not None:
            self.begin(await self._outbox.pending(run))

    async def stop(self) -> None:
        """What is not over yet stays in the store."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, outgoing: Outgoing) -> None:
        assert self._on_external is not None, "nothing goes out without a handler"
        signal = _signal_of(outgoing)
        for pause_ms in (*PAUSES_MS, None):
            try:
                outcome = self._on_external(signal)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:  # a host may fail in any way, and its run goes on
                _log.warning("the host failed to take %s of run %s: %r", signal.signal, outgoing.run, error)
                if pause_ms is None:
                    return
                await self._clock.sleep_until(self._clock.monotonic_ms() + pause_ms)
            else:
                break
        await while_away(self._clock, lambda: self._outbox.delivered(outgoing.key))


def _signal_of(outgoing: Outgoing) -> ExternalSignal:
    tell = msgspec.json.decode(outgoing.body, type=Tell)
    return ExternalSignal(
        key=tell.key,
        run=outgoing.run,
        signal=tell.signal,
        agent_id=tell.agent,
        content=tell.content,
        requires_response=tell.requires_response,
        token=tell.token,
    )
