"""Runs in motion: an event comes in, it is stored, then acted upon.

Rule 1: store, then act. From `append` on a crash repeats work, never loses it.
Rule 2: one task drives one run; every task has an owner and an end.
Rule 3: a paused or finished run is let go of: it costs no memory until somebody asks for it.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from weakref import WeakValueDictionary

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.events import CancelRequested, Entry, IncomingEvent, RunResumed, RunStarted
from interlock.engine.step import OVER, RULES, Run
from interlock.errors import AlreadyResumed, JournalDiverged, NotWaiting, StoreFailed
from interlock.ports import Clock, Journal, Observer, Owners, Record, RunRow, StoredRecord, Toolbox
from interlock.runtime.live import LiveRun
from interlock.runtime.performing import Hook, ModelFor, OnExternal, Performer, no_hook, storable
from interlock.runtime.timers import Timers
from interlock.runtime.watching import Public, Watchers, public_events

# Model calls under way at once, over all runs of this process.
CALLS_MAX = 1_000

# While the store is away a finished reply is held, and its append is tried again after this many milliseconds.
STORE_RETRY_MS = 500

# Then the run is let go of: whoever mends the store recovers it, and only the held reply is asked for again.
STORE_RETRIES_MAX = 600


class Runner:
    """Owns every run of this process, and every task that works for one."""

    def __init__(
        self,
        *,
        journal: Journal,
        owners: Owners,
        clock: Clock,
        model_for: ModelFor,
        toolbox: Toolbox,
        observers: Sequence[Observer] = (),
        on_external: OnExternal | None = None,
        calls_max: int = CALLS_MAX,
        hook: Hook = no_hook,
    ) -> None:
        self.journal, self.owners, self.clock = journal, owners, clock
        self.observers, self.watchers = observers, Watchers()
        self.timers = Timers(clock)
        self.live: dict[str, LiveRun] = {}
        self.drivers: dict[str, asyncio.Task[None]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.performer = Performer(
            clock=clock,
            timers=self.timers,
            model_for=model_for,
            toolbox=toolbox,
            on_external=on_external,
            on_delta=self._delta,
            calls_max=calls_max,
            hook=hook,
        )

    async def __aenter__(self) -> "Runner":
        self._ticking = asyncio.create_task(self.timers.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Parks what is under way: what was stored is there for whoever recovers it."""
        working = [*self.drivers.values(), *(task for live in self.live.values() for task in live.tasks.values())]
        for task in (self._ticking, *working):
            task.cancel()
        await asyncio.gather(self._ticking, *working, return_exceptions=True)
        for run in list(self.live):
            await self.owners.release(run)

    # What can be asked for

    async def start(
        self, crew: Crew, crew_sha: str, text: str, *, run_id: str, history: tuple[Entry, ...] = (), continues: str = ""
    ) -> None:
        event = RunStarted(
            crew=crew.name, input=storable(text), rules=RULES, crew_sha=crew_sha, continues=continues, history=history
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
        live = LiveRun(Run(crew, run_id), row)
        live.last_ms = self.clock.monotonic_ms()
        await self._transit(live, event, first=True)
        self._drive(live)

    async def resume(self, crew: Crew, run_id: str, token: str | None, text: str) -> None:
        async with self._taking(run_id):
            live = self.live.get(run_id) or await self._take(crew, run_id)
            async with live.lock:
                waits = [wait.token for wait in live.run.state.waits]
                if token is None and len(waits) == 1:
                    token = waits[0]
                if token not in waits:
                    await self._let_go_unless_driven(live)
                    raise self._refused(live, token, text)
                await self._transit(live, RunResumed(token=token, input=storable(text)))
            self._drive(live)

    def _refused(self, live: LiveRun, token: str | None, text: str) -> Exception:
        answered = live.run.state.answered
        if token in answered:
            return AlreadyResumed(live.id, token, same=answered[token] == storable(text))
        return NotWaiting(live.id, token, [wait.token for wait in live.run.state.waits])

    async def cancel(self, crew: Crew, run_id: str, by: str) -> None:
        async with self._taking(run_id):
            live = self.live.get(run_id) or await self._take(crew, run_id)
            live.inbox.put_nowait(CancelRequested(by=by))
            self._drive(live)

    async def recover(self, crew: Crew, run_id: str) -> None:
        """Goes on with a run whose owner is gone, after its last recorded fact."""
        async with self._taking(run_id):
            if run_id in self.live:
                return
            live = await self._take(crew, run_id)
            if live.run.state.status == "running":
                self.performer.lose_tools(live, live.run.outstanding())
                self._drive(live)
            else:
                await self._let_go_unless_driven(live)

    async def settled(self, run_id: str) -> None:
        """Waits until the run is over or paused."""
        driver = self.drivers.get(run_id)
        if driver is not None:
            await asyncio.shield(driver)

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Public]:
        """What has happened after a seq, and then what happens, until the run is over or paused."""
        is_live = run_id in self.drivers
        following = self.watchers.follow(run_id)
        first = asyncio.ensure_future(anext(following)) if is_live else None
        await asyncio.sleep(0)  # so that the watcher stands before the journal is read
        for record in await self.journal.records(run_id, after):
            for event in public_events(run_id, record):
                if event["seq"] > after:
                    after = event["seq"]
                    yield event
        if first is None:
            return
        try:
            event = await first
            while True:
                if event.get("seq", after + 1) > after:
                    after = event.get("seq", after)
                    yield event
                event = await anext(following)
        except StopAsyncIteration:
            return

    # Driving

    async def _take(self, crew: Crew, run_id: str) -> LiveRun:
        """Makes the run this process's own and brings it to where its journal ends."""
        epoch = await self.owners.claim(run_id)
        row = msgspec.structs.replace(await self.journal.row(run_id), epoch=epoch)
        live = LiveRun(replayed(crew, run_id, await self.journal.records(run_id)), row)
        live.last_ms = self.clock.monotonic_ms()
        return live

    def _drive(self, live: LiveRun) -> None:
        self.live[live.id] = live
        if live.id not in self.drivers:
            self.drivers[live.id] = asyncio.create_task(self._until_settled(live))

    async def _until_settled(self, live: LiveRun) -> None:
        try:
            while live.can_go_on:
                event = await live.inbox.get()
                async with live.lock:
                    await self._transit(live, event)
        except Exception:
            self.live.pop(live.id, None)  # whoever asks for the run next reads its journal anew
            raise
        finally:
            self.drivers.pop(live.id, None)
            self.watchers.settle(live.id)
        async with self._taking(live.id):  # whoever is about to drive it again keeps it
            await self._let_go_unless_driven(live)

    async def _let_go_unless_driven(self, live: LiveRun) -> None:
        if live.id not in self.drivers:
            self.live.pop(live.id, None)
            await self.owners.release(live.id)

    def _taking(self, run_id: str) -> asyncio.Lock:
        """Whoever wants to take up a run waits for whoever is doing so."""
        return self._locks.setdefault(run_id, asyncio.Lock())

    async def _transit(self, live: LiveRun, event: IncomingEvent, *, first: bool = False) -> None:
        event = msgspec.structs.replace(event, worked_ms=live.worked_ms(self.clock.monotonic_ms()))
        seq = live.run.state.seq + 1
        step = live.run.apply(event)
        record = Record(seq=seq, at=self.clock.now_ms(), events=(event, *step.facts))
        live.row = row_of(live.run, live.row, record.at)
        position = await self._stored(live, record, first=first)
        self._tell(live, record, position)
        self.performer.perform(live, step.effects)

    async def _stored(self, live: LiveRun, record: Record, *, first: bool) -> int:
        for tried in itertools.count():
            try:
                if first:
                    return await self.journal.create(live.row, record)
                return await self.journal.append(live.row, record)
            except StoreFailed:
                if first or tried == STORE_RETRIES_MAX:
                    raise
                await self.clock.sleep_until(self.clock.monotonic_ms() + STORE_RETRY_MS)
        raise AssertionError("counting does not end")

    def _tell(self, live: LiveRun, record: Record, position: int) -> None:
        if self.watchers.are_there(live.id):
            for event in public_events(live.id, record):
                self.watchers.tell(live.id, event)
        stored = StoredRecord(position=position, run=live.id, record=record)
        for observer in self.observers:
            observer(stored)

    def _delta(self, run: str, agent: str, text: str) -> None:
        self.watchers.tell(run, {"run": run, "type": "model.delta", "agent": agent, "text": text})


def row_of(run: Run, row: RunRow, now: int) -> RunRow:
    """The row of a run as its state has it."""
    state = run.state
    return msgspec.structs.replace(
        row,
        status=state.status,
        reason=state.reason,
        agent=state.agent,
        seq=state.seq,
        usage=state.usage,
        updated_at=now,
    )


def replayed(crew: Crew, run_id: str, records: Sequence[Record]) -> Run:
    """The run as its journal tells it; what the engine concludes now must be what it concluded then."""
    run = Run(crew, run_id)
    for record in records:
        incoming, *derived = record.events
        step = run.apply(incoming)  # type: ignore[arg-type]
        if list(step.facts) != derived:
            raise JournalDiverged(run_id, record.seq)
    return run


def is_over(status: str) -> bool:
    return status in OVER
