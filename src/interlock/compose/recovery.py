"""Recovers every run whose owner is gone.

Rule 1: a run that this process cannot drive is set aside with the reason; the other runs continue. Where its journal
can be written, its status is `paused` with the reason `set_aside` from then on, so that every process sees it. Recovery
tries it again.
Rule 2: a run that another process drives, or that is deleted meanwhile, is left alone.
Rule 3: a run that cannot be recovered because the store is unavailable is tried again later, and not set aside.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from interlock.compose.preflight import Preflight
from interlock.compose.questions import QuestionStore, runs_with_deadlines
from interlock.compose.results import SetAsideRun
from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import PARKED, SET_ASIDE
from interlock.errors import HostLacks, InterlockError, OwnedElsewhere, RunNotFound, StoreFailed
from interlock.ids import root_of
from interlock.ports import Journal, RunRow
from interlock.runtime.runner import Runner
from interlock.runtime.store_retry import retry_while_store_away

# Runs recovered in parallel: enough for their claims to share commits, few enough for their journals to fit in memory.
RECOVERIES_MAX = 200

Recover = Callable[[RunRow], Awaitable[None]]


class RunRecovery:
    """Recovers the runs of an open folder. `in_background` runs a task until the folder closes."""

    def __init__(
        self,
        runner: Runner,
        store: QuestionStore,
        preflight: Preflight,
        *,
        resume: Callable[[str], Awaitable[object]],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._runner, self._store, self._preflight = runner, store, preflight
        self._resume, self._in_background = resume, in_background

    async def recover_all(self) -> None:
        """Recovers all that crashed processes left: runs, deadlines of questions, pending signals."""
        self._record_set_aside(*await self._recover_each(self._resume_row, status="paused", reason=SET_ASIDE))
        self._record_set_aside(*await self._recover_each(self._recover_or_set_aside))
        await self._check_all_deadlines()
        await self._runner.resend_pending_signals()

    async def resume_parked(self) -> tuple[SetAsideRun, ...]:
        """Continues every parked run; returns those that this process cannot drive."""
        return await self._recover_each(self._resume_row, status="paused", reason=PARKED)

    async def recover_tree(self, run_id: str) -> None:
        """Recovers a run by its root: a child is driven together with its caller."""
        root = await self._runner.journal.row(root_of(run_id))
        await self._recover_run(await self._crew_of(root), root)

    async def _recover_each(self, recover: Recover, **which: str) -> tuple[SetAsideRun, ...]:
        def try_later(row: RunRow) -> None:
            self._in_background(self._recover_later(row, recover))

        return await recover_all(self._runner.journal, recover, try_later, **which)

    async def _recover_later(self, row: RunRow, recover: Recover) -> None:
        aside = await retry_while_store_away(self._runner.clock, lambda: try_recover(row, recover))
        if aside is not None:
            self._record_set_aside(aside)

    def _record_set_aside(self, *aside: SetAsideRun) -> None:
        for each in aside:
            self._runner.supervisor.record_set_aside(each.run, each.reason)

    async def _recover_or_set_aside(self, row: RunRow) -> None:
        crew = await self._crew_of(row)
        try:
            await self._preflight.require_runnable(crew, row, self._runner.journal)
        except InterlockError as hindrance:
            await self._runner.set_aside(row.run, str(hindrance))
            raise
        await self._recover_run(crew, row)

    async def _recover_run(self, crew: CrewDefinition, row: RunRow) -> None:
        await self._preflight.require_runnable(crew, row, self._runner.journal)
        try:
            await self._runner.recover(crew, row.run)
        except Exception:
            await self._runner.owners.release(row.run)  # another process may be able to drive it
            raise

    async def _resume_row(self, row: RunRow) -> None:
        await self._resume(row.run)

    async def _check_all_deadlines(self) -> None:
        """Restores the deadlines of open questions, also of runs that are paused."""
        for run_id in await runs_with_deadlines(self._store, self._crew_of):
            if run_id not in self._runner.live:
                with suppress(OwnedElsewhere, RunNotFound):
                    await self._check_deadlines(run_id)

    async def _check_deadlines(self, run_id: str) -> None:
        try:
            await self._runner.deadlines.check_deadlines(run_id)
        except HostLacks as error:  # its questions stay open for a process that can drive it
            self._runner.supervisor.record_set_aside(root_of(run_id), str(error))

    async def _crew_of(self, row: RunRow) -> CrewDefinition:
        return await self._runner.crews.of(row.crew_sha)


async def recover_all(
    journal: Journal,
    recover: Recover,
    try_later: Callable[[RunRow], None],
    *,
    status: str = "running",
    reason: str | None = None,
) -> tuple[SetAsideRun, ...]:
    """Recovers every run of a status, and of a reason if given; returns those that cannot be driven, newest first.

    `try_later` gets the runs that an unavailable store keeps from being recovered now.
    """
    aside: list[SetAsideRun] = []
    async for page in run_pages(journal, RECOVERIES_MAX, status=status, nested=False):
        wanted = [row for row in page if reason in (None, row.reason)]
        outcomes = await asyncio.gather(*(_recover_or_defer(row, recover, try_later) for row in wanted))
        aside += [outcome for outcome in outcomes if outcome is not None]
    return tuple(aside)


async def _recover_or_defer(row: RunRow, recover: Recover, try_later: Callable[[RunRow], None]) -> SetAsideRun | None:
    try:
        return await try_recover(row, recover)
    except StoreFailed:
        try_later(row)
        return None


async def try_recover(row: RunRow, recover: Recover) -> SetAsideRun | None:
    """Recovers one run; returns the reason if it cannot be driven. Raises if the store may be available later."""
    try:
        await recover(row)
    except (OwnedElsewhere, RunNotFound):
        return None
    except InterlockError as error:
        if isinstance(error, StoreFailed) and error.passes:
            raise
        return SetAsideRun(run=row.run, reason=str(error))
    except Exception as error:  # a journal that the engine cannot replay must not block the runs after it
        return SetAsideRun(run=row.run, reason=f"run '{row.run}' cannot be replayed: {type(error).__name__}: {error}")
    return None


async def run_pages(
    journal: Journal, size: int, *, status: str | None = None, crew: str | None = None, nested: bool | None = None
) -> AsyncIterator[Sequence[RunRow]]:
    """Rows of runs in pages, the newest first."""
    page = await journal.rows(status=status, crew=crew, limit=size, nested=nested)
    while page:
        yield page
        page = await journal.rows(status=status, crew=crew, limit=size, before=page[-1].run, nested=nested)
