"""Answers to the waits of a run, its own and those of the runs below it.

Rule 1: an answer goes to the run that asked; its token names that run.
Rule 2: a late answer is refused, and the run continues without it.
"""

from interlock.approvals.answers import asks_to_hold
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import HookVerdict, RunResumed
from interlock.engine.kinds import HookPoint, WaitKind
from interlock.engine.state import RunState, Wait
from interlock.engine.turns.hook_questions import sentence_of
from interlock.errors import AlreadyResumed, InputRefused, NotWaiting, OrderCarriedOut, TakesNoInput, TooLate
from interlock.ids import is_below, root_of, run_of
from interlock.ports import Journal, Orders
from interlock.runtime.calls.hook_checks import judge_input
from interlock.runtime.calls.host_hooks import HostHooks
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.commit import Committer
from interlock.runtime.lifecycle.deadlines import QuestionDeadlines
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.live_runs import LiveRun, LiveRuns
from interlock.runtime.orders import GivenAnswer
from interlock.runtime.stored_crews import StoredCrews

# Waits that are answered by a decision, and not by words for an agent.
_DECISIONS = (WaitKind.APPROVAL, WaitKind.HOOK, WaitKind.UNKNOWN_OUTCOME)

# What follows where a decision is not made in time.
_AFTER_DEADLINE = {WaitKind.APPROVAL: "the call is denied", WaitKind.HOOK: "that is a no"}


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
        host_hooks: HostHooks,
    ) -> None:
        self._host_hooks = host_hooks
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

    async def _text_let_in(self, live: LiveRun, wait: Wait, text: str) -> str:
        """The answer as the hooks of the host let it in; `InputRefused` if one refuses it, fails, or asks.

        No person is asked about an answer: the run waits for one already.

        A decision, such as yes to an approval, does not become anyone's words, and is not shown to hooks.
        """
        if not text or wait.kind in _DECISIONS or not self._host_hooks.has(HookPoint.ON_INPUT):
            return text
        text, verdict = await judge_input(self._host_hooks, text)
        if verdict is not None and (why := _why_not_taken(verdict)):
            await self._live_runs.release_if_idle(live)
            raise InputRefused(live.id, why)
        return text

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
                    raise await self._refusal_for(live, token, text)
                wait = next(wait for wait in live.run.state.waits if wait.token == token)
                text = await self._text_let_in(live, wait, text)
                parent = await self._resumption.wake_for_input(live)
                may_hold = answer.may_hold and asks_to_hold(text)
                resumed = RunResumed(token=token, input=as_storable(text), by=as_storable(answer.by), may_hold=may_hold)
                await self._committer.commit_event(live, resumed, order=order)
            self._resumption.drive_with_parent(parent, live)
        return None

    async def _refusal_for(self, live: LiveRun, token: str | None, text: str) -> Exception:
        answered = live.run.state.answered
        if token in answered:
            return AlreadyResumed(live.id, token, same=await self._is_same_answer(answered[token], text))
        waits = [wait.token for wait in live.run.state.waits]
        return TakesNoInput(live.id) if live.run.state.parked and not waits else NotWaiting(live.id, token, waits)

    async def _is_same_answer(self, kept: str, text: str) -> bool:
        """Whether it is what was answered before, as it was given or as a hook of the host made it."""
        if kept == as_storable(text) or not self._host_hooks.has(HookPoint.ON_INPUT):
            return kept == as_storable(text)
        return kept == (await judge_input(self._host_hooks, text))[0]

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


def _why_not_taken(verdict: HookVerdict) -> str:
    """Why the hooks do not let an answer in; empty if they do."""
    if (stop := verdict.stopping_decision) is not None:
        return sentence_of(stop)
    if (asks := verdict.asking_decision) is not None:
        return f"hook '{asks.hook}' asks about it ('{asks.reason}'), and no person is asked about an answer"
    return ""


def _too_late_error(run_id: str, wait: Wait, text: str) -> TooLate:
    return TooLate(
        run_id,
        wait.token,
        wait.question,
        wait.default,
        was_answered=bool(text),
        instead=_AFTER_DEADLINE.get(wait.kind, ""),
    )


def _is_continue_only(state: RunState, token: str | None, text: str) -> bool:
    """True if a parked run is asked to continue, without an answer."""
    return bool(state.parked) and not text and token in (None, state.parked)
