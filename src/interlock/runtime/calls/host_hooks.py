"""Asks the hooks of the host, in their order, and turns their answers into one verdict.

Rule 1: each hook sees the replacement of the one before it. A refusal ends the questions; a hook that asks a person
does not, so that a later hook may still refuse.
Rule 2: a hook that raises, takes longer than the limit, or returns what cannot be used has failed, and fails closed.
Rule 3: each hook gets a copy of a call or an output. What it changes in place does not count, also for the next hook.
Rule 4: a plain hook runs in a thread of its own and an async one in the loop, so that neither holds up other runs.
"""

import asyncio
import copy
import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from interlock.engine.events import HookDecision, HookOutcome, HookVerdict
from interlock.engine.kinds import HookPoint
from interlock.ports.hooks import Ask, Hook, HookCall, Refuse, RunOutput
from interlock.runtime.calls.storable import as_storable

# How long a hook may take for one answer.
HOOK_SECONDS_MAX = 30.0

# A question of a hook may wait for a month, as one about a tool call may; 0 is no deadline.
HOOK_DEADLINE_SECONDS_MAX = 30 * 24 * 3600

T = TypeVar("T")

# Turns what a hook returned into the value to use; raises `TypeError` or `ValueError` with a sentence.
Accept = Callable[[Any, T], T]


class Judged(NamedTuple, Generic[T]):
    """The value to use, and the verdict; None if no hook had anything to say."""

    value: T
    verdict: HookVerdict | None = None
    keeps_original: bool = True


class HostHooks:
    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.names = tuple(hook.name for hook in hooks)
        self._by_point = {point: tuple(hook for hook in hooks if hasattr(hook, point)) for point in HookPoint}
        self.sees_replies = bool(self._by_point[HookPoint.AFTER_MODEL])
        # Calls that were given up and have not ended: a task without a reference may vanish.
        self._given_up: set[asyncio.Task[Any]] = set()

    def has(self, point: HookPoint) -> bool:
        return bool(self._by_point[point])

    async def judge(self, point: HookPoint, value: T, accept: Accept[T], about: Sequence[Any] = ()) -> Judged[T]:
        """Asks every hook at this point about a value; `about` are the arguments before it."""
        decisions: list[HookDecision] = []
        asked: list[Ask] = []
        keeps_original = True
        for hook in self._by_point[point]:
            shown = tuple(map(_copy_of, (*about, value)))
            outcome, decided = await self._ask_hook(hook, point, shown, lambda given: accept(given, value))  # noqa: B023
            if decided is not None:
                decisions.append(decided)
            if isinstance(outcome, Ask):
                asked.append(outcome)
            elif decided is not None and decided.outcome is HookOutcome.REPLACED:
                value = outcome
                keeps_original = keeps_original and getattr(hook, "keeps_original", True)
            elif decided is not None:
                break
        return Judged(value, _verdict(point, decisions, asked), keeps_original)

    async def _ask_hook(
        self, hook: Hook, point: HookPoint, arguments: tuple[Any, ...], accept: Callable[[Any], T]
    ) -> tuple[Any, HookDecision | None]:
        def decision(outcome: HookOutcome, reason: str = "") -> HookDecision:
            return HookDecision(hook=hook.name, outcome=outcome, reason=as_storable(reason))

        try:
            answer = await self._answer_of(getattr(hook, point), arguments)
            if answer is None:
                return None, None
            if isinstance(answer, Refuse):
                return answer, decision(HookOutcome.REFUSED, _text(answer.reason, "the reason of Refuse"))
            if isinstance(answer, Ask):
                return answer, decision(HookOutcome.ASKED, _question_of(answer))
            return accept(answer), decision(HookOutcome.REPLACED)
        except Exception as error:  # it raised, took too long, or returned what cannot be used
            return None, decision(HookOutcome.FAILED, str(error))

    async def _answer_of(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The answer of a hook; `_HookFailed` if it raises or takes too long."""
        task = asyncio.ensure_future(_call_guarded(method, arguments))
        try:
            done, _ = await asyncio.wait({task}, timeout=HOOK_SECONDS_MAX)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            self._given_up.add(task)
            task.add_done_callback(self._given_up.discard)
            raise _HookFailed(f"no answer within {HOOK_SECONDS_MAX:g} s")
        if task.cancelled():
            raise _HookFailed("it gave itself up")
        answered = task.result()
        if answered.fault is not None:
            raise _HookFailed(answered.fault)
        return answered.answer


class _Answered(NamedTuple):
    """What a hook answered, or why it did not. A fault is a value: a task that was given up has no reader."""

    answer: Any = None
    fault: str | None = None


class _HookFailed(Exception):
    """A hook did not answer."""


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, not {type(value).__name__}")
    return value


def _question_of(ask: Ask) -> str:
    """The question; raises if it is empty, or its deadline is not a time."""
    if not _text(ask.question, "the question of Ask").strip():
        raise ValueError("the question of Ask is empty")
    seconds = ask.deadline_seconds
    if type(seconds) not in (int, float) or not 0 <= seconds <= HOOK_DEADLINE_SECONDS_MAX:  # also refuses NaN
        raise ValueError(
            f"deadline_seconds of Ask is {seconds!r}; it must be a number from 0 (no deadline)"
            f" to {HOOK_DEADLINE_SECONDS_MAX}"
        )
    return ask.question


def _copy_of(value: Any) -> Any:
    """What one hook may change in place without another one seeing it."""
    return copy.deepcopy(value) if isinstance(value, HookCall | RunOutput) else value


def _verdict(point: HookPoint, decisions: Sequence[HookDecision], asked: Sequence[Ask]) -> HookVerdict | None:
    if not decisions:
        return None
    deadlines = [ask.deadline_seconds for ask in asked if ask.deadline_seconds > 0]
    return HookVerdict(
        point=str(point),
        decisions=tuple(decisions),
        question=as_storable("\n".join(ask.question for ask in asked)),
        deadline_ms=max(1, int(min(deadlines) * 1000)) if deadlines else 0,
    )


async def _call_guarded(method: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answered:
    try:
        if inspect.iscoroutinefunction(method):
            return _Answered(await method(*arguments))
        answered = await _call_in_thread(method, arguments)
        return _Answered(await answered.answer) if inspect.isawaitable(answered.answer) else answered
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # an exit that a hook raises must not end the process
        return _failure(error)


def _failure(error: BaseException) -> _Answered:
    return _Answered(fault=f"{type(error).__name__}: {error}")


async def _call_in_thread(method: Callable[..., Any], arguments: tuple[Any, ...]) -> _Answered:
    """Calls a plain hook in a thread of its own: one that hangs takes no thread from the others."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Answered] = loop.create_future()

    def settle(answered: _Answered) -> None:
        if not result.done():
            result.set_result(answered)

    def call() -> None:
        try:
            answered = _Answered(method(*arguments))
        except BaseException as error:  # in this thread an exit is an ordinary failure
            answered = _failure(error)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, answered)

    threading.Thread(target=call, name="interlock-hook", daemon=True).start()
    return await result
