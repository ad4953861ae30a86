"""Runs in motion: an event comes in, it is stored, then acted upon.

Rule 1: store, then act. From `append` on a crash repeats work, never loses it.
Rule 2: one task drives one run; every task has an owner and an end.
Rule 3: a paused or finished run is let go of: it costs no memory until somebody asks for it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.beginning import can_hear
from interlock.engine.budgets import CostOf, cost_of
from interlock.engine.effects import CallModel, Effect, StopChild
from interlock.engine.events import (
    NO_CONTEXT,
    BroadcastHeard,
    CancelRequested,
    ChildGoesOn,
    CrewContext,
    Entry,
    IncomingEvent,
    MessageGiven,
    RunResumed,
    RunStarted,
)
from interlock.engine.host_mail import require_given
from interlock.engine.parking import rest_reason
from interlock.engine.routing import RoutingTable
from interlock.engine.state import RunState, Wait
from interlock.engine.step import OVER, RULES, Run
from interlock.errors import (
    AlreadyHeard,
    AlreadyResumed,
    InterlockError,
    JournalDiverged,
    NotWaiting,
    OrderCarriedOut,
    OwnedElsewhere,
    ParentIsOver,
    PortError,
    RunError,
    StoreFailed,
    TakesNoInput,
    TooLate,
)
from interlock.ids import is_below, key_of, parent_of, root_of, run_of
from interlock.messages.host_types import registered
from interlock.ports import (
    NOTHING_ELSE,
    Alongside,
    Budgets,
    Bus,
    Clock,
    Delivery,
    Journal,
    Observer,
    OrderOutcome,
    Orders,
    Outbox,
    Owners,
    Record,
    RunRow,
    StoredRecord,
    Toolbox,
)
from interlock.runtime.children import Children
from interlock.runtime.crews import StoredCrews
from interlock.runtime.deadlines import Deadlines
from interlock.runtime.delivery import Deliveries, OnExternal
from interlock.runtime.dispatching import Dispatcher
from interlock.runtime.holding import while_away
from interlock.runtime.judging import NO_JUDGES, Judges
from interlock.runtime.live import LiveRun
from interlock.runtime.ordering import GivenAnswer as GivenAnswer
from interlock.runtime.ordering import OrderTaker
from interlock.runtime.parking import Parking
from interlock.runtime.performing import Hook, ModelFor, Performer, answers, no_hook, storable
from interlock.runtime.redacting import Redactor, redact_event
from interlock.runtime.supervising import Supervisor
from interlock.runtime.switchboard import Switchboard
from interlock.runtime.timers import Timers
from interlock.runtime.watching import Followed, Public, Told, Watcher, Watchers, public_events

# Model calls under way at once, over all runs of this process.
CALLS_MAX = 1_000

# A run whose calls and commits never wait lets the others, and the timers, have a turn after so many steps.
STEPS_IN_A_ROW = 10

# How often a run that another process drives is looked at by whoever follows it here.
LOOK_AGAIN_MS = 200

# How long a process that closes waits for what it was asked to do: a start, an answer, a park.
LEAVING_MAX_MS = 5_000

# Runs of which it is remembered why they could not go on here.
FAILURES_MAX = 1_000

# Crews whose routing is kept worked out.
TABLES_MAX = 100


# Running runs of one crew that are looked at for one that can hear a broadcast; the others are orphans.
NEWEST_MAX = 100

StartFor = Callable[[Delivery], Awaitable[None]]

_log = logging.getLogger("interlock")


class Runner:
    """Owns every run of this process, and every task that works for one.

    `start_for` starts a run for an agent that is to act on a broadcast; `listens` if anything is heard at all;
    `redactor` takes the host's secrets out of what comes in.
    """

    _is_parking = False
    leaving_max_ms = LEAVING_MAX_MS
    live: dict[str, LiveRun]
    drivers: dict[str, asyncio.Task[None]]
    _failures: dict[str, BaseException]
    _tables: dict[str, RoutingTable]

    def __init__(
        self,
        *,
        journal: Journal,
        owners: Owners,
        orders: Orders,
        budgets: Budgets,
        outbox: Outbox,
        bus: Bus,
        clock: Clock,
        model_for: ModelFor,
        toolbox: Toolbox,
        observers: Sequence[Observer] = (),
        on_external: OnExternal | None = None,
        calls_max: int = CALLS_MAX,
        hook: Hook = no_hook,
        cost_of: CostOf = cost_of,
        judges: Judges = NO_JUDGES,
        start_for: StartFor | None = None,
        listens: bool = True,
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor
        self.journal, self.owners, self.clock, self.board = journal, owners, clock, Switchboard(bus, clock)
        self._start_for, self._listens = start_for, listens
        self.crews, self.timers = StoredCrews(journal), Timers(clock)
        self.observers, self.watchers = observers, Watchers()
        self.deadlines, self.parking, self.supervisor = Deadlines(self), Parking(self), Supervisor(self)
        self.orders, self.order_taker = orders, OrderTaker(self)
        self._open_books()
        self.performer = Performer(
            clock=clock,
            timers=self.timers,
            model_for=model_for,
            toolbox=toolbox,
            on_delta=self._delta,
            budgets=budgets,
            calls_max=calls_max,
            hook=hook,
            cost_of=cost_of,
            on_alarm=self.deadlines.set,
            judges=judges,
            children=Children(self),
            board=self.board,
        )
        self.deliveries = Deliveries(outbox, clock, on_external)

    def _open_books(self) -> None:
        """What is known of the runs in hand."""
        self.live: dict[str, LiveRun] = {}
        self.drivers: dict[str, asyncio.Task[None]] = {}
        self._driving: set[asyncio.Task[None]] = set()  # also those that only have to let go of something
        self._held: set[asyncio.Task[None]] = set()  # of runs that were let go of
        self._asked: set[asyncio.Task[None]] = set()
        self._failures: dict[str, BaseException] = {}
        self._tables: dict[str, RoutingTable] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __aenter__(self) -> "Runner":
        self._ticking = [asyncio.create_task(self.timers.run())]
        if self._listens:
            self._ticking.append(asyncio.create_task(self.order_taker.run()))
            dispatcher = Dispatcher(self.board, self.clock, self._deliver)
            self._ticking.append(asyncio.create_task(dispatcher.run()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Parks what is under way: what was stored is there for whoever recovers it."""
        self.board.close()
        await self._end_what_was_asked()
        self._is_parking = True
        for task in self._ticking:
            task.cancel()
        await asyncio.gather(*self._ticking, return_exceptions=True)
        while working := self._at_work():  # what was about to begin something when it was stopped has begun it
            for task in working:
                task.cancel()
            await asyncio.gather(*working, *self._driving, return_exceptions=True)
        await asyncio.gather(*self._driving, return_exceptions=True)
        await self.deliveries.stop()
        await self.supervisor.stop()
        await asyncio.gather(*(self._release(run) for run in self.live))

    async def _end_what_was_asked(self) -> None:
        """What was begun is seen through, unless that takes too long, as with a store that is away."""
        if not self._asked:
            return
        alarm = asyncio.ensure_future(self.clock.sleep_until(self.clock.monotonic_ms() + self.leaving_max_ms))
        while self._asked and not alarm.done():
            await asyncio.wait({*self._asked, alarm}, return_when=asyncio.FIRST_COMPLETED)
        for task in (alarm, *self._asked):
            task.cancel()
        await asyncio.gather(alarm, *self._asked, return_exceptions=True)

    def _at_work(self) -> list["asyncio.Task[None]"]:
        lives = self.live.values()
        tasks = [*self.drivers.values(), *self._held, *(task for live in lives for task in live.tasks.values())]
        tasks += [live.pump for live in lives if live.pump is not None]
        return [task for task in tasks if not task.done()]

    # What can be asked for

    async def start(
        self,
        crew: Crew,
        crew_sha: str,
        text: str,
        *,
        run_id: str,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        schedule: str = "",
        by: str = "",
    ) -> None:
        await self._seen_through(self._start(crew, crew_sha, text, run_id, history, continues, context, schedule, by))

    async def _start(
        self,
        crew: Crew,
        crew_sha: str,
        text: str,
        run_id: str,
        history: tuple[Entry, ...],
        continues: str,
        context: CrewContext,
        schedule: str,
        by: str,
    ) -> None:
        event = RunStarted(
            crew=crew.name,
            input=storable(text),
            rules=RULES,
            messages=registered(),
            crew_sha=crew_sha,
            continues=continues,
            history=(*context.parent_history, *history),
            context=msgspec.structs.replace(context, parent_history=()) if context != NO_CONTEXT else NO_CONTEXT,
            schedule=schedule,
            by=storable(by),
        )
        now = self.clock.now_ms()
        row = RunRow(
            run=run_id,
            crew=crew.name,
            crew_sha=crew_sha,
            status="new",
            created_at=now,
            continues=continues,
            organization=crew.settings.organization,
        )
        await self.begin(Run(crew, run_id, table=self.table(crew, crew_sha)), row, event)

    async def start_for(self, crew: Crew, crew_sha: str, delivery: Delivery, run_id: str) -> None:
        """A run that begins at an agent, because of a broadcast; the delivery is struck off with its first record."""
        heard = delivery.heard
        event = RunStarted(
            crew=crew.name,
            input=heard.broadcast.type,
            rules=RULES,
            messages=registered(),
            crew_sha=crew_sha,
            entry=delivery.agent,
            heard=heard,
            delivery=delivery.number,
        )
        now, organization = self.clock.now_ms(), crew.settings.organization
        row = RunRow(
            run=run_id, crew=crew.name, crew_sha=crew_sha, status="new", created_at=now, organization=organization
        )
        run = Run(crew, run_id, table=self.table(crew, crew_sha))
        await self._seen_through(self.begin(run, row, event))

    async def begin(self, run: Run, row: RunRow, event: RunStarted) -> LiveRun:
        live = LiveRun(run, row)
        live.last_ms = self.clock.monotonic_ms()
        await self.transit(live, event, first=True)
        self.drive(live)
        return live

    async def resume(
        self, crew: Crew, run_id: str, answer: GivenAnswer, *, continues_parked: bool = True, order: str = ""
    ) -> None:
        """Answers a wait; a parked run continues as well, unless it is only to take the answer in.

        `order` is the key of the order to do so: `OrderCarriedOut` if that has an outcome already.
        """
        await self._seen_through(self._resume(crew, run_id, answer, continues_parked, order))

    async def _resume(self, crew: Crew, run_id: str, answer: GivenAnswer, continues_parked: bool, order: str) -> None:
        try:
            await self._answer(crew, run_id, answer, order)
        except TooLate:  # the answer is not used, and the run continues all the same
            await self._continue_parked(root_of(run_id), continues_parked, answer.by)
            raise
        await self._continue_parked(root_of(run_id), continues_parked, answer.by)

    async def _answer(self, crew: Crew, run_id: str, answer: GivenAnswer, order: str) -> None:
        token = answer.token
        if token is None or not is_below(run_of(token), run_id):
            token = await self._resume_here(crew, run_id, answer, order)
        if token is not None:
            child = await self.journal.row(run_of(token))
            await self._answer(await self.crews.of(child.crew_sha), child.run, answer._replace(token=token), order)

    async def _require_open(self, order: str, live: LiveRun) -> None:
        """Who asks owns the run, so that no other process can carry the order out from now on."""
        if order and await self.orders.outcome(order) is not None:
            await self.let_go_unless_driven(live)
            raise OrderCarriedOut(live.id, order)

    async def _continue_parked(self, run_id: str, is_wanted: bool, by: str) -> None:
        if not is_wanted:
            return
        async with self.taking(run_id):
            live = self.live.get(run_id) or await self.taken(run_id)
            if live.run.state.parked:
                await self.unpark(live, by)
            else:
                await self.let_go_unless_driven(live)

    async def unpark(self, live: LiveRun, by: str = "") -> None:
        """Continues a parked run: what was in progress is done again. Who asks holds the lock of who takes it up."""
        async with live.lock:
            await self.transit(live, RunResumed(token=live.run.state.parked, by=storable(by)))
        self.drive(live)

    async def park(self, run_id: str, by: str) -> bool:
        """Parks a run that this process drives, with its children; whether it is parked now."""
        return bool(await self._seen_through(self.parking.park(run_id, by)))

    async def set_aside(self, run_id: str, hindrance: str) -> None:
        """Journals that a run rests because this process cannot drive it, with its children."""
        await self._seen_through(self.parking.set_aside(run_id, hindrance))

    async def park_all(self, by: str) -> None:
        """Parks every run that this process drives, those that are about to begin too."""
        await asyncio.gather(*self._asked, return_exceptions=True)
        await self._seen_through(self.parking.park_all(by))

    async def _resume_here(self, crew: Crew, run_id: str, answer: GivenAnswer, order: str) -> str | None:
        """Answers a wait of the run itself; if the only one that is open is a child's, its token is given back."""
        token, text = answer.token, answer.text
        async with self.taking(run_id):
            live = self.live.get(run_id) or await self._take(crew, run_id)
            async with live.lock:
                await self._require_open(order, live)
                late = await self.deadlines.keep(live)
                if late and token in (None, *(wait.token for wait in late)):
                    raise _too_late(run_id, late[0], text)
                if _only_continues(live.run.state, token, text):
                    await self.let_go_unless_driven(live)
                    return None
                waits = [wait.token for wait in live.run.state.waits]
                if token is None and len(waits) == 1:
                    token = waits[0]
                if token is not None and token in waits and is_below(run_of(token), run_id):
                    await self.let_go_unless_driven(live)
                    return token
                if token not in waits:
                    await self.let_go_unless_driven(live)
                    raise self._refused(live, token, text)
                parent = await self.woken_parent_or_let_go(live)
                await self.park_with_parent(parent, live)
                self.do_again_what_is_owed(live)
                resumed = RunResumed(token=token, input=storable(text), by=storable(answer.by))
                await self.transit(live, resumed, order=order)
            self.goes_on_for(parent, live)
        return None

    def sees_through(self, work: Coroutine[Any, Any, None]) -> None:
        """Nobody waits for it; whoever leaves does."""
        task = asyncio.ensure_future(work)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _seen_through(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Whoever asked may go away; what was begun is not left half done."""
        task = asyncio.ensure_future(work)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return await asyncio.shield(task)

    def _refused(self, live: LiveRun, token: str | None, text: str) -> Exception:
        answered = live.run.state.answered
        if token in answered:
            return AlreadyResumed(live.id, token, same=answered[token] == storable(text))
        waits = [wait.token for wait in live.run.state.waits]
        return TakesNoInput(live.id) if live.run.state.parked and not waits else NotWaiting(live.id, token, waits)

    async def send_message(self, crew: Crew, run_id: str, given: MessageGiven, *, order: str = "") -> str:
        """Gives a message of the host to an agent of the run; its id. `BadMessage` if it cannot be sent."""
        return str(await self._seen_through(self._send_message(crew, run_id, given, order)))

    async def _send_message(self, crew: Crew, run_id: str, given: MessageGiven, order: str) -> str:
        async with self.taking(run_id):
            live = self.live.get(run_id) or await self._take(crew, run_id)
            async with live.lock:
                await self._require_open(order, live)
                state = live.run.state
                if given.key and given.key in state.given:
                    await self.let_go_unless_driven(live)
                    return state.given[given.key]
                try:
                    require_given(state, crew, given)
                except InterlockError:
                    await self.let_go_unless_driven(live)
                    raise
                parent = await self.woken_parent_or_let_go(live)
                await self.park_with_parent(parent, live)
                self.do_again_what_is_owed(live)
                sent = f"{run_id}:m{state.messages + 1}"
                await self.transit(live, given, order=order, value=sent)
            self.goes_on_for(parent, live)
        return sent

    async def cancel(self, crew: Crew, run_id: str, by: str, *, order: str = "") -> None:
        """It is stored when this returns; what was under way is being stopped."""
        await self._seen_through(self._cancel(crew, run_id, by, order))

    async def _cancel(self, crew: Crew, run_id: str, by: str, order: str) -> None:
        async with self.taking(run_id):
            live = self.live.get(run_id) or await self._take(crew, run_id)
            await self._require_open(order, live)
            if await self.goes_on_ending(live):
                return
            async with live.lock:
                parent = await self.woken_parent_or_let_go(live)
                if live.run.state.status not in OVER:
                    self.stop_again_what_is_given_up(live)
                    await self.transit(live, CancelRequested(by=storable(by)), order=order)
            self.goes_on_for(parent, live)

    async def goes_on_ending(self, live: LiveRun) -> bool:
        """Whether a run that was just taken up is ending already; then what it still owes is all that is left to do."""
        if live.id in self.live or live.run.state.ending is None:
            return False
        await self.go_on_with(live)
        return True

    def goes_on_for(self, parent: LiveRun | None, child: LiveRun) -> None:
        self.drive(child)
        if parent is not None:
            self.performer.follow_child(parent, key_of(child.id))

    async def woken_parent_or_let_go(self, child: LiveRun) -> LiveRun | None:
        try:
            return await self._woken_parent(child)
        except InterlockError:
            await self.let_go_unless_driven(child)
            raise

    async def park_with_parent(self, parent: LiveRun | None, child: LiveRun) -> None:
        """A child whose question is answered does not work while its parent is parked. Who asks has its lock."""
        if parent is not None and parent.run.state.parked:
            await self.parking.park_one(child, "caller")

    async def _woken_parent(self, child: LiveRun) -> LiveRun | None:
        """Before a child that rests goes on, its parent does, the root first: `ParentIsOver` if that cannot be.

        Whoever drives the child tells the parent afterwards to follow it.
        """
        parent_id = parent_of(child.id)
        if not parent_id or child.run.state.status != "paused":
            return None
        async with self.taking(parent_id):
            parent = self.live.get(parent_id) or await self.taken(parent_id)
            if parent.run.state.status in OVER:
                await self.let_go_unless_driven(parent)
                raise ParentIsOver(child.id, parent_id)
            await self._wake(parent, child)
        return parent

    async def _wake(self, parent: LiveRun, child: LiveRun) -> None:
        above = await self._woken_parent(parent)
        self.do_again_what_is_owed(parent)
        if any(wait.child == key_of(child.id) for wait in parent.run.state.waits):
            async with parent.lock:
                await self.transit(parent, ChildGoesOn(call=key_of(child.id)))
        self.goes_on_for(above, parent)

    def do_again_what_is_owed(self, live: LiveRun) -> None:
        """For a run that was just taken up: all if it was at work when it was lost, else children to be stopped."""
        if live.run.state.status != "running":
            self.stop_again_what_is_given_up(live)
        elif live.id not in self.live:
            self.performer.lose_tools(live, live.run.outstanding())

    def stop_again_what_is_given_up(self, live: LiveRun) -> None:
        """Children that were being stopped when the run was let go of or lost; they may not have heard of it."""
        if live.id not in self.live:
            self.performer.perform(live, [owed for owed in live.run.outstanding() if isinstance(owed, StopChild)])

    async def recover(self, crew: Crew, run_id: str) -> None:
        """Goes on with a run whose owner is gone, after its last recorded fact."""
        async with self.taking(run_id):
            if run_id in self.live:
                return
            live = await self._take(crew, run_id)
            await self.deliveries.again(run_id)
            await self.go_on_with(live)

    async def go_on_with(self, live: LiveRun) -> None:
        """A run that was just taken up does what it still owes, or is let go of again."""
        if live.run.state.status == "running":
            await self.board.is_awake(live)
            self.performer.lose_tools(live, live.run.outstanding())
            self.drive(live)
        else:
            await self.let_go_unless_driven(live)

    async def deliver_again(self) -> None:
        """What was to be told outside by runs that nobody works on, and perhaps was not."""
        for run_id in await self.deliveries.runs():
            async with self.taking(run_id):
                if run_id in self.live or not await self._is_free(run_id):
                    continue
            await self.deliveries.again(run_id)

    async def _deliver(self, delivery: Delivery) -> bool:
        """Whether a run of this process has heard it: the newest running one of its crew, or one that it starts."""
        for row in await self.journal.rows(status="running", crew=delivery.crew, limit=NEWEST_MAX):
            if row.run in self.drivers:
                if await self._heard_by(row.run, delivery):
                    return True
            elif await self.owners.is_owned(row.run):
                return False
        if self._start_for is None:
            return False
        with suppress(AlreadyHeard):  # another process was quicker
            await self._start_for(delivery)
        return True

    async def _heard_by(self, run_id: str, delivery: Delivery) -> bool:
        async with self.taking(run_id):
            live = self.live.get(run_id)
            if live is None:
                return False
            async with live.lock:
                if not can_hear(live.run.state) or delivery.agent not in live.crew.agent_ids:
                    return False
                event = BroadcastHeard(agent=delivery.agent, heard=delivery.heard, delivery=delivery.number)
                await self.transit(live, event)
            live.tell(None)
        return True

    async def _is_free(self, run_id: str) -> bool:
        try:
            await self.owners.claim(run_id)
        except OwnedElsewhere:
            return False
        await self.owners.release(run_id)
        return True

    async def settled(self, run_id: str) -> None:
        """Waits until the run is over or paused; raises what keeps it from going on in this process."""
        while (driver := self.drivers.get(run_id)) is not None:
            try:
                await asyncio.shield(driver)
            except Exception:
                if not await self.supervisor.decided(run_id):
                    raise
            else:
                return
        if await self.supervisor.decided(run_id):
            await self.settled(run_id)
        elif run_id in self._failures:
            raise self._failures[run_id]

    async def settled_anywhere(self, run_id: str) -> None:
        """As `settled`; a run that another process drives is looked at until it is over, paused or driven by none."""
        await self.settled(run_id)
        while run_id not in self.drivers and await self._goes_on_elsewhere(run_id):
            await self.clock.sleep_until(self.clock.monotonic_ms() + LOOK_AGAIN_MS)

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Public]:
        """What has happened after a seq, here and in the runs below; then what happens, until it is over or paused.

        The last event is `run.finished` or `run.paused`, unless the run cannot continue here.
        """
        followed, goes_on = Followed(run_id, after), True
        while goes_on:
            with self.watchers.watching(run_id) as watcher:  # before the journal is read, so that nothing falls between
                is_here = run_id in self.drivers
                following = self._heard(followed, watcher) if is_here else self._looked_at(followed)
                async for event in following:
                    yield event
            goes_on = not followed.is_at_end and await self._is_driven(run_id)

    async def _is_driven(self, run_id: str) -> bool:
        """Whether somebody works on it, here or elsewhere: perhaps it was resumed while its pause was being shown."""
        if run_id in self.drivers or await self.supervisor.decided(run_id):
            return True
        return await self._goes_on_elsewhere(run_id)

    async def _heard(self, followed: Followed, watcher: Watcher) -> AsyncIterator[Public]:
        """A run of this process, as it goes on."""
        async for event in self._recorded(followed):
            yield event
        while (told := await watcher.queue.get()) is not None:
            if watcher.missed:  # so slow that something was left out: the journal has it
                watcher.missed = False
                async for event in self._recorded(followed):
                    yield event
            if (shown := await self._shown(followed, told)) is not None:
                yield shown
        async for event in self._recorded(followed, after=followed.seq):
            yield event

    async def _looked_at(self, followed: Followed) -> AsyncIterator[Public]:
        """A run that rests, or that another process drives."""
        goes_on = True
        while goes_on:
            goes_on = await self._goes_on_elsewhere(followed.run)  # asked first, so that nothing after it is missed
            async for event in self._recorded(followed, position=followed.position):
                yield event
            if goes_on:
                await self.clock.sleep_until(self.clock.monotonic_ms() + LOOK_AGAIN_MS)

    async def _goes_on_elsewhere(self, run_id: str) -> bool:
        row = await self.journal.row(run_id)
        return row.status == "running" and await self.owners.is_owned(run_id)

    async def _recorded(
        self, followed: Followed, *, after: int | None = None, position: int = 0
    ) -> AsyncIterator[Public]:
        """What is in the journals and was not seen yet."""
        after = followed.after if after is None else after
        for stored in await self.journal.tree(followed.run, after, position):
            followed.position = stored.position
            for event in public_events(stored.run, stored.record):
                if (shown := await self._shown(followed, Told(event, event["seq"]))) is not None:
                    yield shown

    async def _shown(self, followed: Followed, told: Told) -> Public | None:
        run = told.event["run"]
        if told.event["type"] != "run.started" and not followed.knows_path_of(run):
            started = (await self.journal.records(run))[0].events[0]
            assert isinstance(started, RunStarted), "a run begins with run.started"
            followed.learn_path_of(run, started.path)
        return followed.taken(told)

    # Driving

    async def taken(self, run_id: str) -> LiveRun:
        """The same, with the crew that the run started with."""
        return await self._take(await self.crews.of((await self.journal.row(run_id)).crew_sha), run_id)

    async def take_in(self, live: LiveRun, event: IncomingEvent) -> None:
        """At once, and not when its turn comes: what it says must still be true then."""
        async with live.lock:
            if live.run.state.status not in OVER:
                await self.transit(live, event)
        live.tell(None)

    async def _take(self, crew: Crew, run_id: str) -> LiveRun:
        """Makes the run this process's own and brings it to where its journal ends."""
        epoch = await self.owners.claim(run_id)
        try:
            row = msgspec.structs.replace(await self.journal.row(run_id), epoch=epoch)
            records = await self.journal.records(run_id)
            live = LiveRun(replayed(crew, run_id, records, self.table(crew, row.crew_sha)), row)
            for record in records:
                live.asked.note(record)
        except BaseException:
            await self.owners.release(run_id)
            raise
        live.last_ms = self.clock.monotonic_ms()
        self.order_taker.wake()  # its last driver may have left orders behind
        return live

    def table(self, crew: Crew, sha: str) -> RoutingTable:
        """Runs of the same crew share what was worked out from it."""
        if sha not in self._tables:
            if len(self._tables) == TABLES_MAX:
                self._tables.clear()
            self._tables[sha] = RoutingTable(crew)
        return self._tables[sha]

    def drive(self, live: LiveRun) -> None:
        self.live[live.id] = live
        self._failures.pop(live.id, None)
        self.supervisor.run_driven(live.id)
        if live.id not in self.drivers:
            live.pumped = self._pumped
            live.driver = self.drivers[live.id] = asyncio.create_task(self._until_settled(live))
            self._driving.add(live.driver)
            self.board.runs_changed()
            live.driver.add_done_callback(self._driven)
        else:
            live.tell(None)

    def _driven(self, driver: "asyncio.Task[None]") -> None:
        self._driving.discard(driver)
        self.board.runs_changed()
        error = None if driver.cancelled() else driver.exception()
        if error is not None:  # that another process has taken a run over is nothing to worry about
            level = logging.INFO if isinstance(error, RunError) else logging.ERROR
            _log.log(level, "a run cannot go on in this process: %s", error)

    async def _until_settled(self, live: LiveRun) -> None:
        try:
            while live.can_go_on:
                await self._go_on(live)
            if live.pump is not None:
                await live.pump
        except BaseException as error:
            await self._drop(live, error)
            raise
        finally:
            live.driver = None
            self.drivers.pop(live.id, None)
            self.watchers.settle(live.id)
        self.supervisor.run_settled(live.id)
        async with self.taking(live.id):  # whoever is about to drive it again keeps it
            await self.let_go_unless_driven(live)

    async def _drop(self, live: LiveRun, error: BaseException) -> None:
        """The run cannot go on in these hands: whoever asks for it next reads its journal anew."""
        for task in (live.pump, *live.tasks.values()):
            if task is not None:
                task.cancel()
                self._hold(task)
        self._drop_children(live)
        if self._is_parking and isinstance(error, asyncio.CancelledError):  # it is let go of with all the others
            return
        if self.live.get(live.id) is live:
            del self.live[live.id]
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[live.id] = error
        with suppress(PortError):
            await self.owners.release(live.id)
        if not self._is_parking:
            self.supervisor.driver_failed(live.id, error)

    def _drop_children(self, parent: LiveRun) -> None:
        """Whoever takes the parent takes them too."""
        for child in list(self.live.values()):
            if parent_of(child.id) == parent.id and child.driver is not None:
                child.driver.cancel()

    async def _go_on(self, live: LiveRun) -> None:
        """Waits for what happens next, and takes it in."""
        call = live.take_lone_call()
        event = await (live.inbox.get() if call is None else self.performer.await_lone_call(live, call))
        if live.failure is not None:
            raise live.failure
        if event is not None:
            async with live.lock:
                await self.transit(live, event)
        live.steps += 1
        if len(self.drivers) > 1 or live.steps % STEPS_IN_A_ROW == 0:
            await asyncio.sleep(0)

    async def _pumped(self, live: LiveRun) -> None:
        """Takes in what comes while the driver awaits a call."""
        try:
            while not live.inbox.empty():
                event = live.inbox.get_nowait()
                if event is not None:
                    async with live.lock:
                        await self.transit(live, event)
        except Exception as error:
            live.fail(error)
        finally:
            live.pump = None
            if not live.alone:  # its call has ended meanwhile, and it may wait for what this has brought to an end
                live.inbox.put_nowait(None)

    async def let_go_unless_driven(self, live: LiveRun) -> None:
        if live.id not in self.drivers:
            for task in live.tasks.values():  # a child that came to its end by itself may still be being stopped
                self._hold(task)
            self.live.pop(live.id, None)
            await while_away(self.clock, lambda: self._release(live.id))

    async def _release(self, run_id: str) -> None:
        """A process that stops does not wait for a store that is away: its claims end with it."""
        try:
            await self.owners.release(run_id)
        except StoreFailed:
            if not self._is_parking:
                raise

    def _hold(self, task: "asyncio.Task[None]") -> None:
        """Nobody else waits until it has ended."""
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    def taking(self, run_id: str) -> asyncio.Lock:
        """Whoever wants to take up a run waits for whoever is doing so."""
        return self._locks.setdefault(run_id, asyncio.Lock())

    async def transit(
        self, live: LiveRun, event: IncomingEvent, *, first: bool = False, order: str = "", value: str = ""
    ) -> None:
        """Takes an event in. `order` is the key of the order that the record carries out, `value` what that gives."""
        if self._redactor is not None:
            event = redact_event(event, self._redactor)
        worked_ms = live.worked_ms(self.clock.monotonic_ms())
        if worked_ms:
            event = msgspec.structs.replace(event, worked_ms=worked_ms)
        if self._listens and not self.board.is_mail_current():
            await self._look_for_mail()
        if mail := self.board.mail_for(live.crew.name):
            event = msgspec.structs.replace(event, mail=mail)
        seq = live.run.state.seq + 1
        redoes = isinstance(event, RunResumed) and event.token == live.run.state.parked
        step = live.run.apply(event)
        record = Record(seq=seq, at=self.clock.now_ms(), events=(event, *step.facts))
        live.row = row_of(live.run, live.row, record.at)
        if live.run.state.waits:  # else nobody is asked anything
            live.asked.note(record)
        also = NOTHING_ELSE if _is_one_call(step.effects) else self._alongside(live, step.effects, record.at)
        also = live.with_questions(self.board.alongside(live, event, step, seq, record.at, also))
        if order:
            also = msgspec.structs.replace(also, orders=((order, OrderOutcome(seq=seq, value=value)),))
        try:
            appended = await (self.journal.create if first else self.journal.append)(live.row, record, also)
        except StoreFailed as error:
            if first or not error.passes:
                raise
            _log.warning("run %s: %s; what came back is held, and stored once that can be done", live.id, error)
            appended = await while_away(self.clock, lambda: self.journal.append(live.row, record, also))
        self._tell(live, record, appended.position)
        self.deliveries.begin(also.outgoing)
        taken = self.board.committed(live, also, appended)
        grants = answers(also.spending, appended.grants)
        (self.performer.lose_tools if redoes else self.performer.perform)(live, step.effects, grants, taken)

    async def _look_for_mail(self) -> None:
        try:
            await self.board.look_for_mail()
        except PortError as error:  # nothing is lost: a letter stays in its inbox for the next turn
            _log.warning("who has mail cannot be read now: %s", error)

    def _alongside(self, live: LiveRun, effects: Sequence[Effect], at: int) -> Alongside:
        """What the record's transaction holds besides it."""
        spending = self.performer.spending(live, effects, at)
        outgoing = self.deliveries.outgoing(live.id, effects)
        return Alongside(spending=spending, outgoing=outgoing) if spending or outgoing else NOTHING_ELSE

    def _tell(self, live: LiveRun, record: Record, position: int) -> None:
        if watchers := self.watchers.of(live.id):
            for event in public_events(live.id, record):
                for watcher in watchers:
                    watcher.tell(event)
        if self.observers:
            stored = StoredRecord(position=position, run=live.id, record=record)
            for observer in self.observers:
                try:
                    observer(stored)
                except Exception:  # it sees what happened, and does not steer
                    _log.exception("an observer failed at run %s, seq %s", live.id, record.seq)

    def _delta(self, live: LiveRun, agent: str, text: str) -> None:
        piece = {"run": live.id, "type": "model.delta", "agent": agent, "text": text}
        for watcher in self.watchers.of(live.id):
            watcher.tell_piece(piece, live.run.state.seq)
        for ear in self.watchers.ears:
            ear(piece)


def _too_late(run_id: str, wait: Wait, text: str) -> TooLate:
    return TooLate(run_id, wait.token, wait.question, wait.default, was_answered=bool(text))


def _only_continues(state: RunState, token: str | None, text: str) -> bool:
    """Whether a parked run is asked to continue, and nothing of it is answered."""
    return bool(state.parked) and not text and token in (None, state.parked)


def _is_one_call(effects: Sequence[Effect]) -> bool:
    """Nearly always."""
    return len(effects) == 1 and type(effects[0]) is CallModel


def row_of(run: Run, row: RunRow, now: int) -> RunRow:
    """The row of a run as its state has it; why it waits is the reason of a paused one."""
    state = run.state
    waits_for = ""
    if state.status == "paused":
        waits_for = rest_reason(state) if state.parked else state.waits[0].reason
    return msgspec.structs.replace(
        row,
        status=state.status,
        reason=state.reason or waits_for,
        agent=state.agent,
        seq=state.seq,
        usage=state.usage,
        updated_at=now,
    )


def replayed(crew: Crew, run_id: str, records: Sequence[Record], table: RoutingTable | None = None) -> Run:
    """The run as its journal tells it; what the engine concludes now must be what it concluded then."""
    run = Run(crew, run_id, table=table)
    for record in records:
        incoming, *derived = record.events
        step = run.apply(incoming)  # type: ignore[arg-type]
        if list(step.facts) != derived:
            raise JournalDiverged(run_id, record.seq)
    return run


def is_over(status: str) -> bool:
    return status in OVER
