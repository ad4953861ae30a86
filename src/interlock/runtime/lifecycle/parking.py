"""Parking: a person stops this process, and its runs rest until they are resumed.

Rule 1: children are parked before their parent, so that while anything in a tree is running, so is its root.
Rule 2: outcomes that have arrived are stored first; calls in progress are cancelled and made again by the resume.
Rule 3: a child that rests is left as it is. It is parked when its question is answered while its parent is parked.
"""

import asyncio
from contextlib import suppress

from interlock.engine.events import ParkRequested
from interlock.engine.kinds import RunStatus, WorkStatus
from interlock.engine.state import RunState, child_runs_of
from interlock.errors import RunNotFound
from interlock.ids import parent_of
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRun, LiveRuns

# How long to wait for a driver that is to end, before the next look.
DRIVER_WAIT_SECONDS = 0.05


class Parking:
    def __init__(self, live_runs: LiveRuns, committer: Committer, resumption: Resumption) -> None:
        self._live_runs, self._committer, self._resumption = live_runs, committer, resumption

    async def park_all(self, by: str) -> None:
        """Parks every run that this process drives."""
        for run_id in [run for run in self._live_runs.runs if not parent_of(run)]:
            await self.park(run_id, by)

    async def park(self, run_id: str, by: str) -> bool:
        """Parks a run that this process drives, and all below it; whether it is parked now."""
        async with self._live_runs.run_lock(run_id):  # it may be about to start
            live = self._live_runs.runs.get(run_id)
        if live is None or run_id not in self._live_runs.drivers:
            return False
        while not await self._park_unless_children_work(live, by):
            for child in self._working_children(live.run.state):
                await self.park(child, by)
                await self._wait_for_driver(child)
        if live.run.state.is_ending:  # it ends when its children have stopped
            await self._live_runs.wait_until_settled(run_id)
        return bool(live.run.state.parked)

    async def _wait_for_driver(self, run_id: str) -> None:
        """Waits until the driver of a run that rests has ended.

        The run may be answered meanwhile, and work again: then it is parked once more.
        """
        driver = self._live_runs.drivers.get(run_id)
        if driver is not None:
            await asyncio.wait({driver}, timeout=DRIVER_WAIT_SECONDS)
        else:
            await asyncio.sleep(0)

    async def _park_unless_children_work(self, live: LiveRun, by: str) -> bool:
        """Parks a run, unless it is ending; False if a child still works."""
        async with self._live_runs.run_lock(live.id), live.lock:
            if not live.run.state.is_ending:
                await self._commit_inbox(live)
                children = self._working_children(live.run.state)
                if any(
                    child in self._live_runs.drivers or self._live_runs.run_lock(child).locked() for child in children
                ):
                    return False
                await self._resumption.park(live, by)
        live.enqueue_event(None)
        return True

    async def _commit_inbox(self, live: LiveRun) -> None:
        while live.inbox:
            event = live.inbox.popleft()
            if event is not None:
                await self._committer.commit_event(live, event)

    async def set_aside(self, run_id: str, hindrance: str) -> None:
        """Parks a run that no process drives, and all below it; a run that is ending continues to its end."""
        for child in await self._children_to_set_aside(run_id):
            with suppress(RunNotFound):  # it was never begun
                await self.set_aside(child, hindrance)
        async with self._live_runs.run_lock(run_id):
            if run_id in self._live_runs.runs:
                return
            live = await self._live_runs.claim_run(run_id)
            if not await self._resumption.continue_if_ending(live):
                if live.run.state.status is RunStatus.RUNNING:
                    await self._committer.commit_event(live, ParkRequested(by="host", hindrance=hindrance))
                await self._live_runs.release_if_idle(live)

    async def _children_to_set_aside(self, run_id: str) -> list[str]:
        """The children to park, after the lock of the parent: an answer locks the child first, then the parent."""
        async with self._live_runs.run_lock(run_id):
            if run_id in self._live_runs.runs:
                return []
            live = await self._live_runs.claim_run(run_id)
            if not live.run.state.is_ending:
                async with live.lock:
                    await self._resumption.count_lost_calls(live)
            await self._live_runs.release_if_idle(live)
        return self._working_children(live.run.state) if not live.run.state.is_ending else []

    def _working_children(self, state: RunState) -> list[str]:
        """The children that are started or driven, without those that are parked or rest."""
        lives = self._live_runs.runs
        found = [child.run for child in child_runs_of(state) if child.status is WorkStatus.WORKING]
        return [run for run in found if run not in lives or not lives[run].run.state.parked]
