"""External signals: stored with their record, handed to the host, then acknowledged.

Rule 1: at least once. After a crash the host may get a signal again, with the same key.
Rule 2: one process at a time sends a signal: the one that stored it, or one that has claimed it.
Rule 3: a host that fails gets it again, a few times soon; then the signal stays in the store, and a process that looks
for signals that are due sends it again after an hour. Attempts are stored.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from interlock.engine.effects import Effect, SendExternalSignal
from interlock.errors import PortError, StoreBroken
from interlock.ports import PUT_OFF_MAX_MS, Clock, Outbox, OutgoingSignal, Owners
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

# The pauses before a host that failed gets the signal again from the same process, and after that from any.
PAUSES_MS = (1_000, 10_000, 60_000)
LATER_MS = PUT_OFF_MAX_MS

# How often a process that stays looks for signals that are due, and how many it claims at once.
LOOK_MS = 30_000
CLAIMED_MAX = 100


class ExternalSender:
    """Hands external signals to the handler of the host, if it has one, each in its own task."""

    def __init__(self, outbox: Outbox, owners: Owners, clock: Clock, on_external: OnExternal | None) -> None:
        self._outbox, self._owners, self._clock, self._on_external = outbox, owners, clock, on_external
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

    async def run(self) -> None:
        """Sends what is due and has no living sender, until it is cancelled."""
        while self._on_external is not None:
            try:
                await self.resend_pending()
            except StoreBroken:
                return
            except PortError as error:
                _log.warning("external signals cannot be read now: %s", error)
            await self._clock.sleep_until(self._clock.monotonic_ms() + LOOK_MS)

    async def resend_pending(self, run: str | None = None) -> None:
        """Sends the signals, of one run or of all, that are due and have no living sender."""
        if self._on_external is not None:
            self.start_sending(await self._claim_due(self._clock.now_ms(), run))

    async def _claim_due(self, at: int, run: str | None) -> Sequence[OutgoingSignal]:
        """Also those that this process has claimed and does not send: an answer was lost, or the lease for a moment."""
        return await self._outbox.claim_signals(at, CLAIMED_MAX, run, self._tasks.keys())

    async def stop(self) -> None:
        """Cancels the tasks; unacknowledged signals stay in the store."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, outgoing: OutgoingSignal) -> None:
        signal: OutgoingSignal | None = outgoing
        while signal is not None and self._owners.has_lease():  # else `_claim_due` finds it when the lease is back
            if await self._has_handled(signal):
                await retry_while_store_away(self._clock, lambda: self._outbox.ack_outgoing(outgoing.key))
                return
            signal = await self._claim_again(signal)

    async def _has_handled(self, outgoing: OutgoingSignal) -> bool:
        assert self._on_external is not None, "no signal is sent without a handler"
        signal = _signal_of(outgoing)
        try:
            outcome = self._on_external(signal)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:  # a host may fail in any way, and its run continues
            _log.warning("the host failed to handle %s of run %s: %r", signal.signal, outgoing.run, error)
            return False
        return True

    async def _claim_again(self, outgoing: OutgoingSignal) -> OutgoingSignal | None:
        """Puts a signal off, waits, and claims it again; None if it is left to others."""
        clock, attempts, key = self._clock, outgoing.attempts + 1, outgoing.key
        is_soon = attempts <= len(PAUSES_MS)
        pause_ms = PAUSES_MS[attempts - 1] if is_soon else LATER_MS
        due_at = clock.now_ms() + pause_ms
        await retry_while_store_away(clock, lambda: self._outbox.put_off(key, attempts, due_at))
        if not is_soon:
            return None
        await clock.sleep_until(clock.monotonic_ms() + pause_ms)
        at = max(due_at, clock.now_ms())
        claimed = await retry_while_store_away(clock, lambda: self._claim_due(at, outgoing.run))
        self.start_sending([each for each in claimed if each.key != key])
        return next((each for each in claimed if each.key == key), None)


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
