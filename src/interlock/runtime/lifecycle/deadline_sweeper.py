"""Expires questions whose deadline has passed, also of paused runs whose process is gone. One leader does it for all.

Rule 1: a run that another process drives, or is to drive, gets an order, whose key follows from the question: posting
it again changes nothing. A run that no process drives, and that this one may take, is claimed here.
Rule 2: a question whose run cannot be claimed here, or got an order, stays open for another process, and is left alone
for a minute. However many there are, they do not keep the leader from the others.
"""

import logging
from collections.abc import Sequence

from interlock.errors import HostLacks, PortError, RunError, StoreBroken, UsageError
from interlock.ids import root_of
from interlock.ports import Clock, Journal, Leadership, OpenQuestion, Orders, Owners, Questions, RunOrder
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.lifecycle.deadlines import QuestionDeadlines
from interlock.runtime.lifecycle.set_asides import SetAsideList
from interlock.runtime.live_runs import LiveRuns
from interlock.runtime.orders import EXPIRE

# How often the leader looks, and how many questions it reads at once.
SWEEP_MS = 1_000
BATCH_MAX = 200

# How long a question is left alone after it could not be expired here.
LEFT_ALONE_MS = 60_000

_log = logging.getLogger("interlock")


class DeadlineSweeper:
    def __init__(
        self,
        *,
        questions: Questions,
        orders: Orders,
        owners: Owners,
        live_runs: LiveRuns,
        deadlines: QuestionDeadlines,
        asides: SetAsideList,
        clock: Clock,
        journal: Journal,
        work: WorkSettings,
    ) -> None:
        self._journal, self._work = journal, work
        self._questions, self._orders, self._owners = questions, orders, owners
        self._live_runs, self._deadlines, self._asides, self._clock = live_runs, deadlines, asides, clock
        self._left_alone: dict[str, int] = {}  # tokens of questions, and until when

    async def run(self, held: Leadership) -> None:
        """Sweeps while this process leads."""
        while held.is_held():
            try:
                await self.sweep()
            except StoreBroken:
                raise
            except PortError as error:
                _log.warning("deadlines of questions cannot be read now: %s", error)
            await self._clock.sleep_until(self._clock.monotonic_ms() + SWEEP_MS)

    async def sweep(self) -> None:
        """Expires what is overdue now."""
        now = self._clock.monotonic_ms()
        self._left_alone = {token: until for token, until in self._left_alone.items() if until > now}
        most = BATCH_MAX + len(self._left_alone)
        by_run: dict[str, list[OpenQuestion]] = {}
        for question in await self._questions.overdue_questions(self._clock.now_ms(), most):
            if question.token not in self._left_alone:
                by_run.setdefault(question.run, []).append(question)
        for overdue in by_run.values():
            await self._expire_or_leave_alone(overdue)

    async def _expire_or_leave_alone(self, overdue: Sequence[OpenQuestion]) -> None:
        """Expires the overdue questions of one run."""
        run = overdue[0].run
        try:
            if not await self._is_for_others(run):
                await self._deadlines.check_deadlines(run)
                return
            key = f"expire {overdue[-1].token}"
            await self._orders.post(RunOrder(key=key, run=run, kind=EXPIRE, at=self._clock.now_ms()))
        except HostLacks as error:  # its questions stay open for a process that can drive it
            await self._asides.add(root_of(run), str(error))
        except (RunError, PortError, UsageError) as error:
            _log.info("a deadline of run %s is not checked here: %s", run, error)
        except Exception:  # a crew of a newer version, a journal that cannot be replayed: the others must not wait
            _log.exception("a deadline of run %s cannot be checked here", run)
        until = self._clock.monotonic_ms() + LEFT_ALONE_MS
        self._left_alone.update((question.token, until) for question in overdue)

    async def _is_for_others(self, run: str) -> bool:
        root = root_of(run)
        if self._live_runs.has_claimed(run) or self._live_runs.has_claimed(root):
            return False
        if not self._work.may_take(await self._journal.row(root)):
            return True
        return await self._owners.is_owned(run) or (root != run and await self._owners.is_owned(root))
