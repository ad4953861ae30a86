"""Plays one simulation: starts the run, makes trouble, lets it come to rest, and ends everything in good order."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from interlock.adapters.journal_format import sealed_chain
from interlock.adapters.tools_python import PythonToolbox
from interlock.broadcast.naming import derived_id
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.crew.definition import Crew
from interlock.engine.events import ExternalSent, MessageGiven
from interlock.engine.parking import PARKED
from interlock.errors import InterlockError, RunNotFound, StoreFailed
from interlock.messages.host_types import registered
from interlock.ports import Record, RunRow, SealedRecord, of_file
from interlock.runtime.delivery import PAUSES_MS
from interlock.runtime.holding import STORE_RETRY_MAX_MS
from interlock.runtime.runner import GivenAnswer, row_of
from interlock.testing.faults import Faults
from interlock.testing.memory_store import MemoryStore
from interlock.testing.referee import Referee
from interlock.testing.seeds import chance_of
from interlock.testing.simulated_loop import SimulatedClock, SimulatedLoop, SimulationStuck
from interlock.testing.simulated_ports import Weather
from interlock.testing.simulated_process import ModelFor, Process, ProcessDied, Scenery, TookTooLong

# What a person says who is asked something.
SAID = ("", "yes", "no", "go on", "retry", "fail", "it said [END]", "tiếp tục")

# Between two moments of the fault phase, in milliseconds.
MOMENT_MS = 1_500
JUMP_MS = 2 * 3600 * 1000
HOUR_MS = 3600 * 1000
SAME_ANSWERS_MIN, SAME_ANSWERS_MAX = 2, 100

# After this much quiet time whatever was ordered is under way.
NEGLECT_MS = 2_000

# After this much quiet time whatever was to be handed over is.
OUT_MS = sum(PAUSES_MS) + 60_000

# A run may be let go of and taken up again this often in the quiet phase, besides the answers it gets.
ROUNDS_MAX = 20


@dataclass(frozen=True, kw_only=True)
class Plot:
    """What is played. With a `past` the run does not start: it goes on from another one's."""

    crew: Crew
    seed: int
    run: str
    input: str
    faults: Faults
    answers: int
    tools: PythonToolbox
    model_for: ModelFor
    past: tuple[Record, ...] = ()


