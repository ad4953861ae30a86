"""Cancelling a run. It needs no model and no tool, so any process may do it; a child's caller continues, which may."""

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import CancelRequested
from interlock.engine.run import OVER
from interlock.ids import parent_of
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.answers import Answers
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRuns


class Cancellation:
    def __init__(self, live_runs: LiveRuns, committer: Committer, resumption: Resumption, answers: Answers) -> None:
        self._live_runs, self._committer = live_runs, committer
        self._resumption, self._answers = resumption, answers

    async def cancel(self, crew: CrewDefinition, run_id: str, by: str, order: str) -> None:
        claim = self._live_runs.get_or_claim if parent_of(run_id) else self._live_runs.get_or_claim_to_end
        async with self._live_runs.run_lock(run_id):
            live = await claim(run_id, crew)
            await self._answers.require_open(order, live)
            if await self._resumption.continue_if_ending(live):
                return
            async with live.lock:
                parent = await self._resumption.wake_parent_or_release(live)
                if live.run.state.status not in OVER:
                    self._resumption.retry_child_cancellations(live)
                    await self._committer.commit_event(live, CancelRequested(by=as_storable(by)), order=order)
            self._resumption.drive_with_parent(parent, live)
