"""What follows where a hook of the host refuses, fails, or asks a person.

Rule 1: what is refused outside of a tool call fails its turn; a hook that failed ends the run.
Rule 2: a person answers yes or no. The deadline of the question says no.
"""

from interlock.engine.delegation.agent_states import agent_state_of, set_agent_state
from interlock.engine.effects import SetAlarm
from interlock.engine.events import HookDecision, HookOutcome, HookVerdict, InputRequested
from interlock.engine.kinds import RunStatus, WaitKind
from interlock.engine.stages import FinishRun, Stage
from interlock.engine.state import Turn, Wait
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import fail_turn
from interlock.messages.states import AgentState, Cause

HOOK = str(WaitKind.HOOK)
HOOK_FAILED = "hook_failed"
# What was said to a model, or to the run; and what a model, or the run, said.
REFUSED_INPUT, REFUSED_OUTPUT = "refused:input", "refused:output"

EXPECTS = "yes or no"


def ask_for_hook(
    t: Transition, verdict: HookVerdict, agent: str, *, turn: int = 0, tool: str = "", target: str = ""
) -> None:
    """Opens a wait for the question of a hook."""
    wait = Wait(token=t.new_token(), reason=HOOK, agent=agent, turn=turn, tool=tool, target=target, point=verdict.point)
    wait.question, wait.deadline_ms = verdict.question, verdict.deadline_ms
    open_hook_wait(t, wait)


def open_hook_wait(t: Transition, wait: Wait, fault: str = "") -> None:
    """Asks, or asks again under a new token; its first token stays its name, and its deadline stays where it was."""
    t.state.waits.append(wait)
    if wait.deadline_ms and not wait.alarm:
        wait.alarm = t.new_key()
        t.emit(SetAlarm(key=wait.alarm, token=wait.id, duration_ms=wait.deadline_ms))
    if wait.turn and agent_state_of(t, wait.agent) is AgentState.EXECUTING:
        set_agent_state(t, wait.agent, Cause.REQUEST_USER_INPUT)
    question = f"{wait.question}\n({fault})" if fault else wait.question
    t.record(
        InputRequested(
            agent=wait.agent,
            question=question,
            token=wait.token,
            expects=EXPECTS,
            deadline_ms=wait.deadline_ms,
            again_of=wait.again_of,
        )
    )


def stop_turn(t: Transition, turn: Turn, by: HookDecision, reason: str) -> Stage:
    """The stage after a hook refused a turn its input or its reply, or failed."""
    end = end_by_hook(by, reason)
    return end if by.outcome is HookOutcome.FAILED else fail_turn(t, turn, end.detail, end)


def end_by_hook(by: HookDecision, reason: str) -> FinishRun:
    """The end of a run that a hook refused to continue, or that a hook failed."""
    is_failure = by.outcome is HookOutcome.FAILED
    return FinishRun(RunStatus.FAILED, HOOK_FAILED if is_failure else reason, detail=sentence_of(by))


def sentence_of(by: HookDecision) -> str:
    """What a hook did, for people and models."""
    verb = "failed" if by.outcome is HookOutcome.FAILED else "refused"
    return f"hook '{by.hook}' {verb}: {by.reason}" if by.reason else f"hook '{by.hook}' {verb}"
