"""Deadlines of questions to people, in wall-clock time: they hold also for a run that no process drives.

Rule 1: the engine knows how long a question may be open, the journal since when it is open.
Rule 2: a process that claims a run checks its deadlines first. A leader looks for questions of all runs whose deadline
has passed (`deadline_sweeper`). Where the process that asked still lives, an alarm is more exact.
"""

import logging

from interlock.engine.effects import SetAlarm
from interlock.engine.events import InputExpired
from interlock.engine.state import Wait
from interlock.errors import HostLacks, PortError, RunError
from interlock.ports import Clock
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.lifecycle.tracked_tasks import TrackedTasks
from interlock.runtime.live_runs import LiveRun, LiveRuns
from interlock.runtime.store_retry import retry_while_store_away
from interlock.runtime.timers import Timers

_log = logging.getLogger("interlock")


class QuestionDeadlines:
    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        tasks: TrackedTasks,
        live_runs: LiveRuns,
        committer: Committer,
        resumption: Resumption,
    ) -> None:
        self._clock, self._timers, self._tasks = clock, timers, tasks
        self._live_runs, self._committer, self._resumption = live_runs, committer, resumption

    def set_alarm(self, live: LiveRun, effect: SetAlarm) -> None:
        """Sets an alarm; it also rings if the run was released meanwhile."""
        run_id = live.id
        left_ms = live.question_log.since(effect.token) + effect.duration_ms - self._clock.now_ms()
        self._timers.set(live.key(effect.key), max(0, left_ms), lambda: self._spawn_check(run_id))

    def _spawn_check(self, run_id: str) -> None:
        self._tasks.spawn(self._on_alarm(run_id))

    async def _on_alarm(self, run_id: str) -> None:
        try:
            await retry_while_store_away(self._clock, lambda: self.check_deadlines(run_id))
        except (RunError, PortError, HostLacks) as error:  # the present or the next owner of the run checks them
            _log.info("a deadline of run %s is not checked here: %s", run_id, error)

    async def check_deadlines(self, run_id: str) -> None:
        """Expires overdue questions, and sets an alarm for the others."""
        async with self._live_runs.run_lock(run_id):
            live = await self._live_runs.get_or_claim(run_id)
            async with live.lock:
                if await self.expire_overdue(live):
                    return
            for effect in live.run.outstanding_effects():
                if isinstance(effect, SetAlarm):
                    self.set_alarm(live, effect)
            await self._live_runs.release_if_idle(live)

    async def expire_overdue(self, live: LiveRun) -> list[Wait]:
        """Expires overdue questions; the run continues without answers. The caller holds `live.lock`."""
        now = self._clock.now_ms()
        questions = [wait for wait in live.run.state.waits if wait.deadline_ms]
        late = [wait for wait in questions if live.question_log.since(wait.id) + wait.deadline_ms <= now]
        if not late:
            return []
        parent = await self._resumption.wake_for_input(live)
        for wait in late:
            await self._committer.commit_event(live, InputExpired(token=wait.id))
        self._resumption.drive_with_parent(parent, live)
        return late
