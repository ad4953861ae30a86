"""Resuming runs that rested or were lost: outstanding effects are done again, parents are woken first.

Rule 1: a parent knows that a child continues before the child does, the root first.
Rule 2: all methods are called by a holder of the run's lock in `LiveRuns.run_lock`.
"""

from interlock.crew.definition import CrewDefinition
from interlock.engine.effects import StopChild
from interlock.engine.events import ChildContinues, DriveFailed, ParkRequested, RunResumed
from interlock.engine.kinds import RunStatus
from interlock.engine.run import OVER
from interlock.errors import InterlockError, ParentIsOver
from interlock.ids import key_of, parent_of
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.calls.effects import EffectRunner
from interlock.runtime.calls.external_signals import ExternalSender
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.commit import Committer
from interlock.runtime.live_runs import LiveRun, LiveRuns


class Resumption:
    def __init__(
        self,
        *,
        live_runs: LiveRuns,
        committer: Committer,
        effect_runner: EffectRunner,
        external_sender: ExternalSender,
        hub: BroadcastHub,
    ) -> None:
        self._live_runs, self._committer, self._effect_runner = live_runs, committer, effect_runner
        self._external_sender, self._hub = external_sender, hub

    async def recover(self, run_id: str, crew: CrewDefinition | None = None) -> None:
        """Continues a run whose owner is gone, after its last stored event. Takes the run lock itself."""
        async with self._live_runs.run_lock(run_id):
            if run_id in self._live_runs.runs:
                return
            live = await self._live_runs.claim_to_drive(run_id, crew)
            await self._external_sender.resend_pending(run_id)
            await self.resume_outstanding(live)

    async def end_failed_run(self, run_id: str, error: Exception) -> None:
        """Ends a run that fails whenever it is driven. Takes the run lock itself."""
        async with self._live_runs.run_lock(run_id):
            live = await self._live_runs.get_or_claim_to_end(run_id)
            async with live.lock:
                if live.run.state.status not in OVER:
                    failed = DriveFailed(error=f"{type(error).__name__}: {error}")
                    await self._committer.commit_event(live, failed)
            self._live_runs.drive(live)

    async def resume_outstanding(self, live: LiveRun) -> None:
        """Does the outstanding effects of a run that was just claimed, or releases the run."""
        if live.run.state.status is RunStatus.RUNNING:
            await self._hub.record_presence(live)
            async with live.lock:
                await self.count_lost_calls(live)
            self._effect_runner.report_lost_tools(live, live.run.outstanding_effects())
            self._live_runs.drive(live)
        else:
            await self._live_runs.release_if_idle(live)

    async def count_lost_calls(self, live: LiveRun) -> None:
        """Counts the calls that died with the last process, before they are made again. The caller holds `live.lock`.

        Whether they had begun is not known: a process stores nothing between its order of a call and the reply.
        """
        if not live.lost_calls:
            return
        for event in self._effect_runner.reservations.events_of_lost_calls(live):
            await self._committer.commit_event(live, event)
        live.lost_calls = False

    async def continue_if_ending(self, live: LiveRun) -> bool:
        """Continues a run that was just claimed and is ending already; whether it was."""
        if live.id in self._live_runs.runs or not live.run.state.is_ending:
            return False
        await self.resume_outstanding(live)
        return True

    async def unpark(self, live: LiveRun, by: str = "") -> None:
        """Continues a parked run; calls that were in progress are made again."""
        async with live.lock:
            resumed = RunResumed(token=live.run.state.parked, by=as_storable(by))
            await self._committer.commit_event(live, resumed)
        self._live_runs.drive(live)

    async def park(self, live: LiveRun, by: str) -> None:
        """Stores that the run is parked. The caller holds `live.lock`."""
        state = live.run.state
        if state.status not in OVER and not state.is_ending and not state.parked:
            await self.count_lost_calls(live)
            await self._committer.commit_event(live, ParkRequested(by=by))

    async def redo_outstanding_effects(self, live: LiveRun) -> None:
        """Does again, for a run that was just claimed, all effects if it was running, else only stops of children.

        The caller holds `live.lock`.
        """
        if live.run.state.status is not RunStatus.RUNNING:
            self.retry_child_cancellations(live)
        elif live.id not in self._live_runs.runs:
            await self.count_lost_calls(live)
            self._effect_runner.report_lost_tools(live, live.run.outstanding_effects())

    def retry_child_cancellations(self, live: LiveRun) -> None:
        """Stops again the children that were being stopped when the run was released or lost."""
        if live.id not in self._live_runs.runs:
            stops = [effect for effect in live.run.outstanding_effects() if isinstance(effect, StopChild)]
            self._effect_runner.run_effects(live, stops)

    async def wake_for_input(self, live: LiveRun) -> LiveRun | None:
        """Makes a run that rests ready for an event from outside, its parents first; returns its parent if that was
        woken. The caller holds `live.lock`.
        """
        parent = await self.wake_parent_or_release(live)
        if parent is not None and parent.run.state.parked:  # it does not work while its parent is parked
            await self.park(live, "caller")
        await self.redo_outstanding_effects(live)
        return parent

    async def wake_parent_or_release(self, child: LiveRun) -> LiveRun | None:
        try:
            return await self._wake_parent(child)
        except InterlockError:
            await self._live_runs.release_if_idle(child)
            raise

    def drive_with_parent(self, parent: LiveRun | None, child: LiveRun) -> None:
        """Drives a child; a parent that was woken for it follows it again."""
        self._live_runs.drive(child)
        if parent is not None:
            self._effect_runner.follow_child(parent, key_of(child.id))

    async def _wake_parent(self, child: LiveRun) -> LiveRun | None:
        """Wakes the parent of a child that rests, the root first: `ParentIsOver` if it has ended."""
        parent_id = parent_of(child.id)
        if not parent_id or child.run.state.status is not RunStatus.PAUSED:
            return None
        async with self._live_runs.run_lock(parent_id):
            parent = await self._live_runs.get_or_claim(parent_id)
            if parent.run.state.status in OVER:
                await self._live_runs.release_if_idle(parent)
                raise ParentIsOver(child.id, parent_id)
            await self._resume_parent(parent, child)
        return parent

    async def _resume_parent(self, parent: LiveRun, child: LiveRun) -> None:
        above = await self._wake_parent(parent)
        async with parent.lock:
            await self.redo_outstanding_effects(parent)
        if any(wait.child == key_of(child.id) for wait in parent.run.state.waits):
            async with parent.lock:
                await self._committer.commit_event(parent, ChildContinues(call=key_of(child.id)))
        self.drive_with_parent(above, parent)
