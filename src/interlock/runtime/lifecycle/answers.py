"""Answers to the waits of a run, its own and those of the runs below it.

Rule 1: an answer goes to the run that asked; its token names that run.
Rule 2: a late answer is refused, and the run continues without it.
"""

from interlock.approvals.answers import asks_to_hold
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import RunResumed
from interlock.engine.state import RunState, Wait
from interlock.errors import AlreadyResumed, NotWaiting, OrderCarriedOut, TakesNoInput, TooLate
from interlock.ids import is_below, root_of, run_of
from interlock.ports import Journal, Orders
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.deadlines import QuestionDeadlines
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRun, LiveRuns
from interlock.runtime.orders import GivenAnswer
from interlock.runtime.stored_crews import StoredCrews


class Answers:
    def __init__(
        self,
        *,
        journal: Journal,
        orders: Orders,
        crews: StoredCrews,
        live_runs: LiveRuns,
        committer: Committer,
        resumption: Resumption,
        deadlines: QuestionDeadlines,
    ) -> None:
        self._journal, self._orders, self._crews = journal, orders, crews
        self._live_runs, self._committer = live_runs, committer
        self._resumption, self._deadlines = resumption, deadlines

    async def resume(
        self, crew: CrewDefinition, run_id: str, answer: GivenAnswer, continues_parked: bool, order: str
    ) -> None:
        try:
            await self._answer(crew, run_id, answer, order)
        except TooLate:  # the answer is not used, and the run continues all the same
            await self._continue_parked(root_of(run_id), continues_parked, answer.by)
            raise
        await self._continue_parked(root_of(run_id), continues_parked, answer.by)

    async def _answer(self, crew: CrewDefinition, run_id: str, answer: GivenAnswer, order: str) -> None:
        token = answer.token
        if token is None or not is_below(run_of(token), run_id):
            token = await self._answer_here(crew, run_id, answer, order)
        if token is not None:
            child = await self._journal.row(run_of(token))
            await self._answer(await self._crews.of(child.crew_sha), child.run, answer._replace(token=token), order)

    async def _answer_here(self, crew: CrewDefinition, run_id: str, answer: GivenAnswer, order: str) -> str | None:
        """Answers a wait of the run itself; if the only open one is a child's, returns its token."""
        token, text = answer.token, answer.text
        runs = self._live_runs
        async with runs.run_lock(run_id):
            live = await runs.get_or_claim(run_id, crew)
            async with live.lock:
                await self.require_open(order, live)
                late = await self._deadlines.expire_overdue(live)
                if late and token in (None, *(wait.token for wait in late)):
                    raise _too_late_error(run_id, late[0], text)
                if _is_continue_only(live.run.state, token, text):
                    await runs.release_if_idle(live)
                    return None
                waits = [wait.token for wait in live.run.state.waits]
                if token is None and len(waits) == 1:
                    token = waits[0]
                if token is not None and token in waits and is_below(run_of(token), run_id):
                    await runs.release_if_idle(live)
                    return token
                if token not in waits:
                    await runs.release_if_idle(live)
                    raise _refusal_for(live, token, text)
                parent = await self._resumption.wake_for_input(live)
                may_hold = answer.may_hold and asks_to_hold(text)
                resumed = RunResumed(token=token, input=as_storable(text), by=as_storable(answer.by), may_hold=may_hold)
                await self._committer.commit_event(live, resumed, order=order)
            self._resumption.drive_with_parent(parent, live)
        return None

    async def _continue_parked(self, run_id: str, is_wanted: bool, by: str) -> None:
        if not is_wanted:
            return
        async with self._live_runs.run_lock(run_id):
            live = await self._live_runs.get_or_claim(run_id)
            if live.run.state.parked:
                await self._resumption.unpark(live, by)
            else:
                await self._live_runs.release_if_idle(live)

    async def require_open(self, order: str, live: LiveRun) -> None:
        """`OrderCarriedOut` if the order has an outcome. This process owns the run: no other can carry it out now."""
        if order and await self._orders.outcome(order) is not None:
            await self._live_runs.release_if_idle(live)
            raise OrderCarriedOut(live.id, order)


def _too_late_error(run_id: str, wait: Wait, text: str) -> TooLate:
    return TooLate(run_id, wait.token, wait.question, wait.default, was_answered=bool(text))


def _is_continue_only(state: RunState, token: str | None, text: str) -> bool:
    """True if a parked run is asked to continue, without an answer."""
    return bool(state.parked) and not text and token in (None, state.parked)


def _refusal_for(live: LiveRun, token: str | None, text: str) -> Exception:
    answered = live.run.state.answered
    if token in answered:
        return AlreadyResumed(live.id, token, same=answered[token] == as_storable(text))
    waits = [wait.token for wait in live.run.state.waits]
    return TakesNoInput(live.id) if live.run.state.parked and not waits else NotWaiting(live.id, token, waits)
