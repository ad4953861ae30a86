"""Recovers the runs that wait for a driver: their owner is gone, or they never had one.

Rule 1: a run that this process cannot drive is set aside with the reason; the other runs continue. Where its journal
can be written, its status is `paused` with the reason `set_aside` from then on. It is tried again later, here or by
another process (`SetAsides`).
Rule 2: a run that another process drives, or that is deleted meanwhile, is left alone.
Rule 3: a run that cannot be recovered because the store is unavailable is tried again later, and not set aside.
Rule 4: runs are claimed in batches, in turn by organization and crew. Private runs are never claimed so: a process
that recovers tries them by name, once, at its start.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, NamedTuple

from interlock.compose.preflight import Preflight
from interlock.compose.results import SetAsideRun
from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import PARKED, SET_ASIDE
from interlock.errors import InterlockError, OwnedElsewhere, RunNotFound, StoreFailed
from interlock.ids import root_of
from interlock.ports import Journal, Questions, Record, RunRow
from interlock.runtime.claiming.claim_loop import ClaimLoop
from interlock.runtime.lifecycle.deadline_sweeper import DeadlineSweeper
from interlock.runtime.runner import Runner
from interlock.runtime.store_retry import retry_while_store_away

# Runs recovered in parallel: enough for their claims to share commits, few enough for their journals to fit in memory.
RECOVERIES_MAX = 200

_log = logging.getLogger("interlock")

Recover = Callable[[RunRow], Awaitable[None]]


class RunsByName(NamedTuple):
    """Runs of a status and reason that are claimed one by one."""

    status: str
    reason: str | None = None
    only_private: bool = False

    def has(self, row: RunRow) -> bool:
        return self.reason in (None, row.reason) and (row.private or not self.only_private)


PARKED_RUNS = RunsByName("paused", PARKED)
PRIVATE_RUNNING = RunsByName("running", only_private=True)
PRIVATE_SET_ASIDE = RunsByName("paused", SET_ASIDE, only_private=True)


class RunRecovery:
    """Recovers the runs of an open folder. `in_background` runs a task until the folder closes."""

    def __init__(
        self,
        runner: Runner,
        questions: Questions,
        preflight: Preflight,
        *,
        resume: Callable[[str], Awaitable[object]],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._runner, self._preflight = runner, preflight
        self._resume, self._in_background = resume, in_background
        self.sweeper = DeadlineSweeper(
            questions=questions,
            orders=runner.orders,
            owners=runner.owners,
            live_runs=runner.live_runs,
            deadlines=runner.deadlines,
            asides=runner.set_asides,
            clock=runner.clock,
            journal=runner.journal,
            work=runner.work,
        )

    async def recover_all(self, claims: ClaimLoop, *, takes_private: bool) -> None:
        """Recovers all that crashed processes left, as far as there is room: runs, overdue questions, pending signals.

        Orders for runs that rest are carried out by this process from now on.
        """
        try:
            await claims.sweep_all()
        except StoreFailed as error:
            if not error.passes:
                raise
            _log.warning("no runs can be claimed now: %s", error)
        if takes_private:
            await self._store_set_asides(await self._recover_each(self._resume_row, PRIVATE_SET_ASIDE))
            await self._store_set_asides(await self._recover_each(self._recover_or_set_aside, PRIVATE_RUNNING))
        self._runner.order_taker.takes_unowned = True
        self._runner.order_taker.wake()
        await self.sweeper.sweep()
        await self._runner.external_sender.resend_pending()
        await self._runner.set_asides.refresh()

    async def recover_waiting(self, limit: int, **which: Collection[str] | None) -> Sequence[str]:
        """Claims up to so many runs that wait for a driver, and continues them; returns those that it claimed.

        `which` are the crews and organizations to choose from, all if not given. A run that this process cannot drive
        is set aside.
        """
        claimed = await self._runner.live_runs.claim_waiting(limit, **which)
        outcomes = await asyncio.gather(*(self._recover_or_defer_claimed(each.run) for each in claimed))
        await self._store_set_asides([outcome for outcome in outcomes if outcome is not None])
        return [each.run for each in claimed]

    async def _recover_or_defer_claimed(self, run_id: str) -> SetAsideRun | None:
        try:
            return await self._recover_claimed(run_id)
        except StoreFailed:
            self._in_background(self._recover_later(lambda: self._recover_claimed(run_id)))
            return None

    async def _recover_claimed(self, run_id: str) -> SetAsideRun | None:
        if self._runner.supervisor.is_deciding(run_id):  # its driver failed, and it is tried again in a moment
            return None
        aside = await try_recover(run_id, lambda: self._continue_claimed(run_id))
        await self._runner.live_runs.give_up_claim(run_id)
        return aside

    async def _continue_claimed(self, run_id: str) -> None:
        row, records = await self._runner.live_runs.read_claimed(run_id)
        if row.status == "paused":
            await self._resume_row(row)
        else:
            await self._recover_or_set_aside(row, records[0])

    async def resume_parked(self) -> tuple[SetAsideRun, ...]:
        """Continues every parked run; returns those that this process cannot drive."""
        return await self._recover_each(self._resume_row, PARKED_RUNS)

    async def recover_tree(self, run_id: str) -> None:
        """Recovers a run by its root: a child is driven together with its caller."""
        root = await self._runner.journal.row(root_of(run_id))
        crew = await self._crew_of(root)
        await self._preflight.require_runnable(crew, root, self._runner.journal)
        await self._recover_run(crew, root)

    async def _recover_each(self, recover: Recover, which: RunsByName) -> tuple[SetAsideRun, ...]:
        def try_later(row: RunRow) -> None:
            self._in_background(self._recover_later(lambda: try_recover(row.run, lambda: recover(row))))

        return await recover_all(self._runner.journal, recover, try_later, which)

    async def _recover_later(self, recover: Callable[[], Awaitable[SetAsideRun | None]]) -> None:
        aside = await retry_while_store_away(self._runner.clock, recover)
        if aside is not None:
            await self._store_set_asides([aside])

    async def _store_set_asides(self, aside: Sequence[SetAsideRun]) -> None:
        for each in aside:
            await self._runner.set_asides.add(each.run, each.reason)

    async def _recover_or_set_aside(self, row: RunRow, first: Record | None = None) -> None:
        """`first` is the first record of the run, if it was read already."""
        crew = await self._crew_of(row)
        try:
            if first is None:
                await self._preflight.require_runnable(crew, row, self._runner.journal)
            else:
                await self._preflight.require_for(crew, row, first)
        except InterlockError as hindrance:
            await self._runner.set_aside(row.run, str(hindrance))
            raise
        await self._recover_run(crew, row)

    async def _recover_run(self, crew: CrewDefinition, row: RunRow) -> None:
        """Continues a run that this process can drive."""
        try:
            await self._runner.recover(crew, row.run)
        except Exception:
            await self._runner.owners.release(row.run)  # another process may be able to drive it
            raise

    async def _resume_row(self, row: RunRow) -> None:
        await self._resume(row.run)

    async def _crew_of(self, row: RunRow) -> CrewDefinition:
        return await self._runner.crews.of(row.crew_sha)


async def recover_all(
    journal: Journal, recover: Recover, try_later: Callable[[RunRow], None], which: RunsByName
) -> tuple[SetAsideRun, ...]:
    """Recovers every run of a kind; returns those that cannot be driven, newest first.

    `try_later` gets the runs that an unavailable store keeps from being recovered now.
    """
    aside: list[SetAsideRun] = []
    async for page in run_pages(journal, RECOVERIES_MAX, status=which.status, nested=False):
        wanted = [row for row in page if which.has(row)]
        outcomes = await asyncio.gather(*(_recover_or_defer(row, recover, try_later) for row in wanted))
        aside += [outcome for outcome in outcomes if outcome is not None]
    return tuple(aside)


async def _recover_or_defer(row: RunRow, recover: Recover, try_later: Callable[[RunRow], None]) -> SetAsideRun | None:
    try:
        return await try_recover(row.run, lambda: recover(row))
    except StoreFailed:
        try_later(row)
        return None


async def try_recover(run_id: str, recover: Callable[[], Awaitable[None]]) -> SetAsideRun | None:
    """Recovers one run; returns the reason if it cannot be driven. Raises if the store may be available later."""
    try:
        await recover()
    except (OwnedElsewhere, RunNotFound):
        return None
    except InterlockError as error:
        if isinstance(error, StoreFailed) and error.passes:
            raise
        return SetAsideRun(run=run_id, reason=str(error))
    except Exception as error:  # a journal that the engine cannot replay must not block the runs after it
        return SetAsideRun(run=run_id, reason=f"run '{run_id}' cannot be replayed: {type(error).__name__}: {error}")
    return None


async def run_pages(
    journal: Journal, size: int, *, status: str | None = None, crew: str | None = None, nested: bool | None = None
) -> AsyncIterator[Sequence[RunRow]]:
    """Rows of runs in pages, the newest first."""
    page = await journal.rows(status=status, crew=crew, limit=size, nested=nested)
    while page:
        yield page
        page = await journal.rows(status=status, crew=crew, limit=size, before=page[-1].run, nested=nested)