class Director:
    """One simulation from its first moment to its last."""

    def __init__(self, plot: Plot) -> None:
        self.plot, self.run = plot, plot.run
        self.loop = SimulatedLoop(plot.seed)
        self.clock = SimulatedClock(self.loop)
        self.referee = Referee(plot.crew, self.run, self.loop)
        self.crew = self.referee.crew
        self.weather = Weather(plot.faults, plot.seed)
        self.loop.set_exception_handler(self._unhandled)
        self.chance = chance_of(plot.seed, "director")
        self.shelf = MemoryStore()
        self.processes: list[Process] = []
        self.stalled: list[Process] = []
        self.steps = self.virtual_ms = self.announced = 0

    def played(self) -> "Director":
        try:
            self.loop.run_until_complete(self._watched())
        except SimulationStuck as stuck:
            self.referee.complain("every run comes to its end", str(stuck))
        finally:
            self.steps, self.virtual_ms = self.loop.steps, self.loop.now_ms
            self._buried()
            self.loop.close()
        return self

    async def _watched(self) -> None:
        """Until the play is over, or a law is broken."""
        self.referee.broken = self.loop.create_future()
        playing = self.loop.create_task(self._play())
        await asyncio.wait((playing, self.referee.broken), return_when=asyncio.FIRST_COMPLETED)
        playing.cancel()
        await asyncio.wait((playing,))
        error = playing.exception() if not playing.cancelled() else None
        if error is not None:
            self.referee.complain("nothing fails in silence", repr(error))

    async def _kept(self, run: str) -> Sequence[SealedRecord]:
        try:
            return await self.shelf.sealed(run)
        except RunNotFound:
            return ()

    async def _play(self) -> None:
        await self._start()
        for _ in range(self.plot.faults.moments):
            await self.clock.sleep(self.chance.randrange(1, MOMENT_MS))
            if self.referee.is_over():
                break
            await self._moment()
        self.weather.is_calm = True
        for process in self.stalled:
            process.come_back()
        self.stalled.clear()
        await self._come_to_rest()
        await self._end()

    # Starting and taking up

    async def _start(self) -> None:
        """As a host does it: it asks until it knows that the run is there."""
        for sha, body in self.referee.bodies.items():
            await self.shelf.put_crew(sha, body)
        if self.plot.past:
            await self._inherit(self.plot.past)
        sha = self.referee.crew_sha
        await self.shelf.bus.declare(self.crew.name, sha, of_file(self.crew))
        while not await self._kept(self.run):
            process = await self._living()
            try:
                await process.ask(process.runner.start(self.crew, sha, self.plot.input, run_id=self.run))
            except (ProcessDied, StoreFailed):
                continue
        await self._taken_up()

    async def _inherit(self, past: Sequence[Record]) -> None:
        for record in past:
            self.referee.root.inherited(record)
        row = RunRow(run=self.run, crew=self.crew.name, crew_sha=self.referee.crew_sha, status="new")
        row = row_of(self.referee.root.shadow, row, self.clock.now_ms())
        await self.shelf.add(row, sealed_chain(self.run, past))

    async def _living(self) -> Process:
        """The process that serves, or the next one if it is dead or stands still."""
        while not self.processes or self.processes[-1].is_dead or self.processes[-1] in self.stalled:
            await self.clock.sleep(self.chance.randrange(MOMENT_MS))
            await self._inspect()
            listens = any(each.subscriptions for each in self.crew.whole_tree())
            scenery = Scenery(self.loop, self.clock, self.referee, self.weather, listens=listens)
            memory = MemoryStore(beside=self.shelf)
            process = Process(len(self.processes) + 1, scenery, memory, self.plot.model_for, self.plot.tools)
            self.processes.append(process)
            try:
                await process.boot(self.crew)
            except ProcessDied:
                continue
            self._let_one_come_back()
        return self.processes[-1]

    async def _taken_up(self) -> None:
        """A run that nobody drives, because its driver gave up, is recovered by its host."""
        process = await self._living()
        if (await self.shelf.row(self.run)).status == "running" and self.run not in process.runner.drivers:
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.recover(self.crew, self.run))

    async def _inspect(self) -> None:
        for run in self.referee.books:
            if kept := await self._kept(run):
                self.referee.inspect(run, list(kept))

    # Trouble

    async def _moment(self) -> None:
        process, faults = await self._living(), self.plot.faults
        self._let_one_come_back()
        if self.weather.strikes(faults.clock_jump):
            self._jump()
        if self.weather.strikes(faults.duplicate):
            self._deliver_again(process)
        if self.crew.subscriptions:
            await self._announce(process)
        if self.referee.open_tokens() and self.weather.strikes(faults.answered):
            await self._answer(process, again=self.weather.strikes(faults.repeated))
        if faults.messaged and self.weather.strikes(faults.messaged):
            await self._send_message(process)
        if not process.is_dead:
            await self._strike(process)
        await self._taken_up()

    async def _strike(self, process: Process) -> None:
        faults = self.plot.faults
        if self.weather.crash_strikes():
            process.die("at a random moment")
        elif self.weather.strikes(faults.stalled):
            process.stall()
            self.stalled.append(process)
        elif self.weather.strikes(faults.cancelled):
            self.referee.inject("somebody cancels the run")
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.cancel(self.crew, self.run, by="simulation"))
        elif faults.parked and self.weather.strikes(faults.parked):
            await self._park(process)
        elif faults.hour_away and self.weather.strikes(faults.hour_away):
            await self._take_the_store_away(process)

    async def _send_message(self, process: Process) -> None:
        """The host sends a message twice under one key; what it is told was sent is in the journal, once."""
        made, to = self.chance.choice(registered()), self.chance.choice(self.crew.agent_ids)
        given = MessageGiven(kind=made.type, to=to, body={}, key=f"{self.chance.random()}")
        self.referee.inject(f"the host sends {made.type} to {to}")
        with suppress(ProcessDied, InterlockError):
            sent = [await process.ask(process.runner.send_message(self.crew, self.run, given)) for _ in range(2)]
            if sent[0] != sent[1] or sent[0] not in self.referee.root.ledger.letters:
                self.referee.complain("nothing acknowledged is lost", f"the host sent {sent}, which is not kept so")

    async def _park(self, process: Process) -> None:
        """A person stops the process; the run rests, whatever process comes, until she resumes it."""
        self.referee.inject("somebody parks the run")
        with suppress(ProcessDied, InterlockError):
            if not await process.ask(process.runner.park(self.run, by="simulation")):
                return
            await self.clock.sleep(NEGLECT_MS)
            if left := self.referee.leftovers(process.number):
                self.referee.complain("a parked run rests", f"{', '.join(left)} goes on")
            if self.chance.random() < 0.5 and not process.is_dead:
                process.die("after it was parked")
            await self._continue_parked()

    async def _continue_parked(self) -> None:
        process = await self._living()
        if process.runner.drivers:
            self.referee.complain("a parked run rests", f"process {process.number} drives it")
        if (await self.shelf.row(self.run)).reason == PARKED:
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.resume(self.crew, self.run, GivenAnswer()))

    async def _take_the_store_away(self, process: Process) -> None:
        """What comes back is held: no call is made again because of it."""
        self.referee.inject("the store is away for an hour")
        before = {key for key in self.referee.calls_made if key[0] == process.number}
        made = {key: self.referee.calls_made[key] for key in before}
        self.weather.is_store_away = True
        await self.clock.sleep(HOUR_MS)
        self.weather.is_store_away = False
        await self.clock.sleep(2 * NEGLECT_MS + STORE_RETRY_MAX_MS)
        again = [key for (of, key), n in made.items() if self.referee.calls_made[of, key] > n]
        if again and not process.is_dead:
            self.referee.complain("what comes back is held", f"{', '.join(again)} was called again")

    def _let_one_come_back(self) -> None:
        if self.stalled and self.chance.random() < 0.5:
            self.stalled.pop().come_back()

    def _jump(self) -> None:
        ms = self.chance.randrange(-JUMP_MS, JUMP_MS)
        self.referee.inject(f"the wall clock jumps by {ms} ms")
        self.clock.jump(ms)

    async def _announce(self, process: Process) -> None:
        """Somebody outside announces what some agent of the crew hears."""
        pattern = self.chance.choice(self.crew.subscriptions).pattern
        self.announced += 1
        broadcast = Broadcast(
            id=derived_id(f"{self.plot.seed}:{self.announced}"),
            type=pattern.replace("*", "x"),
            source=PROCESS,
            data="[END] [STOP]",
            created_at=self.clock.now_ms(),
        )
        self.referee.inject(f"somebody announces {broadcast.type}")
        with suppress(ProcessDied, InterlockError):
            board = process.runner.board
            board.announced(await process.ask(board.bus.emit(Emission(broadcast=broadcast))))

    def _deliver_again(self, process: Process) -> None:
        runs = list(self.referee.books)
        run = self.chance.choice(runs) if len(runs) > 1 else self.run
        live, answers = process.runner.live.get(run), list(self.referee.books[run].ledger.answers.values())
        if live is None or not answers:
            return
        event = self.chance.choice(answers)
        self.referee.inject(f"the answer to call {getattr(event, 'call', '')} is delivered again")
        process.within(live.tell, msgspec.structs.replace(event, worked_ms=0))

    async def _answer(self, process: Process, *, again: bool) -> None:
        """A person answers an open wait, once or many times at once. One answer counts."""
        token = self.chance.choice(self.referee.open_tokens())
        text = self.chance.choice(SAID)
        times = self.chance.randint(SAME_ANSWERS_MIN, SAME_ANSWERS_MAX) if again else 1
        self.referee.inject(f"somebody answers {token} with {text!r}, {times} times")
        taken = await asyncio.gather(*(self._resume(process, token, text) for _ in range(times)))
        if sum(taken) > 1:
            self.referee.complain(
                "an answer counts once", f"{sum(taken)} of {times} equal answers to {token} were taken"
            )

    async def _resume(self, process: Process, token: str, text: str) -> bool:
        try:
            await process.ask(process.runner.resume(self.crew, self.run, GivenAnswer(token, text)))
        except (ProcessDied, InterlockError):  # refused, or nobody knows whether it counts
            return False
        self.referee.promised(token, text)
        return True

    # Quiet

    async def _come_to_rest(self) -> None:
        answers = self.plot.answers
        for _ in range(ROUNDS_MAX + answers):
            process = await self._living()
            await self._taken_up()
            if not await self._settled(process):
                return
            row = await self.shelf.row(self.run)
            if row.reason == PARKED:
                await self._continue_parked()
                continue
            if row.status == "paused" and not self.referee.open_tokens():
                self.referee.complain("whoever waits can be answered", "the run is paused, and nobody asks anything")
                return
            if row.status == "paused" and answers:
                answers -= 1
                await self._answer(process, again=False)
            elif row.status != "running":
                return
        self.referee.complain("every run comes to its end", "the quiet phase goes on and on")

    async def _settled(self, process: Process) -> bool:
        """Whether the run is over or paused, or its driver gave up; it is watched while it works."""
        most = int(self.crew.settings.timeout_seconds * 2000) + 60_000
        watching = self.loop.create_task(self._watch(process))
        try:
            await process.ask(process.runner.settled(self.run), within_ms=most)
        except TookTooLong:
            self.referee.complain(
                "every run comes to its end", f"nothing disturbs it, and after {most} ms it still runs"
            )
            return False
        except InterlockError as error:
            self.referee.inject(f"the driver of the run gives up: {error}")
        finally:
            watching.cancel()
        return True

    async def _watch(self, process: Process) -> None:
        """Whatever the run has ordered is under way in the process that drives it, a moment later at the latest."""
        while True:
            before = self.referee.neglected(process.number)
            await self.clock.sleep(NEGLECT_MS)
            if both := [key for key in self.referee.neglected(process.number) if key in before]:
                self.referee.complain("what is ordered is done", f"nobody works on {', '.join(both)}")

    async def _end(self) -> None:
        await self.clock.sleep(1)
        await self._inspect()
        self.referee.judge_tree()
        await self._look_at_what_went_with_the_records()
        for process in self.processes:
            if not process.is_dead:
                if process is self.processes[-1] and (left := self.referee.leftovers(process.number)):
                    self.referee.complain("nothing outlives its run", f"the run rests, and {', '.join(left)} goes on")
                await process.shut_down()
        self._look_for_silent_failures()

    async def _look_at_what_went_with_the_records(self) -> None:
        """Nobody disturbs whoever is left, so what was to go out is out, and what was reserved is settled."""
        await self._living()
        if await self.shelf.pending():
            await self.clock.sleep(OUT_MS)
        journals = [await self.shelf.records(run) for run in self.referee.books if await self._kept(run)]
        events = [event for journal in journals for record in journal for event in record.events]
        past = [event for record in self.plot.past for event in record.events]
        sent = sum(isinstance(e, ExternalSent) for e in events) - sum(isinstance(e, ExternalSent) for e in past)
        if len(self.referee.told) < sent:
            self.referee.complain("what goes out arrives", f"{sent} signals were sent, {len(self.referee.told)} heard")
        if left := await self.shelf.pending():
            self.referee.complain("what goes out arrives", f"{left[0].key} is still to be handed over")
        said = [each for books in self.referee.books.values() for each in books.ledger.emitted]
        lost = [each for each in said if each not in self.shelf.bus.tables.positions]
        if lost and not self.plot.past:
            self.referee.complain("what is announced is kept", f"{lost[0]} is in the journal and not on the bus")
        awake = [agent for (_, agent), runs in self.shelf.bus.tables.active.items() if self.run in runs]
        if self.referee.is_over() and awake:
            self.referee.complain("whoever has ended sleeps", f"the run is over, and {', '.join(awake)} is awake")
        if self.referee.is_over() and (held := self.shelf.held_keys()):
            self.referee.complain("budgets are settled", f"the run is over, and {', '.join(held)} is still held")

    def _look_for_silent_failures(self) -> None:
        for process in self.processes:
            for task in process.lane.tasks:
                error = task.exception() if task.done() and not task.cancelled() else None
                self._judge(error, getattr(task.get_coro(), "__qualname__", ""))

    def _unhandled(self, _loop: object, context: dict[str, Any]) -> None:
        self._judge(context.get("exception"), str(context.get("message")))

    def _judge(self, error: BaseException | None, where: str) -> None:
        """A process may die, and refusals are typed; anything else is a mistake of somebody."""
        if error is not None and not isinstance(error, InterlockError | ProcessDied):
            self.referee.complain("nothing fails in silence", f"{where}: {error!r}")

    def _buried(self) -> None:
        """After the play: what was frozen is cancelled, behind shut doors, so that nothing is left to be collected."""
        self.referee.is_watching = False
        for process in self.processes:
            process.is_dead = True
            self.loop.let_go_on(process.lane)
        for _ in range(3):
            left = [task for process in self.processes for task in process.lane.tasks if not task.done()]
            left += [task for task in asyncio.all_tasks(self.loop) if task not in left]
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left, timeout=1))
        for process in self.processes:
            for task in process.lane.tasks:
                if task.done() and not task.cancelled():
                    task.exception()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
