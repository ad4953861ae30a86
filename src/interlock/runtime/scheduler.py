"""One task that sends delayed broadcasts when they are due, and delivers those that agents are to act on.

Rule 1: times are wall-clock times, and the clock may be set: while something is queued it is read every 30 seconds at
least. Overdue broadcasts are sent in order, at a limited rate.
Rule 2: a broadcast that cannot be sent is postponed alone, and those behind it are sent. So is a delivery.
Rule 3: delayed broadcasts are sent by one process for all, the leader. The store compares each entry, so that one that
two processes send goes out once.
Rule 4: a delivery is for the newest running run of its crew, and the process that drives that run delivers it.
If there is no such run, a host that serves the folder starts one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.errors import InterlockError, PortError, StoreBroken
from interlock.limits import DISPATCH_BATCH, DISPATCH_PAUSE_MS, WALL_LOOK_MS
from interlock.ports import Clock, Delivery
from interlock.runtime.broadcasts import BroadcastHub

_log = logging.getLogger("interlock")

# How long to wait before a store that is away is asked again.
AWAY_MS = 1_000

# A clock that jumps back further than this was set; less is a normal adjustment.
SET_BACK_MS = 1_000

# Deliveries in progress at the same time.
DELIVERIES_MAX = 100

# Gives a delivery to a run of this process; False if no run could accept it.
Deliver = Callable[[Delivery], Awaitable[bool]]


class BroadcastScheduler:
    """`leads` tells whether this process sends delayed broadcasts; it is asked while there are some."""

    def __init__(self, hub: BroadcastHub, clock: Clock, deliver: Deliver, leads: Callable[[], bool]) -> None:
        self._hub, self._bus, self._clock, self._deliver, self._leads = hub, hub.bus, clock, deliver, leads
        self._latest: int | None = None  # the wall-clock time of the last look
        self._in_progress: dict[tuple[str, str], asyncio.Task[None]] = {}  # by crew and agent
        self._waiting: deque[tuple[str, str]] = deque()  # agents that follow when one of these is done

    async def run(self) -> None:
        """Runs until it is cancelled."""
        # Presence is derived from records, so listeners are told of all; to send and deliver needs news of the bus.
        stops = (self._bus.watch(self._hub.notify_listeners), self._bus.watch(self._hub.wanted.set, "bus"))
        self._hub.wanted.set()
        try:
            while True:
                await self._hub.wanted.wait()
                self._hub.wanted.clear()
                await self._sleep(await self._run_once())
        finally:
            for stop in stops:
                stop()
            for task in list(self._in_progress.values()):
                task.cancel()
            await asyncio.gather(*self._in_progress.values(), return_exceptions=True)

    async def _run_once(self) -> int | None:
        """Sends and delivers once; returns the milliseconds to sleep, or None to wait for a change."""
        now = self._clock.now_ms()
        try:
            await self._check_clock(now)
            if await self._dispatch_due(now):
                return DISPATCH_PAUSE_MS
            await self._start_deliveries(now)
            due = await self._bus.next_due(now)
        except StoreBroken:
            return None
        except Exception as error:  # any error: without this task no agent receives anything any more
            _log.warning("the bus cannot be read now: %s", _error_text(error))
            return AWAY_MS
        if due is None:
            return None
        pause_ms = DISPATCH_PAUSE_MS if self._leads() else AWAY_MS
        return min(max(due - self._clock.now_ms(), pause_ms), WALL_LOOK_MS)

    async def _check_clock(self, now: int) -> None:
        """Replans after the clock was set back; at the first look the newest broadcast tells the last time."""
        if self._latest is None:
            self._latest = max((each.created_at for each in await self._bus.newest(1)), default=now)
        if now < self._latest - SET_BACK_MS:
            await self._bus.replan_after_clock_change(now)
        self._latest = now

    async def _sleep(self, ms: int | None) -> None:
        if ms is None:
            return
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ms() + ms))
        wanted = asyncio.ensure_future(self._hub.wanted.wait())
        try:
            await asyncio.wait((sleeping, wanted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            wanted.cancel()
        self._hub.wanted.set()

    # Delayed broadcasts

    async def _dispatch_due(self, now: int) -> bool:
        """Sends one batch; True if there may be more."""
        due = await self._bus.due_broadcasts(now, DISPATCH_BATCH)
        if not due or not self._leads():
            return False
        await self._dispatch_batch(due, now)
        return len(due) == DISPATCH_BATCH

    async def _dispatch_batch(self, due: Sequence[DelayedBroadcast], now: int) -> None:
        try:
            self._hub.on_broadcasts(await self._bus.dispatch(due, now))
            self._hub.notify_listeners()
        except StoreBroken:
            raise
        except Exception as error:  # the store is away, or the zone of a schedule is no longer known
            if len(due) == 1:
                _log_dead_letter(await self._bus.record_dispatch_failure(due[0], _error_text(error), now))
                return
            for entry in due:  # perhaps only one of them fails
                await self._dispatch_batch((entry,), now)

    # Deliveries

    async def _start_deliveries(self, now: int) -> None:
        """Starts one delivery per agent at a time, so that order is kept and a slow agent uses one place."""
        self._hub.is_undelivered = False
        self._waiting = deque(await self._bus.agents_with_deliveries(now))
        self._start_waiting_deliveries()

    def _start_waiting_deliveries(self) -> None:
        while self._waiting and len(self._in_progress) < DELIVERIES_MAX:
            subscriber = self._waiting.popleft()
            if subscriber not in self._in_progress:
                self._in_progress[subscriber] = asyncio.create_task(self._deliver_to_agent(subscriber))

    async def _deliver_to_agent(self, subscriber: tuple[str, str]) -> None:
        before = self._hub.changes_of_runs
        try:
            is_accepted = await self._try_next_delivery(subscriber)
        finally:
            del self._in_progress[subscriber]
        self._start_waiting_deliveries()
        self._hub.is_undelivered |= not is_accepted
        # The next one for this agent may follow; or a run started or ended meanwhile.
        if is_accepted or before != self._hub.changes_of_runs:
            self._hub.wanted.set()

    async def _try_next_delivery(self, subscriber: tuple[str, str]) -> bool:
        """Reads the next delivery only now: an earlier one may have been delivered meanwhile, here or elsewhere."""
        try:
            delivery = await self._bus.next_delivery(*subscriber, self._clock.now_ms())
        except PortError as error:
            _log.warning("deliveries for %s cannot be read now: %s", subscriber[1], error)
            return False
        return delivery is not None and await self._try_delivery(delivery)

    async def _try_delivery(self, delivery: Delivery) -> bool:
        try:
            return await self._deliver(delivery)
        except StoreBroken:
            return False
        except Exception as error:  # any reason that keeps a run from starting must not stop the next delivery
            _log.warning("%s cannot receive %s yet: %s", delivery.agent, delivery.heard.broadcast.type, error)
            await self._postpone_delivery(delivery, _error_text(error))
            return True

    async def _postpone_delivery(self, delivery: Delivery, reason: str) -> None:
        try:
            _log_dead_letter(await self._bus.record_delivery_failure(delivery.number, reason, self._clock.now_ms()))
        except PortError as error:
            _log.warning("a delivery could not be postponed: %s", error)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, InterlockError) else repr(error)


def _log_dead_letter(dead: BroadcastDeadLetter | None) -> None:
    if dead is not None:
        who = f" to {dead.for_agent}" if dead.for_agent else ""
        _log.warning(
            "gave up delivering %s%s: %s; see 'interlock broadcast dead'", dead.broadcast.type, who, dead.reason
        )
