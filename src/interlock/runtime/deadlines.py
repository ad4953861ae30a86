"""Deadlines of questions to people, in everybody's time: a run that nobody works on keeps them too.

Rule 1: the engine knows how long a question may be open, the journal since when it is; together they are a moment.
Rule 2: whoever takes up a run looks at its deadlines first. In a process that stays, an alarm does.
"""

import logging
from typing import TYPE_CHECKING

from interlock.engine.effects import SetAlarm
from interlock.engine.events import InputExpired
from interlock.engine.state import Wait
from interlock.errors import PortError, RunError
from interlock.runtime.holding import while_away
from interlock.runtime.live import LiveRun

if TYPE_CHECKING:
    from interlock.runtime.runner import Runner

_log = logging.getLogger("interlock")


class Deadlines:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner

    def set(self, live: LiveRun, effect: SetAlarm) -> None:
        """It rings whether or not the run is in anybody's hands by then."""
        runner, run_id = self._runner, live.id
        left_ms = live.asked.since(effect.token) + effect.duration_ms - runner.clock.now_ms()
        ring = self._rung
        runner.timers.set(live.key(effect.key), max(0, left_ms), lambda: runner.sees_through(ring(run_id)))

    async def _rung(self, run_id: str) -> None:
        try:
            await while_away(self._runner.clock, lambda: self.remind(run_id))
        except (RunError, PortError) as error:  # whoever has the run by now keeps its deadlines
            _log.info("a deadline of run %s is not kept here: %s", run_id, error)

    async def remind(self, run_id: str) -> None:
        """What is overdue goes on without an answer; for the rest an alarm is set."""
        runner = self._runner
        async with runner.taking(run_id):
            live = runner.live.get(run_id) or await runner.taken(run_id)
            async with live.lock:
                if await self.keep(live):
                    return
            for effect in live.run.outstanding():
                if isinstance(effect, SetAlarm):
                    self.set(live, effect)
            await runner.let_go_unless_driven(live)

    async def keep(self, live: LiveRun) -> list[Wait]:
        """The questions that were overdue; then the run goes on without answers. Whoever asks has its lock."""
        runner, now = self._runner, self._runner.clock.now_ms()
        questions = [wait for wait in live.run.state.waits if wait.deadline_ms]
        late = [wait for wait in questions if live.asked.since(wait.message) + wait.deadline_ms <= now]
        if not late:
            return []
        parent = await runner.woken_parent_or_let_go(live)
        await runner.park_with_parent(parent, live)
        runner.do_again_what_is_owed(live)
        for wait in late:
            await runner.transit(live, InputExpired(token=wait.message))
        runner.goes_on_for(parent, live)
        return late
