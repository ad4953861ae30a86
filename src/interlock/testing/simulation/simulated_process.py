"""A process that can die: the real runner, on its own lane, with ports that close when it dies.

Rule 1: dying is instant. Nothing on its lane runs again, so nothing is cleaned up, and nothing is written.
Rule 2: a caller waits for the answer of a process or for its death, whichever comes first.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.adapters.value_types.output_validator import TypedOutputValidator, TypeFor
from interlock.approvals.rules import ApprovalRules
from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.ports import Model, StoredRecord
from interlock.ports.hooks import Hook
from interlock.runtime.calls.approvals import HostApprovals
from interlock.runtime.calls.external_signals import ExternalSignal
from interlock.runtime.calls.host_hooks import HostHooks
from interlock.runtime.calls.host_policies import HostPolicies
from interlock.runtime.runner import Runner
from interlock.testing.memory_owners import MemoryLeaders
from interlock.testing.memory_store import MemoryStore
from interlock.testing.simulation.decision_watch import DecisionWatch
from interlock.testing.simulation.invariants import InvariantChecker
from interlock.testing.simulation.simulated_hooks import hooks_of_process
from interlock.testing.simulation.simulated_loop import Lane, SimulatedClock, SimulatedLoop
from interlock.testing.simulation.simulated_ports import FaultInjector, SimulatedModel, SimulatedStore
from interlock.testing.simulation.simulated_tools import SimulatedToolbox

T = TypeVar("T")

# Runs that a process claims at once.
RECOVERED_MAX = 100

# The longest time of a host's callback, in milliseconds of virtual time.
HOST_MS = 300

ModelFor = Callable[[CrewDefinition, AgentDefinition], Model]


class ProcessPlan(Protocol):
    """The part of a simulation's plan that its processes need."""

    @property
    def model_for(self) -> ModelFor: ...

    @property
    def tools(self) -> PythonToolbox: ...

    @property
    def rules(self) -> ApprovalRules: ...

    @property
    def deadline_ms(self) -> int: ...

    @property
    def hooks(self) -> Sequence[Hook]: ...

    @property
    def type_for(self) -> TypeFor: ...


class ProcessDied(BaseException):
    """Raised in the code of a process that dies; no `except Exception` may catch it."""


class TookTooLong(Exception):
    """A living process did not answer in time."""


class Environment:
    """The parts that the processes of one simulation share."""

    def __init__(
        self,
        loop: SimulatedLoop,
        clock: SimulatedClock,
        checker: InvariantChecker,
        injector: FaultInjector,
        watch: DecisionWatch,
        *,
        listens: bool,
    ) -> None:
        """`listens` is True if the crew uses broadcasts: otherwise the bus has no faults."""
        self.loop, self.clock, self.checker, self.injector, self.watch = loop, clock, checker, injector, watch
        self.listens = listens


class Process:
    """One simulated process, from its start to its death."""

    def __init__(self, number: int, environment: Environment, memory: MemoryStore, plan: ProcessPlan) -> None:
        self.number, self.memory = number, memory
        self.loop, self.clock = environment.loop, environment.clock
        self.checker, self.injector, self.listens = environment.checker, environment.injector, environment.listens
        self.watch = environment.watch
        self.lane = Lane()
        self.is_dead = self.is_fenced = False
        self.died: asyncio.Future[None] = self.loop.create_future()
        self._context = self.lane.context()
        self.store = SimulatedStore(self, memory)
        self.runner = Runner(
            journal=self.store,
            owners=self.store,
            orders=self.store,
            budgets=self.store,
            outbox=self.store,
            leaders=MemoryLeaders(memory),
            bus=self.store.bus,
            deltas=ProcessDeltas(),
            clock=self.clock,
            model_for=lambda crew, agent, _run: SimulatedModel(self, plan.model_for(crew, agent)),
            toolbox=SimulatedToolbox(self, plan.tools),
            observers=[self._on_record],
            on_external=self._on_external,
            hook=self.boundary,
            listens=self.listens,
            policies=HostPolicies(
                approvals=HostApprovals(plan.rules, self.store, plan.deadline_ms),
                hooks=HostHooks(hooks_of_process(self, self.watch, plan.hooks)),
                outputs=TypedOutputValidator(plan.type_for, in_place=True),
            ),
        )

    async def boot(self, crew: CrewDefinition) -> None:
        """Starts the runner, and recovers every run that waits for a driver."""
        await self.ask(self.runner.__aenter__())
        for each in await self.ask(self.runner.live_runs.claim_waiting(RECOVERED_MAX)):
            await self.ask(self._recover_claimed(crew, each.run))
        await self.ask(self.runner.external_sender.resend_pending())

    async def _recover_claimed(self, crew: CrewDefinition, run_id: str) -> None:
        await self.runner.recover(crew, run_id)
        await self.runner.live_runs.give_up_claim(run_id)

    async def ask(self, work: Coroutine[Any, Any, T], within_ms: int | None = None) -> T:
        task: asyncio.Task[T] = self.loop.create_task(work, context=self._context.copy())
        seconds = within_ms / 1000 if within_ms is not None else None
        await asyncio.wait((task, self.died), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if self.is_dead:
            raise ProcessDied
        raise TookTooLong

    def call_inside(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function inside the process: all that it starts is on the lane."""
        self._context.copy().run(function, *arguments)

    def boundary(self, name: str) -> None:
        if self.is_dead:
            raise ProcessDied(name)
        if self.injector.should_crash():
            self.die(name)
            raise ProcessDied(name)

    def die(self, where: str) -> None:
        self.injector.crashes += 1
        self.checker.record_fault(f"process {self.number} dies: {where}")
        self.is_dead = self.lane.is_stopped = True
        self.memory.expire()
        self.checker.on_lease_ended(self.number)
        self.died.set_result(None)

    def stall(self) -> None:
        """Stalls the process for so long that others may claim its runs."""
        self.checker.record_fault(f"process {self.number} stands still")
        self.lane.is_stopped = True
        self.memory.expire()
        self.checker.on_lease_ended(self.number)

    def lose_lease(self) -> None:
        """Ends the lease: the process notices at once, and others may claim its runs from now on."""
        self.checker.record_fault(f"process {self.number} loses its lease")
        self.is_fenced = True
        self.call_inside(self.memory.lose_lease)
        self.memory.expire()
        self.checker.on_lease_ended(self.number)

    def resume(self) -> None:
        self.checker.record_fault(f"process {self.number} comes back")
        self.loop.resume_lane(self.lane)

    async def shut_down(self) -> None:
        """Shuts the process down; no task may be left."""
        await self.ask(self.runner.__aexit__(None, None, None))
        await self.clock.sleep(1)
        left = [task for task in self.lane.tasks if not task.done()]
        if left:
            names = ", ".join(sorted(str(task.get_coro().__qualname__) for task in left))  # type: ignore[union-attr]
            self.checker.report_violation(
                "every task has an owner and an end", f"process {self.number} left {names} behind"
            )

    async def _on_external(self, signal: ExternalSignal) -> None:
        """Stands in for the host: it is slow, it fails, and the process may die meanwhile."""
        self.boundary("before a host is told")
        await self.clock.sleep(self.injector.chance.randrange(HOST_MS))
        if self.injector.should_inject(self.injector.faults.failing):
            raise OSError("the host is in trouble")
        self.checker.delivered_signals.add(signal.key)
        self.boundary("after a host is told")

    def _on_record(self, stored: StoredRecord) -> None:
        live = self.runner.live.get(stored.run)
        self.checker.on_acknowledged(self.number, stored.run, stored.record, live.run if live is not None else None)
