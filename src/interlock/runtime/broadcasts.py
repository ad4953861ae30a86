"""The bus as the runs of this process use it: writes with a record, unread inboxes, notifications.

Rule 1: broadcasts, inbox claims, deliveries and presence of a run are written with its record.
Rule 2: the agents with unread broadcasts are cached, so that a turn without any costs nothing. The cache is read again
before a record if another process has committed since: a turn shows all broadcasts that were sent before it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from interlock.broadcast.naming import series_name
from interlock.broadcast.rate_limits import describe_refusal
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast, Source
from interlock.engine.effects import AckInbox, ClaimInbox, Effect, HandBackBroadcast, PublishBroadcast
from interlock.engine.events import BroadcastHeard, IncomingEvent, RunStarted, WentStale
from interlock.engine.flow.waits import agents_at_work, agents_concerned, hops_at_work
from interlock.engine.kinds import RUNNING
from interlock.engine.run import Step
from interlock.errors import PortError
from interlock.ports import Activity, AppendResult, AtomicWrites, BroadcastOutcome, Bus, Clock, InboxClaim
from interlock.runtime.live_run import LiveRun

_log = logging.getLogger("interlock")

ClaimedInboxes = Mapping[str, tuple[ReceivedBroadcast, ...]]
NO_CLAIMED_INBOXES: ClaimedInboxes = {}
AgentsWithHops = tuple[tuple[str, int], ...]

# Types are looked up, because `isinstance` of a struct costs a hundred nanoseconds for each type that it is not.
_OF_BUS: frozenset[type[Effect]] = frozenset([PublishBroadcast, ClaimInbox, AckInbox, HandBackBroadcast])


class BroadcastHub:
    """One per process. `on_news` is called after every commit that changes a view."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self._clock = bus, clock
        self.on_news: Callable[[], None] | None = None
        self.unread: dict[str, dict[str, None]] = {}
        self._noted: list[tuple[str, str]] = []  # agents that got a broadcast while the store was being read
        self._unread_version: int | None = None  # of the bus, when the inboxes were read; None is never
        self._reading: asyncio.Event | None = None  # set when the read in progress ends
        self._reads_begun = self._read_done = 0
        self._is_invalidated = False  # something changed while the store was being read
        self._listeners: list[asyncio.Event] = []
        self.is_open = True
        # There may be something to send or to deliver.
        self.wanted = asyncio.Event()
        # A delivery waits for a run that can accept it; it is tried again when `changes_of_runs` has changed.
        self.is_undelivered = False
        self.changes_of_runs = 0

    def on_runs_changed(self) -> None:
        """Tries deliveries again: a run can accept broadcasts from now on, or is gone."""
        self.changes_of_runs += 1
        if self.is_undelivered:
            self.wanted.set()

    # Inboxes

    def agents_with_unread(self, crew: str) -> tuple[str, ...]:
        """The agents of the crew with unread broadcasts, from the cache; see `has_current_inboxes`."""
        return tuple(self.unread.get(crew, ()))

    def has_current_inboxes(self) -> bool:
        return self._unread_version is not None and self.bus.version() == self._unread_version

    async def refresh_inboxes(self) -> None:
        """Reads the agents with unread broadcasts.

        Concurrent callers share one read that began after they asked, and continue together when it ends: a lock would
        let one of them continue in each tick of the loop, and a thousand runs would wait for a second.
        """
        asked_at = self._reads_begun
        while self._read_done <= asked_at:
            if self._reading is None:
                await self._read_inboxes()
            else:
                await self._reading.wait()

    async def _read_inboxes(self) -> None:
        self._reads_begun += 1
        self._reading = ended = asyncio.Event()
        try:
            self._noted, self._is_invalidated, version = [], False, self.bus.version()
            kept = await self.bus.agents_with_unread()
            found: dict[str, dict[str, None]] = {}
            for crew, agent in (*kept, *self._noted):
                found.setdefault(crew, {})[agent] = None
            self.unread, self._read_done = found, self._reads_begun
            self._unread_version = None if self._is_invalidated else version
        finally:
            self._reading = None
            ended.set()

    def invalidate_inboxes(self) -> None:
        """Empties the cache: unknown inboxes have changed, and are read before the next record."""
        self._unread_version, self._is_invalidated = None, True

    # Writes with a record

    def with_bus_writes(
        self, live: LiveRun, event: IncomingEvent, step: Step, at: int, also: AtomicWrites
    ) -> AtomicWrites:
        """The writes, with those of the transition to the bus."""
        ended, begun = _presence_change(live, event, step)
        if ended or begun:
            also = msgspec.structs.replace(also, ended=ended, begun=begun)
        if (type(event) is BroadcastHeard or type(event) is RunStarted) and (acked := _deliveries_to_ack(event, step)):
            also = msgspec.structs.replace(also, heard=acked)
        for effect in step.effects:
            if type(effect) in _OF_BUS:
                return _with_bus_effects(live, step.effects, at, also)
        return also

    def on_committed(self, also: AtomicWrites, appended: AppendResult) -> ClaimedInboxes:
        """Notifies subscribers; returns the claimed broadcasts, by key."""
        if also.put_back or also.handed_back:
            self.invalidate_inboxes()
            self.wanted.set()
        self.on_broadcasts(appended.announced)
        if not also.taking:
            return NO_CLAIMED_INBOXES
        for each, broadcasts in zip(also.taking, appended.mail, strict=True):
            if not broadcasts:
                self.unread.get(each.crew, {}).pop(each.agent, None)
        return {each.key: broadcasts for each, broadcasts in zip(also.taking, appended.mail, strict=True)}

    async def record_presence(self, live: LiveRun) -> None:
        """Records that the agents of a claimed run are awake. Mostly that is known; for a fork it is not."""
        awake = Activity(
            name=series_name(live.key("taken up")),
            place=live.run.state.seq,
            crew=live.crew.name,
            run=live.id,
            at=self._clock.now_ms(),
            begun=tuple(live.at_work.items()),
        )
        try:
            self.on_broadcasts(await self.bus.record_presence(awake))
        except PortError as error:
            _log.warning("the presence of the agents of run %s could not be stored: %s", live.id, error)

    # Notifications

    def on_broadcasts(self, announced: BroadcastOutcome) -> None:
        if not announced.news:
            return
        for subscriber in announced.reached:
            if subscriber.silent:
                self.unread.setdefault(subscriber.crew, {})[subscriber.agent] = None
                self._noted.append((subscriber.crew, subscriber.agent))
            else:
                self.wanted.set()
        for broadcast, reason in announced.withheld:
            _log.warning(
                "broadcast %s (%s) is stored and not delivered: %s",
                broadcast.type,
                broadcast.id,
                describe_refusal(reason),
            )
        if self._listeners or self.on_news is not None:
            self.notify_listeners()

    def notify_listeners(self) -> None:
        """Wakes all listeners: there is something new to read."""
        if self.on_news is not None:
            self.on_news()
        for listener in self._listeners:
            listener.set()

    def close(self) -> None:
        """Wakes all listeners for the last time."""
        self.is_open = False
        for listener in self._listeners:
            listener.set()

    def on_queue_changed(self) -> None:
        """Reads all again: the queue or the dead letters may have changed."""
        self.invalidate_inboxes()
        if self.on_news is not None:
            self.on_news()
        self.wanted.set()

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    @contextmanager
    def open_listener(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is news."""
        listener = asyncio.Event()
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)


def inbox_claim(live: LiveRun, order: ClaimInbox) -> InboxClaim:
    return InboxClaim(key=live.key(order.key), crew=live.crew.name, agent=order.agent)


def _with_bus_effects(live: LiveRun, effects: Sequence[Effect], at: int, also: AtomicWrites) -> AtomicWrites:
    """The writes, with those of the effects on the bus."""
    return msgspec.structs.replace(
        also,
        broadcasts=tuple(_emission(live, each, at) for each in effects if isinstance(each, PublishBroadcast)),
        taking=tuple(inbox_claim(live, each) for each in effects if isinstance(each, ClaimInbox)),
        taken=_claim_keys(live, effects, put_back=False),
        put_back=_claim_keys(live, effects, put_back=True),
        handed_back=tuple((live.crew.name, e.agent, e.id) for e in effects if isinstance(e, HandBackBroadcast)),
    )


def _presence_change(live: LiveRun, event: IncomingEvent, step: Step) -> tuple[AgentsWithHops, AgentsWithHops]:
    """The agents that have stopped and that have started working."""
    state, was_waiting, before = live.run.state, live.is_waiting, live.at_work
    live.is_waiting = state.status is not RUNNING or bool(state.waits)
    if live.is_waiting or was_waiting:
        now = live.at_work = agents_at_work(state)
    elif state.group or state.tasks or state.advisory_turns:
        before, now = _change_of_concerned(live, event, step)
    else:  # the current turn is the only one
        turn = state.turn
        now = live.at_work = {turn.agent: turn.hops} if turn is not None and not turn.suspended else {}
    if before.keys().isdisjoint(now):  # a handoff
        return tuple(before.items()), tuple(now.items())
    if before.keys() == now.keys():
        return (), ()
    ended = tuple([each for each in before.items() if each[0] not in now])
    return ended, tuple([each for each in now.items() if each[0] not in before])


def _change_of_concerned(live: LiveRun, event: IncomingEvent, step: Step) -> tuple[dict[str, int], dict[str, int]]:
    """The agents of the transition that were at work before it, and that are now; many others may be."""
    concerned = agents_concerned(event, step.facts)
    gone = {agent: live.at_work.pop(agent) for agent in concerned if agent in live.at_work}
    hops = {agent: hops_at_work(live.run.state, agent) for agent in concerned}
    now = {agent: number for agent, number in hops.items() if number is not None}
    live.at_work |= now
    return gone, now


def _emission(live: LiveRun, order: PublishBroadcast, at: int) -> Emission:
    source = Source(type="agent", id=order.agent)
    broadcast = Broadcast(id=order.id, type=order.type, source=source, data=order.data, created_at=at)
    return Emission(broadcast=broadcast, crew=live.crew.name, agent=order.agent, hops=order.hops, told=order.told)


def _deliveries_to_ack(event: BroadcastHeard | RunStarted, step: Step) -> tuple[tuple[int, str], ...]:
    if event.heard is None or not event.delivery:
        return ()
    is_stale = any(isinstance(fact, WentStale) for fact in step.facts)
    return () if is_stale else ((event.delivery, event.heard.broadcast.id),)


def _claim_keys(live: LiveRun, effects: Sequence[Effect], *, put_back: bool) -> tuple[str, ...]:
    return tuple(live.key(e.key) for e in effects if isinstance(e, AckInbox) and e.put_back is put_back)
