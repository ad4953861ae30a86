"""Following a run: its stored events, then new ones, with those of the runs below it.

Rule 1: nothing is shown twice, and every run in the order of its journal.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from interlock.engine.events import RunStarted
from interlock.engine.kinds import RunStatus
from interlock.ports import Clock, Journal, Owners, Processes, RunRow
from interlock.runtime.live_runs import LiveRuns
from interlock.runtime.watchers import PublicEvent as PublicEvent
from interlock.runtime.watchers import SequencedEvent, Watcher, Watchers
from interlock.runtime.watchers import json_or_text as json_or_text
from interlock.runtime.watchers import public_events as public_events

# How often a run that another process drives is looked at.
LOOK_AGAIN_MS = 200

# A stream ends with one of these.
LAST = ("run.finished", "run.paused")


class FollowCursor:
    """The position of a follower in a run and the runs below it: nothing is shown twice, all in order.

    An event of a run below carries its `path` of sub-crews. `is_at_end` is True if the newest event of the run itself
    can end a stream.
    """

    def __init__(self, run: str, after: int) -> None:
        self.run, self.after, self.position = run, after, 0
        self.is_at_end = False
        self._seen = {run: after}
        self._paths: dict[str, list[str]] = {}

    @property
    def seq(self) -> int:
        return self._seen[self.run]

    def has_path_of(self, run: str) -> bool:
        return run == self.run or run in self._paths

    def record_path_of(self, run: str, path: Sequence[str]) -> None:
        self._paths[run] = list(path)

    def accept_event(self, sent: SequencedEvent) -> SequencedEvent | None:
        """The event as it is shown, or None if it, or a later one, was shown before."""
        event, run = sent.event, sent.event["run"]
        if not self._is_next(sent):
            return None
        if event["type"] == "run.started":
            self.record_path_of(run, event["path"])
        if run == self.run:
            self.is_at_end = event["type"] in LAST
            return sent
        return sent._replace(event={**event, "path": self._paths[run]})

    def has_shown(self, run: str, seq: int) -> bool:
        """Whether the events of a run up to this seq were shown."""
        return self._seen.get(run, 0) >= seq

    def _is_next(self, sent: SequencedEvent) -> bool:
        """True if it is new. A piece is not after a later event of the journal: its reply may be among those."""
        run = sent.event["run"]
        seen = self._seen.get(run, 0)
        if "seq" not in sent.event:
            return sent.seq >= seen
        self._seen[run] = max(seen, sent.seq)
        return sent.seq > seen


class Following:
    """Follows runs that this process drives, that another process drives, and that rest."""

    def __init__(
        self,
        journal: Journal,
        owners: Owners,
        processes: Processes | None,
        clock: Clock,
        live_runs: LiveRuns,
        watchers: Watchers,
    ) -> None:
        self.journal, self._owners, self._processes, self._clock = journal, owners, processes, clock
        self._live_runs, self._watchers = live_runs, watchers

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[PublicEvent]:
        """The events after a seq, of the run and those below it, until it is over or paused.

        The last event is `run.finished` or `run.paused`, unless the run cannot continue here.
        """
        async with aclosing(self.follow_sequenced(run_id, after)) as followed:
            async for sent in followed:
                yield sent.event

    async def follow_sequenced(self, run_id: str, after: int = 0) -> AsyncGenerator[SequencedEvent]:
        """The same, with the reply that a piece belongs to."""
        cursor, is_driven = FollowCursor(run_id, after), True
        while is_driven:
            # It is opened before the journal is read, so that nothing is missed.
            with self._watchers.open_watcher(run_id) as watcher:
                is_here = run_id in self._live_runs.drivers
                events = self._live_events(cursor, watcher) if is_here else self._poll_events(cursor, watcher)
                async with aclosing(events):
                    async for event in events:
                        yield event
            is_driven = not cursor.is_at_end and await self._is_driven(run_id)

    async def wait_until_settled_anywhere(self, run_id: str) -> None:
        """Waits until the run is over, paused or driven by no process, here or elsewhere."""
        await self._wait_until_settled_here(run_id)
        while await self._is_driven(run_id):
            if run_id not in self._live_runs.drivers:
                await self._clock.sleep_until(self._clock.monotonic_ms() + LOOK_AGAIN_MS)
            await self._wait_until_settled_here(run_id)

    async def _wait_until_settled_here(self, run_id: str) -> None:
        """Waits while this process drives the run. A driver that is cancelled to hand it over does not concern those
        who wait for the run.
        """
        try:
            await self._live_runs.wait_until_settled(run_id)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if (task is not None and task.cancelling()) or not self._live_runs.was_handed_over(run_id):
                raise

    async def _is_driven(self, run_id: str) -> bool:
        """True if a process drives it: perhaps it was resumed while its pause was being shown."""
        if run_id in self._live_runs.drivers or await self._live_runs.supervisor.wait_until_decided(run_id):
            return True
        return await self._is_driven_elsewhere(run_id) or run_id in self._live_runs.drivers

    async def _is_driven_elsewhere(self, run_id: str) -> bool:
        await self._live_runs.wait_for_command(run_id)  # it may be about to drive the run here
        if run_id in self._live_runs.drivers:
            return False
        row = await self.journal.row(run_id)
        return row.status == RunStatus.RUNNING and (await self._owners.is_owned(run_id) or await self._waits(row))

    async def _waits(self, row: RunRow) -> bool:
        """Whether a run without an owner is about to get one: it was handed over, or a worker is there to claim it."""
        if self._live_runs.was_handed_over(row.run):
            return True
        if row.private or self._processes is None or self._live_runs.supervisor.is_set_aside(row.run):
            return False
        return any(each.is_worker for each in (await self._processes.overview()).processes)

    async def _live_events(self, cursor: FollowCursor, watcher: Watcher) -> AsyncGenerator[SequencedEvent]:
        """The events of a run that this process drives."""
        async for event in self._journal_events(cursor):
            yield event
        while (sent := await watcher.queue.get()) is not None:
            if watcher.missed:  # so slow that something was left out: the journal has it
                watcher.missed = False
                async for event in self._journal_events(cursor):
                    yield event
            if (shown := await self._next_public_event(cursor, sent)) is not None:
                yield shown
        async for event in self._journal_events(cursor, after=cursor.seq):
            yield event

    async def _poll_events(self, cursor: FollowCursor, watcher: Watcher) -> AsyncGenerator[SequencedEvent]:
        """The events of a run that rests, or that another process drives, with the pieces that arrive from there."""
        is_driven, stop = True, self._watchers.deltas.subscribe(cursor.run, watcher.on_delta_elsewhere)
        try:
            while is_driven:
                is_driven = await self._is_driven_elsewhere(cursor.run)  # asked first: nothing after it is missed
                async for event in self._journal_events(cursor, position=cursor.position):
                    yield event
                if is_driven:
                    async with aclosing(self._pieces_from_elsewhere(cursor, watcher)) as pieces:
                        async for event in pieces:
                            yield event
        finally:
            stop()

    async def _pieces_from_elsewhere(self, cursor: FollowCursor, watcher: Watcher) -> AsyncGenerator[SequencedEvent]:
        """The pieces that arrive until the journal is to be read again; what is stored is read there."""
        alarm = asyncio.ensure_future(self._clock.sleep_until(self._clock.monotonic_ms() + LOOK_AGAIN_MS))
        try:
            while (sent := await _next_before(alarm, watcher)) is not None:
                if "seq" in sent.event or cursor.run in self._live_runs.drivers:  # this process drives it by now
                    continue
                async for event in self._events_before(cursor, sent):
                    yield event
                if (shown := await self._next_public_event(cursor, sent)) is not None:
                    yield shown
        finally:
            alarm.cancel()

    async def _events_before(self, cursor: FollowCursor, piece: SequencedEvent) -> AsyncIterator[SequencedEvent]:
        """The stored events that a piece follows, if they were not shown yet."""
        if not cursor.has_shown(piece.event["run"], piece.seq):
            async for event in self._journal_events(cursor, position=cursor.position):
                yield event

    async def _journal_events(
        self, cursor: FollowCursor, *, after: int | None = None, position: int = 0
    ) -> AsyncIterator[SequencedEvent]:
        """The stored events that were not shown yet."""
        after = cursor.after if after is None else after
        for stored in await self.journal.tree(cursor.run, after, position):
            cursor.position = stored.position
            for event in public_events(stored.run, stored.record):
                if (shown := await self._next_public_event(cursor, SequencedEvent(event, event["seq"]))) is not None:
                    yield shown

    async def _next_public_event(self, cursor: FollowCursor, sent: SequencedEvent) -> SequencedEvent | None:
        run = sent.event["run"]
        if sent.event["type"] != "run.started" and not cursor.has_path_of(run):
            started = (await self.journal.records(run))[0].events[0]
            assert isinstance(started, RunStarted), "a run begins with run.started"
            cursor.record_path_of(run, started.path)
        return cursor.accept_event(sent)


async def _next_before(alarm: "asyncio.Future[None]", watcher: Watcher) -> SequencedEvent | None:
    """What a watcher gets next; None if the alarm is first, or the run has settled."""
    getting = asyncio.ensure_future(watcher.queue.get())
    try:
        await asyncio.wait((getting, alarm), return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        getting.cancel()
