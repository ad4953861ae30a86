"""A process that can die: the real runner, on a lane of its own, behind doors that shut when it does.

Rule 1: dying is instant. Nothing on its lane runs again, so nothing is cleaned up, and nothing is written.
Rule 2: whoever asks a process for something waits for the answer or for its death, whichever comes first.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from interlock.adapters.tools_python import PythonToolbox
from interlock.crew.definition import Agent, Crew
from interlock.ports import Model, StoredRecord
from interlock.runtime.delivery import ExternalSignal
from interlock.runtime.runner import Runner
from interlock.testing.memory_store import MemoryStore
from interlock.testing.referee import Referee
from interlock.testing.simulated_loop import Lane, SimulatedClock, SimulatedLoop
from interlock.testing.simulated_ports import SimulatedModel, SimulatedStore, SimulatedToolbox, Weather

T = TypeVar("T")

# What a host takes to hear of something, in milliseconds of virtual time.
HOST_MS = 300

ModelFor = Callable[[Crew, Agent], Model]


class ProcessDied(BaseException):
    """What the code of a process that dies sees of it; no `except Exception` may survive it."""


class TookTooLong(Exception):
    """A process lives and does not answer."""


class Scenery:
    """What the processes of one simulation share."""

    def __init__(
        self, loop: SimulatedLoop, clock: SimulatedClock, referee: Referee, weather: Weather, *, listens: bool
    ) -> None:
        """`listens` if the crew has anything to do with broadcasts: otherwise the bus is out of the play."""
        self.loop, self.clock, self.referee, self.weather = loop, clock, referee, weather
        self.listens = listens


class Process:
    """One life."""

    def __init__(
        self, number: int, scenery: Scenery, memory: MemoryStore, model_for: ModelFor, tools: PythonToolbox
    ) -> None:
        self.number, self.memory = number, memory
        self.loop, self.clock = scenery.loop, scenery.clock
        self.referee, self.weather, self.listens = scenery.referee, scenery.weather, scenery.listens
        self.lane = Lane()
        self.is_dead = False
        self.died: asyncio.Future[None] = self.loop.create_future()
        self._context = self.lane.context()
        self.store = SimulatedStore(self, memory)
        self.runner = Runner(
            journal=self.store,
            owners=self.store,
            orders=self.store,
            budgets=self.store,
            outbox=self.store,
            bus=self.store.bus,
            clock=self.clock,
            model_for=lambda crew, agent: SimulatedModel(self, model_for(crew, agent)),
            toolbox=SimulatedToolbox(self, tools),
            observers=[self._observed],
            on_external=self._hear,
            hook=self.boundary,
            listens=self.listens,
        )

    async def boot(self, crew: Crew) -> None:
        """Starts, and goes on with every run whose owner is gone."""
        await self.ask(self.runner.__aenter__())
        for row in await self.ask(self.store.rows(status="running", nested=False)):
            await self.ask(self.runner.recover(crew, row.run))
        await self.ask(self.runner.deliver_again())

    async def ask(self, work: Coroutine[Any, Any, T], within_ms: int | None = None) -> T:
        task: asyncio.Task[T] = self.loop.create_task(work, context=self._context.copy())
        seconds = within_ms / 1000 if within_ms is not None else None
        await asyncio.wait((task, self.died), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if self.is_dead:
            raise ProcessDied
        raise TookTooLong

    def within(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls a function as if the process had done so itself: whatever it starts is on the lane."""
        self._context.copy().run(function, *arguments)

    def boundary(self, name: str) -> None:
        if self.is_dead:
            raise ProcessDied(name)
        if self.weather.crash_strikes():
            self.die(name)
            raise ProcessDied(name)

    def die(self, where: str) -> None:
        self.weather.crashes += 1
        self.referee.inject(f"process {self.number} dies: {where}")
        self.is_dead = self.lane.is_stopped = True
        self.memory.expire()
        self.died.set_result(None)

    def stall(self) -> None:
        """Stands still for so long that others may take its runs."""
        self.referee.inject(f"process {self.number} stands still")
        self.lane.is_stopped = True
        self.memory.expire()

    def come_back(self) -> None:
        self.referee.inject(f"process {self.number} comes back")
        self.loop.let_go_on(self.lane)

    async def shut_down(self) -> None:
        """Ends in good order; then nothing of it may be left."""
        await self.ask(self.runner.__aexit__(None, None, None))
        await self.clock.sleep(1)
        left = [task for task in self.lane.tasks if not task.done()]
        if left:
            names = ", ".join(sorted(str(task.get_coro().__qualname__) for task in left))  # type: ignore[union-attr]
            self.referee.complain("every task has an owner and an end", f"process {self.number} left {names} behind")

    async def _hear(self, signal: ExternalSignal) -> None:
        """The host: it is slow, it fails, and it may die of it."""
        self.boundary("before a host is told")
        await self.clock.sleep(self.weather.chance.randrange(HOST_MS))
        if self.weather.strikes(self.weather.faults.failing):
            raise OSError("the host is in trouble")
        self.referee.told.add(signal.key)
        self.boundary("after a host is told")

    def _observed(self, stored: StoredRecord) -> None:
        live = self.runner.live.get(stored.run)
        self.referee.acknowledged(self.number, stored.run, stored.record, live.run if live is not None else None)
