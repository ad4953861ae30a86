"""Broadcasts around runs: what goes with a record, who has mail, and who is told that something has happened.

Rule 1: what a run announces, takes from an inbox, hears or begins to work on is written with its record.
Rule 2: who has mail is remembered, so that a turn without any costs nothing. It is read again before a record if
another process has committed since: what was announced before a turn begins is shown with it, whoever announced it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from interlock.broadcast.naming import series_name
from interlock.broadcast.record import Broadcast, Emission, Heard, Source
from interlock.broadcast.storms import why
from interlock.engine.effects import Announce, Effect, HandBack, MailRead, TakeMail
from interlock.engine.events import BroadcastHeard, IncomingEvent, RunStarted, WentStale
from interlock.engine.step import Step
from interlock.engine.waiting import agents_at_work, agents_concerned, hops_at_work
from interlock.errors import PortError
from interlock.ports import NOTHING_ELSE, Activity, Alongside, Announced, Appended, Bus, Clock, Taking
from interlock.runtime.live import LiveRun

_log = logging.getLogger("interlock")

Mail = Mapping[str, tuple[Heard, ...]]
NO_MAIL: Mail = {}

_OF_BUS = (Announce, TakeMail, MailRead, HandBack)


def no_notice() -> None: ...


class Switchboard:
    """The bus as the runs of this process use it. `on_news` is called after every commit that changes a view."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self._clock = bus, clock
        self.on_news: Callable[[], None] = no_notice
        self._mail: dict[str, dict[str, None]] = {}
        self._noted: list[tuple[str, str]] = []  # who got mail while the store was being asked
        self._mail_version: int | None = None  # of the bus, when the mail was read; None is never
        self._looking = asyncio.Lock()
        self._looks_begun = self._look_done = 0
        self._is_forgotten = False  # something changed while the store was being asked
        self._listeners: list[asyncio.Event] = []
        self.is_open = True
        # There is something to dispatch or to deliver, or there may be.
        self.wanted = asyncio.Event()
        # A delivery waits for a run that can take it. How often that may have changed tells whether it was in vain.
        self.is_undelivered = False
        self.changes_of_runs = 0

    def runs_changed(self) -> None:
        """A run can hear something from now on, or is gone, so that another one may be next."""
        self.changes_of_runs += 1
        if self.is_undelivered:
            self.wanted.set()

    # Mail

    def mail_for(self, crew: str) -> tuple[str, ...]:
        """Agents of the crew with mail, as remembered; `is_mail_current` says whether that holds."""
        return tuple(self._mail.get(crew, ()))

    def is_mail_current(self) -> bool:
        return self._mail_version is not None and self.bus.version() == self._mail_version

    async def look_for_mail(self) -> None:
        """Reads who has mail. Those who ask at the same time share one look, if it began after they asked."""
        asked_at = self._looks_begun
        async with self._looking:
            if self._look_done > asked_at:
                return
            self._looks_begun += 1
            self._noted, self._is_forgotten, version = [], False, self.bus.version()
            kept = await self.bus.mail()
            found: dict[str, dict[str, None]] = {}
            for crew, agent in (*kept, *self._noted):
                found.setdefault(crew, {})[agent] = None
            self._mail, self._look_done = found, self._looks_begun
            self._mail_version = None if self._is_forgotten else version

    def forget_mail(self) -> None:
        """Inboxes of agents that are not named have changed: they are read before the next record."""
        self._mail_version, self._is_forgotten = None, True

    # What goes with a record

    def alongside(
        self, live: LiveRun, event: IncomingEvent, step: Step, seq: int, at: int, also: Alongside
    ) -> Alongside:
        """With what the transition means for the bus."""
        activity = _activity(live, event, step, seq, at)
        heard = _taken_in(event, step) if isinstance(event, BroadcastHeard | RunStarted) else ()
        if activity is not None or heard:
            also = msgspec.structs.replace(also, activity=activity, heard=heard)
        effects = [effect for effect in step.effects if isinstance(effect, _OF_BUS)]
        if not effects:
            return also
        return msgspec.structs.replace(
            also,
            broadcasts=tuple(_emission(live, each, at) for each in effects if isinstance(each, Announce)),
            taking=tuple(taking(live, each) for each in effects if isinstance(each, TakeMail)),
            taken=_keys(live, effects, put_back=False),
            put_back=_keys(live, effects, put_back=True),
            handed_back=tuple((live.crew.name, e.agent, e.id) for e in effects if isinstance(e, HandBack)),
        )

    def committed(self, live: LiveRun, also: Alongside, appended: Appended) -> Mail:
        """Tells whoever it concerns; gives the mail that was taken, by key."""
        if also is NOTHING_ELSE:
            return NO_MAIL
        if also.put_back or also.handed_back:
            self.forget_mail()
            self.wanted.set()
        self.announced(appended.announced)
        if not also.taking:
            return NO_MAIL
        for each, mail in zip(also.taking, appended.mail, strict=True):
            if not mail:
                self._mail.get(each.crew, {}).pop(each.agent, None)
        return {each.key: mail for each, mail in zip(also.taking, appended.mail, strict=True)}

    async def is_awake(self, live: LiveRun) -> None:
        """A run was taken up in the middle: whoever works in it is awake. Mostly that is known; of a fork it is not."""
        awake = Activity(
            name=series_name(live.key("taken up")),
            place=live.run.state.seq,
            crew=live.crew.name,
            run=live.id,
            at=self._clock.now_ms(),
            begun=tuple(live.at_work.items()),
        )
        try:
            self.announced(await self.bus.work(awake))
        except PortError as error:
            _log.warning("that agents of run %s are awake could not be noted: %s", live.id, error)

    # What was announced, by whomever

    def announced(self, announced: Announced) -> None:
        if not announced.news:
            return
        for hearer in announced.reached:
            if hearer.silent:
                self._mail.setdefault(hearer.crew, {})[hearer.agent] = None
                self._noted.append((hearer.crew, hearer.agent))
            else:
                self.wanted.set()
        for broadcast, reason in announced.withheld:
            _log.warning("broadcast %s (%s) is kept and reaches nobody: %s", broadcast.type, broadcast.id, why(reason))
        self.news()

    def news(self) -> None:
        """Something is to be seen that was not there before."""
        self.on_news()
        for listener in self._listeners:
            listener.set()

    def close(self) -> None:
        """Whoever listens is told that there will be no more news."""
        self.is_open = False
        for listener in self._listeners:
            listener.set()

    def scheduled(self) -> None:
        """The queue, or letters that were dead, may have changed."""
        self.forget_mail()
        self.on_news()
        self.wanted.set()

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there are news."""
        listener = asyncio.Event()
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)


def taking(live: LiveRun, order: TakeMail) -> Taking:
    return Taking(key=live.key(order.key), crew=live.crew.name, agent=order.agent)


def _activity(live: LiveRun, event: IncomingEvent, step: Step, seq: int, at: int) -> Activity | None:
    """Who has ended and who has begun to work, if anybody has."""
    before, now = _seen_anew(live, event, step)
    if before == now:
        return None
    for agent in before:
        del live.at_work[agent]
    live.at_work |= now
    if before.keys() == now.keys():
        return None
    ended = tuple([each for each in before.items() if each[0] not in now])
    begun = tuple([each for each in now.items() if each[0] not in before])
    return Activity(name=live.series, place=seq, crew=live.crew.name, run=live.id, at=at, ended=ended, begun=begun)


def _seen_anew(live: LiveRun, event: IncomingEvent, step: Step) -> tuple[dict[str, int], dict[str, int]]:
    """Who was at work and who is: those whom the transition concerns, or everybody where people are waited for."""
    state, was_waiting = live.run.state, live.is_waiting
    live.is_waiting = state.status != "running" or bool(state.waits)
    if was_waiting or live.is_waiting or not (state.group or state.tasks or state.errands):
        return dict(live.at_work), agents_at_work(state)
    concerned = agents_concerned(event, step.facts)
    before = {agent: live.at_work[agent] for agent in concerned if agent in live.at_work}
    hops = {agent: hops_at_work(state, agent) for agent in concerned}
    return before, {agent: number for agent, number in hops.items() if number is not None}


def _emission(live: LiveRun, order: Announce, at: int) -> Emission:
    source = Source(type="agent", id=order.agent)
    broadcast = Broadcast(id=order.id, type=order.type, source=source, data=order.data, created_at=at)
    return Emission(broadcast=broadcast, crew=live.crew.name, agent=order.agent, hops=order.hops, told=order.told)


def _taken_in(event: BroadcastHeard | RunStarted, step: Step) -> tuple[tuple[int, str], ...]:
    if event.heard is None or not event.delivery:
        return ()
    is_stale = any(isinstance(fact, WentStale) for fact in step.facts)
    return () if is_stale else ((event.delivery, event.heard.broadcast.id),)


def _keys(live: LiveRun, effects: Sequence[Effect], *, put_back: bool) -> tuple[str, ...]:
    return tuple(live.key(e.key) for e in effects if isinstance(e, MailRead) and e.put_back is put_back)
