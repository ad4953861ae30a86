"""The runs of this process: claimed, locked, driven, released.

Rule 1: one task drives one run; every task has an owner and an end.
Rule 2: a paused or finished run is released: it uses no memory until it is needed again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import IncomingEvent, RunStarted
from interlock.engine.kinds import RUNNING
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.run import OVER, RULES, Run
from interlock.errors import PortError, RunError, StoreFailed
from interlock.ids import parent_of
from interlock.ports import ClaimedRun, ClaimRequest, Clock, Journal, Owners, Record, RunFormat, RunRow
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.calls.model_calls import ModelCalls
from interlock.runtime.claiming.run_in_batch import RunInBatch, require_known
from interlock.runtime.claiming.work import DEFAULT_WORK, WorkSettings
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.supervisor import Supervisor
from interlock.runtime.live_run import LiveRun as LiveRun
from interlock.runtime.replay import replay_run
from interlock.runtime.store_retry import retry_while_store_away
from interlock.runtime.stored_crews import StoredCrews
from interlock.runtime.supplies import RunSupplies
from interlock.runtime.watchers import Watchers

# A run whose calls and commits never wait lets the others, and the timers, have a turn after so many steps.
STEPS_IN_A_ROW = 10

# Runs of which the process remembers why it could not drive them.
FAILURES_MAX = 1_000

# Crews whose routing tables, and whose texts of prompts, are kept.
TABLES_MAX = 100

_log = logging.getLogger("interlock")


class LiveRuns:
    """Owns every claimed run and the task that drives it. `on_claimed` is called after each claim."""

    def __init__(
        self,
        *,
        journal: Journal,
        owners: Owners,
        clock: Clock,
        crews: StoredCrews,
        hub: BroadcastHub,
        watchers: Watchers,
        committer: Committer,
        model_calls: ModelCalls,
        supervisor: Supervisor,
        supplies: RunSupplies,
        on_claimed: Callable[[], None],
        knows: RunFormat,
        work: WorkSettings = DEFAULT_WORK,
    ) -> None:
        self._journal, self._owners, self._clock, self._crews = journal, owners, clock, crews
        self._hub, self._watchers, self._committer = hub, watchers, committer
        self._model_calls, self.supervisor, self._on_claimed = model_calls, supervisor, on_claimed
        self._supplies, self._knows, self._drives, self._weights = supplies, knows, work.drives, work.weights
        self.runs: dict[str, LiveRun] = {}
        self.drivers: dict[str, asyncio.Task[None]] = {}
        self._driving: set[asyncio.Task[None]] = set()  # also drivers that only have to release their run
        self._held: set[asyncio.Task[None]] = set()  # tasks of released runs
        self._failures: dict[str, BaseException] = {}
        self._tables: dict[str, RoutingTable] = {}
        self._texts: dict[RoutingTable, PromptTexts] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._in_transit: set[str] = set()  # runs that are being started or released
        self._batch_lock = asyncio.Lock()
        self._claimed: dict[str, RunInBatch] = {}  # runs that were claimed in a batch, and are not driven yet
        self.is_closing = False

    # Claimed and locked

    def run_lock(self, run_id: str) -> asyncio.Lock:
        """Held while a run is claimed, started or released."""
        return self._locks.setdefault(run_id, asyncio.Lock())

    async def wait_for_command(self, run_id: str) -> None:
        """Waits until no command of this process claims, starts or releases the run."""
        async with self.run_lock(run_id):
            return

    async def get_or_claim(self, run_id: str, crew: CrewDefinition | None = None) -> LiveRun:
        """The run, claimed to be driven; `HostLacks` if this process cannot give all that it needs."""
        return self.runs.get(run_id) or await self.claim_to_drive(run_id, crew)

    async def get_or_claim_to_end(self, run_id: str, crew: CrewDefinition | None = None) -> LiveRun:
        """The run, claimed to be ended or set aside, which any process may do."""
        return self.runs.get(run_id) or await self.claim_run(run_id, crew)

    async def claim_to_drive(self, run_id: str, crew: CrewDefinition | None = None) -> LiveRun:
        live = await self.claim_run(run_id, crew)
        state = live.run.state
        if state.status not in OVER and state.ending is None:
            try:
                self._supplies.require_supplied(run_id, live.crew, live.row.crew_sha, state.needs)
            except BaseException:
                await self._owners.release(run_id)
                raise
        return live

    async def claim_waiting(self, limit: int, **which: Collection[str] | None) -> Sequence[ClaimedRun]:
        """Claims runs that wait for a driver; `which` are crews and organizations.

        Each is to be driven by a command, which then makes no claim of its own, or to be given up (`give_up_claim`).
        """
        async with self._batch_lock:  # a claim or a start that begins meanwhile would not be in `driven`
            driven = {*self.runs, *self._in_transit, *self._claimed}
            driven.update(run_id for run_id, lock in self._locks.items() if lock.locked())
            request = ClaimRequest(
                limit=limit,
                rules=self._knows.rules,
                format=self._knows.format,
                at=self._clock.now_ms(),
                driven=driven,
                weights=self._weights,
                **which,
            )
            claimed = await self._owners.claim_some(request)
            self._claimed.update((each.run, RunInBatch(each.epoch, each.owner_died)) for each in claimed)
        return claimed

    async def read_claimed(self, run_id: str) -> tuple[RunRow, Sequence[Record]]:
        """The row and the records of a run of `claim_waiting`; the command that drives it does not read them again."""
        read = await self._journal.row_with_records(run_id)
        if run_id in self._claimed:
            self._claimed[run_id] = self._claimed[run_id]._replace(read=read)
        return read

    def has_claimed(self, run_id: str) -> bool:
        """Whether this process drives the run, or is about to."""
        return run_id in self.runs or run_id in self._claimed

    async def give_up_claim(self, run_id: str) -> None:
        """Releases a run of `claim_waiting` that no command has taken."""
        if self._claimed.pop(run_id, None) is not None:
            with suppress(PortError):  # then it waits for a driver as a run of this process
                await self._owners.release(run_id)

    @asynccontextmanager
    async def use_of_claim(self, run_id: str) -> AsyncIterator[None]:
        """Gives up a claim of `claim_waiting` that was left to the caller, and that the caller does not use."""
        try:
            yield
        finally:
            await self.give_up_claim(run_id)

    async def _claim(self, run_id: str) -> RunInBatch:
        claimed = self._claimed.pop(run_id, None)
        if claimed is not None:
            return claimed
        async with self._batch_lock:
            pass
        claimed_now = await self._owners.claim(run_id)
        return RunInBatch(claimed_now.epoch, claimed_now.owner_died)

    async def claim_run(self, run_id: str, crew: CrewDefinition | None = None) -> LiveRun:
        """Claims a run and replays its journal, with the crew that the run started with."""
        if crew is None:
            crew = await self._crews.of((await self._journal.row(run_id)).crew_sha)
        epoch, owner_died, read = await self._claim(run_id)
        try:
            if read is None:
                require_known(await self._journal.row(run_id), self._knows)  # a claim in a batch asks for what is known
            row, records = read or await self._journal.row_with_records(run_id)
            row = msgspec.structs.replace(row, epoch=epoch)
            run = replay_run(crew, run_id, records, self.table(crew, row.crew_sha))
            live = LiveRun(run, row, self._texts_of(run), self._owners.has_lease)
            live.lost_calls = owner_died
            for record in records:
                live.question_log.add_record(record)
        except BaseException:
            await self._owners.release(run_id)
            raise
        live.last_ms = self._clock.monotonic_ms()
        self._on_claimed()
        return live

    async def begin_run(self, run: Run, row: RunRow, event: RunStarted) -> LiveRun:
        """Stores the first record of a run and drives it; a process that drives none leaves that to others."""
        live = LiveRun(run, row, self._texts_of(run), self._owners.has_lease)
        live.last_ms = self._clock.monotonic_ms()
        while self._batch_lock.locked():
            async with self._batch_lock:
                pass
        self._in_transit.add(live.id)
        try:
            await self._committer.commit_event(live, event, first=True)
            if self._drives:
                self.drive(live)
        finally:
            self._in_transit.discard(live.id)
        return live

    def table(self, crew: CrewDefinition, sha: str, rules: int = RULES) -> RoutingTable:
        """The routing table of a crew, shared by all its runs of these rules."""
        if sha not in self._tables:
            if len(self._tables) == TABLES_MAX:
                self._tables.clear()
            self._tables[sha] = RoutingTable(crew)
        return self._tables[sha].for_rules(rules)

    def _texts_of(self, run: Run) -> PromptTexts:
        """The texts of a crew's prompts, shared by all its runs under the same rules."""
        texts = self._texts.get(run.table)
        if texts is None:
            if len(self._texts) == TABLES_MAX:
                self._texts.clear()
            texts = self._texts[run.table] = PromptTexts(run.crew, run.table)
        return texts

    # Driven

    def drive(self, live: LiveRun) -> None:
        """Starts the task that drives a run, or wakes it."""
        self.runs[live.id] = live
        self._failures.pop(live.id, None)
        self.supervisor.on_run_driven(live.id)
        if live.id not in self.drivers:
            live.pumped = self._drain_inbox
            live.driver = self.drivers[live.id] = asyncio.create_task(self._drive_until_settled(live))
            self._driving.add(live.driver)
            self._hub.on_runs_changed()
            live.driver.add_done_callback(self._on_driver_done)
        else:
            live.enqueue_event(None)

    async def inject_event(self, live: LiveRun, event: IncomingEvent) -> None:
        """Commits an event now, ahead of the inbox: it must still be true when it is stored."""
        async with live.lock:
            if live.run.state.status not in OVER:
                await self._committer.commit_event(live, event)
        live.enqueue_event(None)

    async def wait_until_settled(self, run_id: str) -> None:
        """Waits until the run is over or paused; raises the error that stopped it in this process."""
        while (driver := self.drivers.get(run_id)) is not None:
            try:
                await asyncio.shield(driver)
            except Exception:
                if not await self.supervisor.wait_until_decided(run_id):
                    raise
            else:
                return
        if await self.supervisor.wait_until_decided(run_id):
            await self.wait_until_settled(run_id)
        elif run_id in self._failures:
            raise self._failures[run_id]

    def was_handed_over(self, run_id: str) -> bool:
        """Whether this process drove the run and gave it to others. If none takes it, this one does again."""
        return isinstance(self._failures.get(run_id), asyncio.CancelledError)

    async def _drive_until_settled(self, live: LiveRun) -> None:
        state = live.run.state
        try:
            while state.status is RUNNING or live.inbox:
                call, live.lone = live.lone, None
                if call is None:
                    event = await live.next_event()
                else:
                    event = await self._model_calls.call_in_driver(live, call)
                if live.failure is not None:
                    raise live.failure
                if event is not None:
                    if not live.lock.take_free():
                        await live.lock.wait()
                    live.driver_commits = True
                    try:
                        await self._committer.commit_event(live, event)
                    finally:
                        live.driver_commits = False
                        live.lock.give_back()
                live.steps += 1
                if len(self.drivers) > 1 or live.steps % STEPS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            if live.pump is not None:
                await live.pump
        except BaseException as error:
            await self._drop_failed_run(live, error)
            raise
        finally:
            live.driver = None
            self.drivers.pop(live.id, None)
            self._watchers.on_run_settled(live.id)
        self.supervisor.on_run_settled(live.id)
        if live.run.state.status in OVER and not parent_of(live.id):
            self._supplies.on_run_over(live.id)
        async with self.run_lock(live.id):  # a caller that is about to drive it again keeps it
            await self.release_if_idle(live)

    async def _drain_inbox(self, live: LiveRun) -> None:
        """Commits the events that arrive while the driver awaits a call."""
        try:
            while live.inbox:
                event = live.inbox.popleft()
                if event is not None:
                    async with live.lock:
                        await self._committer.commit_event(live, event)
        except Exception as error:
            live.fail(error)
        finally:
            live.pump = None
            if not live.alone:  # its call has ended meanwhile, and the driver may wait for a change of state
                live.enqueue_event(None)

    def _on_driver_done(self, driver: "asyncio.Task[None]") -> None:
        self._driving.discard(driver)
        self._hub.on_runs_changed()
        error = None if driver.cancelled() else driver.exception()
        if error is not None:  # a run that another process has claimed is not an error
            level = logging.INFO if isinstance(error, RunError) else logging.ERROR
            _log.log(level, "a run cannot continue in this process: %s", error)

    async def _drop_failed_run(self, live: LiveRun, error: BaseException) -> None:
        """Releases a run that cannot continue with this state; the next claim replays its journal."""
        for task in (live.pump, *live.tasks.values()):
            if task is not None:
                task.cancel()
                self._track_until_done(task)
        self._cancel_child_drivers(live)
        if self.is_closing and isinstance(error, asyncio.CancelledError):  # it is released with all the others
            return
        if self.runs.get(live.id) is live:
            del self.runs[live.id]
        self._in_transit.add(live.id)
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[live.id] = error
        try:
            with suppress(PortError):  # then it waits for a driver as a run of this process (`claim_waiting`)
                await self._owners.release(live.id)
        finally:
            self._in_transit.discard(live.id)
        if not self.is_closing:
            self.supervisor.on_driver_failed(live.id, error)

    def _cancel_child_drivers(self, parent: LiveRun) -> None:
        """The process that claims the parent claims them too."""
        for child in list(self.runs.values()):
            if parent_of(child.id) == parent.id:
                child.stop_driver()

    # Released

    async def release_if_idle(self, live: LiveRun) -> None:
        if live.id not in self.drivers:
            for task in live.tasks.values():  # a child that ended by itself may still be being stopped
                self._track_until_done(task)
            self.runs.pop(live.id, None)
            self._in_transit.add(live.id)
            try:
                await retry_while_store_away(self._clock, lambda: self._release(live.id))
            finally:
                self._in_transit.discard(live.id)

    async def _release(self, run_id: str) -> None:
        """A process that stops does not wait for a store that is away: its claims end with it."""
        try:
            await self._owners.release(run_id)
        except StoreFailed:
            if not self.is_closing:
                raise

    def _track_until_done(self, task: "asyncio.Task[None]") -> None:
        """Keeps a task of a released run, so that the shutdown waits for it."""
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    async def stop_drivers(self) -> None:
        """Cancels all that works; a cancelled task may start one more, so it looks again."""
        while working := self._running_tasks():
            for task in working:
                task.cancel()
            await asyncio.gather(*working, *self._driving, return_exceptions=True)
        await asyncio.gather(*self._driving, return_exceptions=True)

    def _running_tasks(self) -> list["asyncio.Task[None]"]:
        lives = self.runs.values()
        tasks = [*self.drivers.values(), *self._held, *(task for live in lives for task in live.tasks.values())]
        tasks += [live.pump for live in lives if live.pump is not None]
        return [task for task in tasks if not task.done()]

    async def release_all(self) -> None:
        await asyncio.gather(*(self._release(run) for run in self.runs))
