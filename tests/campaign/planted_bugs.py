"""Bugs that a campaign must find, put into the process that is killed; each breaks one promise."""

import asyncio
from collections.abc import Sequence
from typing import Any

from interlock.adapters.store_sqlite import SqliteStore
from interlock.adapters.tools_python import PythonToolbox
from interlock.engine.effects import Effect
from interlock.engine.events import IncomingEvent
from interlock.engine.step import Run, Step
from interlock.ports import NOTHING_ELSE, Alongside, Appended, Record, RunRow
from interlock.runtime.live import LiveRun
from interlock.runtime.performing import NO_GRANTS, Performer
from interlock.runtime.runner import Runner, _is_one_call
from interlock.runtime.switchboard import NO_MAIL


def acknowledges_before_the_commit() -> None:
    append, under_way = SqliteStore.append, []

    async def hasty(self: SqliteStore, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        under_way.append(asyncio.ensure_future(append(self, row, record, also)))
        return Appended(0)

    SqliteStore.append = hasty  # type: ignore[method-assign]


def acts_before_it_stores() -> None:
    apply, alongside, perform = Run.apply, Runner._alongside, Performer.perform
    append = SqliteStore.append
    steps: dict[Run, Step] = {}

    def noting(self: Run, event: IncomingEvent) -> Step:
        steps[self] = apply(self, event)
        return steps[self]

    def early(self: Runner, live: LiveRun, effects: Sequence[Effect], at: int) -> Alongside:
        perform(self.performer, live, effects)
        return alongside(self, live, effects, at)

    async def late(self: SqliteStore, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        await asyncio.sleep(0.005)
        return await append(self, row, record, also)

    def once(
        self: Performer, live: LiveRun, effects: Sequence[Effect], grants: Any = NO_GRANTS, mail: Any = NO_MAIL
    ) -> None:
        if effects is not steps[live.run].effects or _is_one_call(effects):
            perform(self, live, effects, grants, mail)

    Run.apply = noting  # type: ignore[method-assign]
    Runner._alongside = early  # type: ignore[method-assign]
    SqliteStore.append = late  # type: ignore[method-assign]
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


# Each with a word of what the judge says about it.
BUGS = {
    bug.__name__: (bug, complaint)
    for bug, complaint in (
        (acknowledges_before_the_commit, "it is gone"),
        (acts_before_it_stores, "payments made more than once"),
        (pays_again, "payments made more than once"),
        (asks_again, "was asked for 2 times"),
    )
}
