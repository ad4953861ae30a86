"""External signals: stored with their record, handed to the host, then acknowledged.

Rule 1: at least once. After a crash the host may get a signal again, with the same key.
Rule 2: a host that fails gets it again, a few times; then the signal stays in the store for the next start.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from interlock.engine.effects import Effect, SendExternalSignal
from interlock.ports import Clock, Outbox, OutgoingSignal
from interlock.runtime.store_retry import retry_while_store_away


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

# The pauses before a host that failed gets the signal again.
PAUSES_MS = (1_000, 10_000, 60_000)


class ExternalSender:
    """Hands external signals to the handler of the host, if it has one, each in its own task."""

    def __init__(self, outbox: Outbox, clock: Clock, on_external: OnExternal | None) -> None:
        self._outbox, self._clock, self._on_external = outbox, clock, on_external
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def outgoing_signals(self, run: str, effects: Sequence[Effect]) -> tuple[OutgoingSignal, ...]:
        if self._on_external is None or not any(isinstance(effect, SendExternalSignal) for effect in effects):
            return ()
        sends = [effect for effect in effects if isinstance(effect, SendExternalSignal)]
        named = [msgspec.structs.replace(send, key=f"{run}:{send.key}") for send in sends]
        return tuple(OutgoingSignal(key=send.key, run=run, body=msgspec.json.encode(send)) for send in named)

    def start_sending(self, outgoing: Sequence[OutgoingSignal]) -> None:
        for each in outgoing:
            if each.key not in self._tasks:
                task = self._tasks[each.key] = asyncio.create_task(self._send(each), name=each.key)
                task.add_done_callback(lambda done: self._tasks.pop(done.get_name(), None))

    async def runs_with_pending(self) -> list[str]:
        """The runs with signals that are not acknowledged yet."""
        if self._on_external is None:
            return []
        return list(dict.fromkeys(each.run for each in await self._outbox.signals_to_deliver()))

    async def resend_pending(self, run: str) -> None:
        if self._on_external is not None:
            self.start_sending(await self._outbox.signals_to_deliver(run))

    async def stop(self) -> None:
        """Cancels the tasks; unacknowledged signals stay in the store."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, outgoing: OutgoingSignal) -> None:
        assert self._on_external is not None, "no signal is sent without a handler"
        signal = _signal_of(outgoing)
        for pause_ms in (*PAUSES_MS, None):
            try:
                outcome = self._on_external(signal)
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception as error:  # a host may fail in any way, and its run continues
                _log.warning("the host failed to handle %s of run %s: %r", signal.signal, outgoing.run, error)
                if pause_ms is None:
                    return
                await self._clock.sleep_until(self._clock.monotonic_ms() + pause_ms)
            else:
                break
        await retry_while_store_away(self._clock, lambda: self._outbox.ack_outgoing(outgoing.key))


def _signal_of(outgoing: OutgoingSignal) -> ExternalSignal:
    tell = msgspec.json.decode(outgoing.body, type=SendExternalSignal)
    return ExternalSignal(
        key=tell.key,
        run=outgoing.run,
        signal=tell.signal,
        agent_id=tell.agent,
        content=tell.content,
        requires_response=tell.requires_response,
        token=tell.token,
    )
