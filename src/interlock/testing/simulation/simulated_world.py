"""The world of one simulation: its storage, its processes, and the person who answers its questions."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.adapters.value_types.output_validator import TypeFor, no_type_for
from interlock.approvals.rules import NO_RULES, ApprovalRules
from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import PARKED
from interlock.engine.kinds import HookPoint
from interlock.errors import InterlockError, RunNotFound
from interlock.ports import Record, SealedRecord
from interlock.ports.hooks import Hook
from interlock.runtime.runner import GivenAnswer
from interlock.testing.memory_store import MemoryStore
from interlock.testing.simulation.decision_watch import DecisionWatch
from interlock.testing.simulation.faults import Faults
from interlock.testing.simulation.invariants import InvariantChecker
from interlock.testing.simulation.seeds import chance_of
from interlock.testing.simulation.simulated_loop import SimulatedClock, SimulatedLoop
from interlock.testing.simulation.simulated_ports import FaultInjector
from interlock.testing.simulation.simulated_process import Environment, ModelFor, Process, ProcessDied

# Answers that a person gives.
SAID = ("", "yes", "no", "go on", "retry", "fail", "it said [END]", "tiếp tục")

# Answers that only a person gives who is asked under rules.
SAID_UNDER_RULES = (*SAID, "yes", "for this run", "always", "no: too much", '{"amount": 1}')

# Between two moments of the fault phase, in milliseconds.
MOMENT_MS = 1_500
SAME_ANSWERS_MIN, SAME_ANSWERS_MAX = 2, 100

# After this much quiet time every ordered call is in progress.
NEGLECT_MS = 2_000


@dataclass(frozen=True, kw_only=True)
class SimulationPlan:
    """The input of a simulation. With a `past` the run does not start; it continues from the past of another run."""

    crew: CrewDefinition
    seed: int
    run: str
    input: str
    faults: Faults
    answers: int
    tools: PythonToolbox
    model_for: ModelFor
    past: tuple[Record, ...] = ()
    rules: ApprovalRules = NO_RULES
    deadline_ms: int = 0  # of an approval
    hooks: tuple[Hook, ...] = ()
    type_for: TypeFor = no_type_for


class SimulatedWorld:
    """The parts of one simulation, and the actions that its phases share."""

    def __init__(self, plan: SimulationPlan) -> None:
        self.plan, self.run = plan, plan.run
        self.loop = SimulatedLoop(plan.seed)
        self.clock = SimulatedClock(self.loop)
        self.checker = InvariantChecker(plan.crew, self.run, self.loop)
        self.crew = self.checker.crew
        self.injector = FaultInjector(plan.faults, plan.seed)
        self.watch = DecisionWatch(self.checker, plan.hooks, plan.rules, plan.tools)
        self.chance = chance_of(plan.seed, "director")
        self.shared_storage = MemoryStore()
        self.processes: list[Process] = []
        self.stalled: list[Process] = []

    async def records_of(self, run: str) -> Sequence[SealedRecord]:
        try:
            return await self.shared_storage.export_records(run)
        except RunNotFound:
            return ()

    async def living_process(self) -> Process:
        """The current process, or the next one if it is dead, stalled or without a lease."""
        while not self.processes or not self._works(self.processes[-1]):
            await self.clock.sleep(self.chance.randrange(MOMENT_MS))
            await self.check_journals()
            listens = any(each.subscriptions for each in self.crew.whole_tree())
            environment = Environment(self.loop, self.clock, self.checker, self.injector, self.watch, listens=listens)
            memory = MemoryStore(beside=self.shared_storage)
            process = Process(len(self.processes) + 1, environment, memory, self.plan)
            self.processes.append(process)
            try:
                await process.boot(self.crew)
            except ProcessDied:
                continue
            self.resume_one_stalled()
        return self.processes[-1]

    def _works(self, process: Process) -> bool:
        return not (process.is_dead or process.is_fenced or process in self.stalled)

    async def recover_if_undriven(self) -> None:
        """Recovers the run if no process drives it because its driver gave up."""
        process = await self.living_process()
        if (await self.shared_storage.row(self.run)).status == "running" and self.run not in process.runner.drivers:
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.recover(self.crew, self.run))

    async def check_journals(self) -> None:
        for run in self.checker.runs:
            if kept := await self.records_of(run):
                self.checker.check_journal(run, list(kept))

    async def continue_parked(self) -> None:
        process = await self.living_process()
        if process.runner.drivers:
            self.checker.report_violation("a parked run rests", f"process {process.number} drives it")
        if (await self.shared_storage.row(self.run)).reason == PARKED:
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.resume(self.crew, self.run, GivenAnswer()))

    def resume_one_stalled(self) -> None:
        if self.stalled and self.chance.random() < 0.5:
            self.stalled.pop().resume()

    async def answer(self, process: Process, *, again: bool) -> None:
        """Answers an open wait, once or many times in parallel. One answer counts."""
        token = self.chance.choice(self.checker.open_tokens())
        text = self.chance.choice(SAID if self.plan.rules == NO_RULES else SAID_UNDER_RULES)
        times = self.chance.randint(SAME_ANSWERS_MIN, SAME_ANSWERS_MAX) if again else 1
        self.checker.record_fault(f"a person answers {token} with {text!r}, {times} times")
        accepted = await asyncio.gather(*(self._resume(process, token, text) for _ in range(times)))
        if sum(accepted) > 1:
            self.checker.report_violation(
                "an answer counts once", f"{sum(accepted)} of {times} equal answers to {token} were accepted"
            )

    async def _resume(self, process: Process, token: str, text: str) -> bool:
        try:
            await process.ask(process.runner.resume(self.crew, self.run, GivenAnswer(token, text, may_hold=True)))
        except (ProcessDied, InterlockError):  # refused, or not known to count
            return False
        may_differ = any(hasattr(hook, HookPoint.ON_INPUT) for hook in self.plan.hooks)
        self.checker.record_promise(token, None if may_differ else text)
        return True
