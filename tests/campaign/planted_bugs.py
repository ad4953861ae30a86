"""Bugs that a campaign must find, put into the process that is killed; each breaks one promise."""

import asyncio
from collections.abc import Sequence
from typing import Any

from interlock.adapters.store_sqlite import SqliteStore
from interlock.adapters.tools_python import PythonToolbox
from interlock.engine.effects import Effect
from interlock.engine.events import IncomingEvent
from interlock.engine.step import Run, Step
from interlock.ports import Record, RunRow
from interlock.runtime.live import LiveRun
from interlock.runtime.performing import Performer
from interlock.runtime.runner import Runner


def acknowledges_before_the_commit() -> None:
    append, under_way = SqliteStore.append, []

    async def hasty(self: SqliteStore, row: RunRow, record: Record) -> int:
        under_way.append(asyncio.ensure_future(append(self, row, record)))
        return 0

    SqliteStore.append = hasty  # type: ignore[method-assign]


def acts_before_it_stores() -> None:
    apply, stored, perform = Run.apply, Runner._stored, Performer.perform
    steps: dict[Run, Step] = {}

    def noting(self: Run, event: IncomingEvent) -> Step:
        steps[self] = apply(self, event)
        return steps[self]

    async def late(self: Runner, live: LiveRun, record: Record, **how: Any) -> int:
        perform(self.performer, live, steps[live.run].effects)
        await asyncio.sleep(0.005)
        return await stored(self, live, record, **how)

    def once(self: Performer, live: LiveRun, effects: Sequence[Effect]) -> None:
        if effects is not steps[live.run].effects:
            perform(self, live, effects)

    Run.apply = noting  # type: ignore[method-assign]
    Runner._stored = late  # type: ignore[method-assign]
    Performer.perform = once  # type: ignore[method-assign]


def pays_again() -> None:
    """Every tool is taken for an idempotent one."""
    PythonToolbox.is_idempotent = lambda self, name: True  # type: ignore[method-assign]


def asks_again() -> None:
    """A question that is open already is not thought of when a run is recovered."""
    outstanding = Run.outstanding

    def forgetful(self: Run) -> tuple[Effect, ...]:
        waits, self.state.waits = self.state.waits, []
        try:
            return outstanding(self)
        finally:
            self.state.waits = waits

    Run.outstanding = forgetful  # type: ignore[method-assign]


# Each with a word of what the judge says about it. A question asked twice cannot be answered twice: the life fails.
BUGS = {
    bug.__name__: (bug, complaint)
    for bug, complaint in (
        (acknowledges_before_the_commit, "it is gone"),
        (acts_before_it_stores, "payments made more than once"),
        (pays_again, "payments made more than once"),
        (asks_again, "exit codes"),
    )
}
