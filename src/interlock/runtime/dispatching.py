"""Signals for later, and broadcasts that agents are to act on: one task that sees to both when it is time.

Rule 1: times are the wall clock's, and it may be set while nobody looks: while something is queued it is looked at
every 30 seconds at least. What fell due meanwhile goes out in order, at a bounded rate.
Rule 2: a signal that cannot be announced is put off by itself, and those behind it go on. So is a delivery.
Rule 3: a delivery goes to the newest running run of its crew, if that is this process's; if another process has it,
it is that one's to deliver. Without any a host that serves the folder starts one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from interlock.broadcast.delayed import Dead, Delayed
from interlock.errors import InterlockError, PortError, StoreBroken
from interlock.limits import DISPATCH_BATCH, DISPATCH_PAUSE_MS, WALL_LOOK_MS
from interlock.ports import Clock, Delivery
from interlock.runtime.switchboard import Switchboard

_log = logging.getLogger("interlock")

# While the store is away it is asked again after this many milliseconds.
AWAY_MS = 1_000

# A clock that goes back further than this was set; less is a clock that is being adjusted.
SET_BACK_MS = 1_000

# Deliveries begun at once.
DELIVERIES_MAX = 100

# Gives a delivery to a run of this process, and says whether somebody has it now.
Deliver = Callable[[Delivery], Awaitable[bool]]


class Dispatcher:
    def __init__(self, board: Switchboard, clock: Clock, deliver: Deliver) -> None:
        self._board, self._bus, self._clock, self._deliver = board, board.bus, clock, deliver
        self._latest: int | None = None  # by the wall clock, when it was looked at last
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}  # by crew and agent
        self._waiting: deque[tuple[str, str]] = deque()  # those who come when one of these is done

    async def run(self) -> None:
        """Until it is cancelled."""
        stop_watching = self._bus.watch(self._changed_elsewhere)
        self._board.wanted.set()
        try:
            while True:
                await self._board.wanted.wait()
                self._board.wanted.clear()
                await self._rest(await self._seen_to())
        finally:
            stop_watching()
            for task in list(self._under_way.values()):
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _changed_elsewhere(self) -> None:
        self._board.wanted.set()
        self._board.news()

    async def _seen_to(self) -> int | None:
        """How long to rest, in milliseconds; None is until something happens."""
        now = self._clock.now_ms()
        try:
            await self._heed_clock(now)
            if await self._dispatch(now):
                return DISPATCH_PAUSE_MS
            await self._begin_deliveries(now)
            due = await self._bus.next_due(now)
        except StoreBroken:
            return None
        except Exception as error:  # whatever it is: without this task nobody hears anything any more
            _log.warning("the bus cannot be looked at now: %s", _said(error))
            return AWAY_MS
        return None if due is None else min(max(due - self._clock.now_ms(), DISPATCH_PAUSE_MS), WALL_LOOK_MS)

    async def _heed_clock(self, now: int) -> None:
        """It may have been set back before the first look: the newest broadcast tells the time it showed then."""
        if self._latest is None:
            self._latest = max((each.created_at for each in await self._bus.newest(1)), default=now)
        if now < self._latest - SET_BACK_MS:
            await self._bus.clock_was_set(now)
        self._latest = now

    async def _rest(self, ms: int | None) -> None:
        if ms is None:
            return
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ms() + ms))
        wanted = asyncio.ensure_future(self._board.wanted.wait())
        try:
            await asyncio.wait((sleeping, wanted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            wanted.cancel()
        self._board.wanted.set()

    # Signals for later

    async def _dispatch(self, now: int) -> bool:
        """One batch; whether there may be more."""
        due = await self._bus.due(now, DISPATCH_BATCH)
        if due:
            await self._dispatched(due, now)
        return len(due) == DISPATCH_BATCH

    async def _dispatched(self, due: Sequence[Delayed], now: int) -> None:
        try:
            self._board.announced(await self._bus.dispatch(due, now))
            self._board.news()
        except StoreBroken:
            raise
        except Exception as error:  # the store is away, or the zone of a schedule is no longer known
            if len(due) == 1:
                _tell(await self._bus.dispatch_failed(due[0], _said(error), now))
                return
            for entry in due:  # one of them, perhaps: the others go on
                await self._dispatched((entry,), now)

    # Deliveries

    async def _begin_deliveries(self, now: int) -> None:
        """One at a time to an agent, so that order is kept and one that is slow takes up one place."""
        self._board.is_undelivered = False
        self._waiting = deque(await self._bus.awaiting(now))
        self._begin_some()

    def _begin_some(self) -> None:
        while self._waiting and len(self._under_way) < DELIVERIES_MAX:
            hearer = self._waiting.popleft()
            if hearer not in self._under_way:
                self._under_way[hearer] = asyncio.create_task(self._delivered(hearer))

    async def _delivered(self, hearer: tuple[str, str]) -> None:
        before = self._board.changes_of_runs
        try:
            is_taken = await self._next_delivered(hearer)
        finally:
            del self._under_way[hearer]
        self._begin_some()
        self._board.is_undelivered |= not is_taken
        # The next one for this agent may follow; or a run came or went while it was looked for.
        if is_taken or before != self._board.changes_of_runs:
            self._board.wanted.set()

    async def _next_delivered(self, hearer: tuple[str, str]) -> bool:
        """It is looked up only now: another process, or this one, may have delivered what was there before."""
        try:
            delivery = await self._bus.next_delivery(*hearer, self._clock.now_ms())
        except PortError as error:
            _log.warning("what %s is to hear cannot be looked up now: %s", hearer[1], error)
            return False
        return delivery is not None and await self._tried(delivery)

    async def _tried(self, delivery: Delivery) -> bool:
        try:
            return await self._deliver(delivery)
        except StoreBroken:
            return False
        except Exception as error:  # whatever keeps a run from starting, the next delivery goes on
            _log.warning("%s cannot hear %s yet: %s", delivery.agent, delivery.heard.broadcast.type, error)
            await self._put_off(delivery, _said(error))
            return True

    async def _put_off(self, delivery: Delivery, reason: str) -> None:
        try:
            _tell(await self._bus.delivery_failed(delivery.number, reason, self._clock.now_ms()))
        except PortError as error:
            _log.warning("a delivery could not be put off: %s", error)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, InterlockError) else repr(error)


def _tell(dead: Dead | None) -> None:
    if dead is not None:
        who = f" to {dead.for_agent}" if dead.for_agent else ""
        _log.warning(
            "gave up delivering %s%s: %s; see 'interlock broadcast dead'", dead.broadcast.type, who, dead.reason
        )
