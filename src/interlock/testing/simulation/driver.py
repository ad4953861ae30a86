"""Plays one simulation: starts the run, injects faults, waits until it is over or paused, and checks what is left."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from interlock.adapters.store_rules.record_format import seal_chain
from interlock.broadcast.record import SYSTEM, Broadcast
from interlock.engine.events import ExternalSent
from interlock.engine.flow.parking import PARKED
from interlock.errors import InterlockError, StoreFailed
from interlock.ports import Record, RunRow, subscriptions_of_file
from interlock.runtime.calls.external_signals import LATER_MS, PAUSES_MS
from interlock.runtime.runner import row_of
from interlock.testing.simulation.fault_phase import FaultPhase
from interlock.testing.simulation.simulated_loop import SimulationStuck
from interlock.testing.simulation.simulated_process import Process, ProcessDied, TookTooLong
from interlock.testing.simulation.simulated_world import MOMENT_MS, NEGLECT_MS, SimulatedWorld, SimulationPlan

# After this much quiet time every outgoing signal is delivered.
OUT_MS = sum(PAUSES_MS) + 60_000

# More broadcasts than a simulation emits, and the digits of an id that count those of one record.
ALL, COUNT_CHARS = 1_000_000, 4

# A run may be released and recovered this often in the quiet phase, besides the answers it gets.
ROUNDS_MAX = 20


class SimulationDriver:
    """Drives one simulation from its first moment to its last."""

    def __init__(self, plan: SimulationPlan) -> None:
        self.world = SimulatedWorld(plan)
        self.world.loop.set_exception_handler(self._on_unhandled_error)
        self._faults = FaultPhase(self.world)
        self.steps = self.virtual_ms = 0

    def run_to_end(self) -> "SimulationDriver":
        loop = self.world.loop
        try:
            loop.run_until_complete(self._play_until_violation())
        except SimulationStuck as stuck:
            self._report("every run comes to its end", str(stuck))
        finally:
            self.steps, self.virtual_ms = loop.steps, loop.now_ms
            self._cancel_leftovers()
            loop.close()
        return self

    def _report(self, law: str, what: str) -> None:
        self.world.checker.report_violation(law, what)

    async def _play_until_violation(self) -> None:
        """Plays to the end, or until a law is broken."""
        broken = self.world.checker.broken = self.world.loop.create_future()
        playing = self.world.loop.create_task(self._play())
        await asyncio.wait((playing, broken), return_when=asyncio.FIRST_COMPLETED)
        playing.cancel()
        await asyncio.wait((playing,))
        error = playing.exception() if not playing.cancelled() else None
        if error is not None:
            self._report("nothing fails in silence", repr(error))

    async def _play(self) -> None:
        world = self.world
        await self._start()
        for _ in range(world.plan.faults.moments):
            await world.clock.sleep(world.chance.randrange(1, MOMENT_MS))
            if world.checker.is_over():
                break
            await self._faults.play_moment()
        world.injector.is_calm = True
        for process in world.stalled:
            process.resume()
        world.stalled.clear()
        await self._come_to_rest()
        await self._end()

    async def _start(self) -> None:
        """Starts the run as a host does: it asks until it knows that the run is stored."""
        world = self.world
        storage, sha = world.shared_storage, world.checker.crew_sha
        for each, body in world.checker.bodies.items():
            await storage.put_crew(each, body)
        if world.plan.past:
            await self._import_past(world.plan.past)
        await storage.bus.declare_subscriptions(world.crew.name, sha, subscriptions_of_file(world.crew))
        while not await world.records_of(world.run):
            process = await world.living_process()
            try:
                await process.ask(process.runner.start(world.crew, sha, world.plan.input, run_id=world.run))
            except (ProcessDied, StoreFailed):
                continue
        await world.recover_if_undriven()

    async def _import_past(self, past: Sequence[Record]) -> None:
        world = self.world
        for record in past:
            world.checker.root.add_inherited(record)
        row = RunRow(run=world.run, crew=world.crew.name, crew_sha=world.checker.crew_sha, status="new")
        row = row_of(world.checker.root.shadow, row, world.clock.now_ms())
        await world.shared_storage.add_run(row, seal_chain(world.run, past))

    # The quiet phase

    async def _come_to_rest(self) -> None:
        world, answers = self.world, self.world.plan.answers
        for _ in range(ROUNDS_MAX + answers):
            process = await world.living_process()
            await world.recover_if_undriven()
            if not await self._wait_until_settled(process):
                return
            row = await world.shared_storage.row(world.run)
            if row.reason == PARKED:
                await world.continue_parked()
                continue
            if row.status == "paused" and not world.checker.open_tokens():
                self._report("every wait can be answered", "the run is paused, and it asks nothing")
                return
            if row.status == "paused" and answers:
                answers -= 1
                await world.answer(process, again=False)
            elif row.status != "running":
                return
        self._report("every run comes to its end", "the quiet phase does not end")

    async def _wait_until_settled(self, process: Process) -> bool:
        """Waits until the run is over or paused, or its driver gave up; False if that takes too long."""
        world = self.world
        most = int(world.crew.settings.timeout_seconds * 2000) + 60_000
        watching = world.loop.create_task(self._watch(process))
        try:
            await process.ask(process.runner.wait_until_settled(world.run), within_ms=most)
        except TookTooLong:
            self._report("every run comes to its end", f"without faults it still runs after {most} ms")
            return False
        except InterlockError as error:
            world.checker.record_fault(f"the driver of the run gives up: {error}")
        finally:
            watching.cancel()
        return True

    async def _watch(self, process: Process) -> None:
        """Reports calls that the run has ordered and the process does not make within `NEGLECT_MS`."""
        checker = self.world.checker
        while True:
            before = checker.find_neglected_calls(process.number)
            await self.world.clock.sleep(NEGLECT_MS)
            if both := [key for key in checker.find_neglected_calls(process.number) if key in before]:
                self._report("what is ordered is done", f"no process works on {', '.join(both)}")

    # The end

    async def _end(self) -> None:
        world = self.world
        await world.clock.sleep(1)
        await world.check_journals()
        world.checker.check_tree()
        await self._check_side_effects()
        for process in world.processes:
            if not process.is_dead:
                if process is world.processes[-1] and (left := world.checker.calls_in_progress(process.number)):
                    self._report("nothing outlives its run", f"the run rests, and {', '.join(left)} continues")
                await process.shut_down()
        self._check_silent_failures()

    async def _check_side_effects(self) -> None:
        """Without faults every signal is delivered by now, and every reservation settled."""
        world, storage, checker = self.world, self.world.shared_storage, self.world.checker
        process = await world.living_process()
        for wait_ms in (OUT_MS, LATER_MS + OUT_MS):  # the second if the clock was set back
            if await storage.signals_to_deliver():
                await process.ask(process.runner.external_sender.resend_pending())  # as one that stays does
                await world.clock.sleep(wait_ms)
                await process.ask(process.runner.external_sender.resend_pending())
                await world.clock.sleep(OUT_MS)
        journals = [await storage.records(run) for run in checker.runs if await world.records_of(run)]
        events = [event for journal in journals for record in journal for event in record.events]
        past = [event for record in world.plan.past for event in record.events]
        sent = sum(isinstance(e, ExternalSent) for e in events) - sum(isinstance(e, ExternalSent) for e in past)
        delivered = len(checker.delivered_signals)
        if delivered < sent:
            self._report("what goes out arrives", f"{sent} signals were sent, {delivered} delivered")
        if left := await storage.signals_to_deliver():
            self._report("what goes out arrives", f"{left[0].key} is not delivered yet")
        emitted = [each for model in checker.runs.values() for each in model.ledger.emitted]
        lost = [each for each in emitted if each not in storage.bus.tables.positions]
        if lost and not world.plan.past:
            self._report("what is announced is kept", f"{lost[0]} is in the journal and not on the bus")
        awake = [agent for (_, agent), runs in storage.bus.tables.active.runs.items() if world.run in runs]
        if checker.is_over() and awake:
            self._report("agents of an ended run sleep", f"the run is over, and {', '.join(awake)} is awake")
        if not world.plan.past:  # the agents of a fork are at work without a record
            self._check_presence([each for each in await storage.bus.newest(ALL) if each.source == SYSTEM])
        if checker.is_over() and (held := storage.open_reservations()):
            self._report("budgets are settled", f"the run is over, and {', '.join(held)} is still reserved")

    def _check_presence(self, stored: Sequence[Broadcast]) -> None:
        """Compares wakes and sleeps on the bus with those that follow from the records."""
        together = [list(each) for _, each in groupby(stored, key=lambda broadcast: broadcast.id[:-COUNT_CHARS])]
        by_name = [
            kind
            for group in together
            for ending in (":sleep", ":wake")
            for kind in sorted(each.type for each in group if each.type.endswith(ending))
        ]
        if by_name != self.world.checker.presence:
            self._report(
                "presence follows from the records", f"{by_name} is on the bus, not {self.world.checker.presence}"
            )

    def _check_silent_failures(self) -> None:
        for process in self.world.processes:
            for task in process.lane.tasks:
                error = task.exception() if task.done() and not task.cancelled() else None
                self._check_error(error, getattr(task.get_coro(), "__qualname__", ""))

    def _on_unhandled_error(self, _loop: object, context: dict[str, Any]) -> None:
        self._check_error(context.get("exception"), str(context.get("message")))

    def _check_error(self, error: BaseException | None, where: str) -> None:
        """A process may die, and refusals are typed; any other error is a bug."""
        if error is not None and not isinstance(error, InterlockError | ProcessDied):
            self._report("nothing fails in silence", f"{where}: {error!r}")

    def _cancel_leftovers(self) -> None:
        """Cancels the tasks of all processes, which reach no port any more, so that none is left to be collected."""
        world, loop = self.world, self.world.loop
        world.checker.is_watching = False
        for process in world.processes:
            process.is_dead = True
            loop.resume_lane(process.lane)
        for _ in range(3):
            left = [task for process in world.processes for task in process.lane.tasks if not task.done()]
            left += [task for task in asyncio.all_tasks(loop) if task not in left]
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=1))
        for process in world.processes:
            for task in process.lane.tasks:
                if task.done() and not task.cancelled():
                    task.exception()
        loop.run_until_complete(loop.shutdown_asyncgens())
