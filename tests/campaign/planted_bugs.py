"""Bugs that a campaign must find, put into the process that is killed; each breaks one promise."""

import asyncio
from collections.abc import Sequence
from typing import Any

from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.engine.effects import Effect
from interlock.engine.events import IncomingEvent
from interlock.engine.run import Run, Step
from interlock.ports import NO_CREW, NO_WRITES, AppendResult, AtomicWrites, Record, RunRow
from interlock.runtime.broadcasts import NO_CLAIMED_INBOXES
from interlock.runtime.calls.effects import NO_GRANTS, EffectRunner
from interlock.runtime.commit import Committer, _is_one_call
from interlock.runtime.live_run import LiveRun


def acknowledges_before_the_commit() -> None:
    append, under_way = SqliteStore.append, []

    async def hasty(self: SqliteStore, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        under_way.append(asyncio.ensure_future(append(self, row, record, also)))
        return AppendResult(0)

    SqliteStore.append = hasty  # type: ignore[method-assign]


def acts_before_it_stores() -> None:
    apply, alongside, perform = Run.apply, Committer._atomic_writes, EffectRunner.run_effects
    append = SqliteStore.append
    steps: dict[Run, Step] = {}

    def noting(self: Run, event: IncomingEvent) -> Step:
        steps[self] = apply(self, event)
        return steps[self]

    def early(self: Committer, live: LiveRun, effects: Sequence[Effect], at: int) -> AtomicWrites:
        perform(self._effect_runner, live, effects)
        return alongside(self, live, effects, at)

    async def late(self: SqliteStore, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES) -> AppendResult:
        await asyncio.sleep(0.005)
        return await append(self, row, record, also)

    def once(
        self: EffectRunner,
        live: LiveRun,
        effects: Sequence[Effect],
        grants: Any = NO_GRANTS,
        claimed: Any = NO_CLAIMED_INBOXES,
    ) -> None:
        if effects is not steps[live.run].effects or _is_one_call(effects):
            perform(self, live, effects, grants, claimed)

    Run.apply = noting  # type: ignore[method-assign]
    Committer._atomic_writes = early  # type: ignore[method-assign]
    SqliteStore.append = late  # type: ignore[method-assign]
    EffectRunner.run_effects = once  # type: ignore[method-assign]


def pays_again() -> None:
    """Every tool is taken for an idempotent one."""
    PythonToolbox.is_idempotent = lambda self, name, crew=NO_CREW: True  # type: ignore[method-assign]


def asks_again() -> None:
    """A question that is open already is not thought of when a run is recovered."""
    outstanding = Run.outstanding_effects

    def forgetful(self: Run) -> tuple[Effect, ...]:
        waits, self.state.waits = self.state.waits, []
        try:
            return outstanding(self)
        finally:
            self.state.waits = waits

    Run.outstanding_effects = forgetful  # type: ignore[method-assign]


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
