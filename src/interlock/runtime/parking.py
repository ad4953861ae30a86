"""Parking: a person stops this process, and what it drives rests until somebody resumes it.

Rule 1: children are parked before their parent, so that while anything in a tree is running, so is its root.
Rule 2: what has come back is stored first; what is in progress is cancelled and done again by the resume.
Rule 3: a child that rests is left as it is. It is parked when its question is answered and its parent is parked still.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.engine.events import ParkRequested
from interlock.engine.state import RunState, children_of
from interlock.engine.step import OVER
from interlock.errors import RunNotFound
from interlock.ids import parent_of
from interlock.runtime.live import LiveRun

if TYPE_CHECKING:
    from interlock.runtime.runner import Runner


# How long a driver that is to end is waited for, before it is looked at again.
DRIVER_WAIT_SECONDS = 0.05


class Parking:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner

    async def park_all(self, by: str) -> None:
        """Parks every run that this process drives."""
        for run_id in [run for run in self._runner.live if not parent_of(run)]:
            await self.park(run_id, by)

    async def park(self, run_id: str, by: str) -> bool:
        """Parks a run that this process drives, and all below it; whether it is parked now."""
        runner = self._runner
        async with runner.taking(run_id):  # it may be about to begin
            live = runner.live.get(run_id)
        if live is None or run_id not in runner.drivers:
            return False
        while not await self._park_unless_children_work(live, by):
            for child in self._working_children(live.run.state):
                await self.park(child, by)
                await self._wait_for_driver(child)
        if live.run.state.ending is not None:  # it ends when its children have stopped
            await runner.settled(run_id)
        return bool(live.run.state.parked)

    async def _wait_for_driver(self, run_id: str) -> None:
        """A run that is parked, or that has come to rest by itself, is driven until its driver has seen that.

        It may be answered meanwhile, and work again: then it is parked once more.
        """
        driver = self._runner.drivers.get(run_id)
        if driver is not None:
            await asyncio.wait({driver}, timeout=DRIVER_WAIT_SECONDS)
        else:
            await asyncio.sleep(0)

    async def _park_unless_children_work(self, live: LiveRun, by: str) -> bool:
        """Whether nothing below it works any more; then it is parked, unless it ends anyway."""
        runner = self._runner
        async with runner.taking(live.id), live.lock:
            if live.run.state.ending is None:
                await self._take_in_what_came_back(live)
                children = self._working_children(live.run.state)
                if any(child in runner.drivers or runner.taking(child).locked() for child in children):
                    return False
                await self.park_one(live, by)
        live.tell(None)
        return True

    async def _take_in_what_came_back(self, live: LiveRun) -> None:
        while not live.inbox.empty():
            event = live.inbox.get_nowait()
            if event is not None:
                await self._runner.transit(live, event)

    async def set_aside(self, run_id: str, hindrance: str) -> None:
        """Parks a run that nobody drives, and all below it; one that only has to end does so."""
        runner = self._runner
        for child in await self._children_to_set_aside(run_id):
            with suppress(RunNotFound):  # it was never begun
                await self.set_aside(child, hindrance)
        async with runner.taking(run_id):
            if run_id in runner.live:
                return
            live = await runner.taken(run_id)
            if not await runner.goes_on_ending(live):
                if live.run.state.status == "running":
                    await self._runner.transit(live, ParkRequested(by="host", hindrance=hindrance))
                await runner.let_go_unless_driven(live)

    async def _children_to_set_aside(self, run_id: str) -> list[str]:
        """Read without the lock of the parent: who answers a child takes that lock while it has the child's."""
        runner = self._runner
        async with runner.taking(run_id):
            if run_id in runner.live:
                return []
            live = await runner.taken(run_id)
            await runner.let_go_unless_driven(live)
        return self._working_children(live.run.state) if live.run.state.ending is None else []

    async def park_one(self, live: LiveRun, by: str) -> None:
        """Stores that the run is parked. Who asks has its lock."""
        state = live.run.state
        if state.status not in OVER and state.ending is None and not state.parked:
            await self._runner.transit(live, ParkRequested(by=by))

    def _working_children(self, state: RunState) -> list[str]:
        """Those that are started or driven for the run; what is parked or rests is not among them."""
        lives = self._runner.live
        found = [child.run for child in children_of(state) if child.status == "working"]
        return [run for run in found if run not in lives or not lives[run].run.state.parked]
