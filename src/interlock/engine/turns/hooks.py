"""Hooks of the host: their decisions about calls, results, input and output.

Rule 1: the driver asks the hooks and reports their verdict; it is stored before the effect that it is about, and a
replay asks no hook.
Rule 2: a tool call that is refused is told to the model.
Rule 3: a person's yes to a question about a tool call is an approval of that call too.
Rule 4: what a tool wrote to the shared memory is seen only if its result is.
"""

import msgspec

from interlock.engine.budgets.spending import cancel_call_and_reservation
from interlock.engine.delegation.agent_states import agent_state_of, set_agent_state
from interlock.engine.events import HookDecision, HookOutcome, HooksDecided, HookVerdict, RunStarted
from interlock.engine.kinds import HookPoint, RunStatus
from interlock.engine.outputs.reply_value import read_value
from interlock.engine.stages import FinishRun, Stage, StartTurn
from interlock.engine.state import OpenTool, Turn, Wait
from interlock.engine.transition import Transition
from interlock.engine.turns.hook_questions import (
    REFUSED_INPUT,
    REFUSED_OUTPUT,
    ask_for_hook,
    end_by_hook,
    open_hook_wait,
    sentence_of,
    stop_turn,
)
from interlock.engine.turns.model_calls import fail_turn, repeat_call
from interlock.engine.turns.replies import take_reply
from interlock.engine.turns.tool_calls import find_open_tool, finish_tool, rerun_tool, store_memory_of_tool
from interlock.engine.turns.unanswered import record_tool_end
from interlock.messages.states import AgentState, Cause

YES, NO = ("yes", "y", "ok"), ("no", "n")


def on_hooks_decided(t: Transition, event: HooksDecided) -> Stage | None:
    match HookPoint(event.verdict.point):
        case HookPoint.BEFORE_TOOL:
            return _decide_about_tool(t, event)
        case HookPoint.BEFORE_MODEL:
            return _decide_about_call(t, event)
        case _:
            return _decide_about_output(t, event)


def start_after_input_hooks(t: Transition, event: RunStarted, agent: str) -> Stage | None:
    """Starts the first turn, unless a hook refused the input, failed, or asks a person about it."""
    verdict = event.verdict
    if verdict is None:
        return StartTurn(agent)
    if (stop := verdict.stopping_decision) is not None:
        return end_by_hook(stop, REFUSED_INPUT)
    if verdict.question:
        ask_for_hook(t, verdict, agent, target=agent)
        return None
    return StartTurn(agent)


def _decide_about_tool(t: Transition, event: HooksDecided) -> Stage | None:
    turn, tool = find_open_tool(t, event.call)
    verdict = event.verdict
    tool.hooked = True
    if verdict.replacement is not None:
        tool.edited, tool.replaced = "", verdict.replacement
    if (stop := verdict.stopping_decision) is not None:
        return _refuse_tool(t, turn, tool, sentence_of(stop))
    if verdict.question:
        ask_for_hook(t, verdict, turn.agent, turn=turn.number, tool=tool.key)
        return None
    rerun_tool(t, turn, tool)
    return None


def _refuse_tool(t: Transition, turn: Turn, tool: OpenTool, why: str) -> Stage | None:
    output = f"'{tool.request.name}' was not run: {why}"
    record_tool_end(t, tool, output)
    return finish_tool(t, turn, tool, f"error: {output}")


def _decide_about_call(t: Transition, event: HooksDecided) -> Stage | None:
    turn, verdict = t.turn_calling(event.call, event.agent), event.verdict
    assert turn is not None, "stale verdicts are rejected before"
    if (stop := verdict.stopping_decision) is not None:
        cancel_call_and_reservation(t, turn)
        return stop_turn(t, turn, stop, REFUSED_INPUT)
    turn.hooked, turn.replaced = True, verdict.replacement or ""
    if verdict.question:
        turn.call = ""  # nothing is called while a person decides
        ask_for_hook(t, verdict, turn.agent, turn=turn.number)
    else:
        repeat_call(t, turn)
    return None


def _decide_about_output(t: Transition, event: HooksDecided) -> Stage | None:
    ending, verdict = t.state.ending, event.verdict
    assert ending is not None, "stale verdicts are rejected before"
    if (stop := verdict.stopping_decision) is not None:
        t.state.output = ""  # what a hook refused, or could not look at, is not handed out
        return msgspec.structs.replace(end_by_hook(stop, REFUSED_OUTPUT), checked=True)
    if verdict.replacement is not None:
        t.state.output, t.state.value, t.state.value_text = verdict.replacement, msgspec.UNSET, ""
    if event.output is not None:
        if event.output.fault:
            t.state.output = ""
            return _fail_by_bad_output(verdict, event.output.fault)
        read = read_value(t.state.output, t.table.is_known_mark)
        t.state.value, t.state.value_text = read.value, read.text
    if verdict.question:
        t.state.ending = msgspec.structs.replace(ending, checking="")
        ask_for_hook(t, verdict, t.state.agent)
        return None
    return _end_as_planned(t)


def _fail_by_bad_output(verdict: HookVerdict, fault: str) -> FinishRun:
    """The end of a run whose value a hook replaced by one that is not valid: nothing is handed out."""
    replaced = next(each for each in reversed(verdict.decisions) if each.outcome is HookOutcome.REPLACED)
    reason = f"the output that it gave is not valid: {fault}"
    failed = HookDecision(hook=replaced.hook, outcome=HookOutcome.FAILED, reason=reason)
    return msgspec.structs.replace(end_by_hook(failed, REFUSED_OUTPUT), checked=True)


def _end_as_planned(t: Transition) -> FinishRun:
    ending = t.state.ending
    assert ending is not None, "the run was about to end"
    return FinishRun(ending.status, ending.reason, ending.above, ending.detail, checked=True)


def on_hook_answered(t: Transition, wait: Wait, answer: str) -> Stage | None:
    """Continues after a person's yes; after a no, what the hook asked about is refused."""
    word, _, reason = answer.strip().partition(":")
    if wait.again_of:
        t.state.asked[wait.again_of] = wait.token
    if word.strip().lower() in NO:
        return _refuse(t, wait, f"a person said no: {reason.strip()}" if reason.strip() else "a person said no")
    if word.strip().lower() not in YES or reason.strip():
        wait.again_of, wait.token = wait.id, t.new_token()
        open_hook_wait(t, wait, "please answer yes or no")
        return None
    t.cancel(wait.alarm)
    return _allow(t, wait)


def on_hook_expired(t: Transition, wait: Wait) -> Stage | None:
    """Refuses what the hook asked about, because its deadline has passed."""
    t.state.waits.remove(wait)
    t.mark_running()
    return _refuse(t, wait, f"no answer to '{wait.question}' within {wait.deadline_ms / 1000:g} s")


def _allow(t: Transition, wait: Wait) -> Stage | None:
    match HookPoint(wait.point):
        case HookPoint.ON_INPUT:
            return StartTurn(wait.target)
        case HookPoint.ON_OUTPUT:
            return _end_as_planned(t)
        case HookPoint.BEFORE_TOOL:
            turn, tool = find_open_tool(t, wait.tool)
            _resume_agent(t, turn)
            tool.approved = True
            rerun_tool(t, turn, tool)
            return None
        case HookPoint.AFTER_TOOL:
            turn, tool = find_open_tool(t, wait.tool)
            _resume_agent(t, turn)
            assert tool.held is not None, "its output is held while a person decides"
            held, written = tool.held, tool.held_memory
            tool.held, tool.held_memory = None, {}
            store_memory_of_tool(t, turn, written)
            return finish_tool(t, turn, tool, held)
        case HookPoint.BEFORE_MODEL:
            turn = _turn_of(t, wait)
            _resume_agent(t, turn)
            repeat_call(t, turn)
            return None
        case HookPoint.AFTER_MODEL:
            turn = _turn_of(t, wait)
            _resume_agent(t, turn)
            assert turn.held is not None, "its reply is held while a person decides"
            reply, turn.held = turn.held, None
            return take_reply(t, turn, reply)


def _refuse(t: Transition, wait: Wait, why: str) -> Stage | None:
    t.cancel(wait.alarm)
    match HookPoint(wait.point):
        case HookPoint.ON_INPUT:
            return FinishRun(RunStatus.FAILED, REFUSED_INPUT, detail=why)
        case HookPoint.ON_OUTPUT:
            t.state.output = ""
            return FinishRun(RunStatus.FAILED, REFUSED_OUTPUT, detail=why, checked=True)
        case HookPoint.BEFORE_TOOL:
            turn, tool = find_open_tool(t, wait.tool)
            _resume_agent(t, turn)
            return _refuse_tool(t, turn, tool, why)
        case HookPoint.AFTER_TOOL:
            turn, tool = find_open_tool(t, wait.tool)
            _resume_agent(t, turn)
            tool.held, tool.held_memory = None, {}
            return finish_tool(t, turn, tool, f"error: the result of '{tool.request.name}' is withheld: {why}")
        case HookPoint.BEFORE_MODEL:
            turn = _turn_of(t, wait)
            cancel_call_and_reservation(t, turn)
            return fail_turn(t, turn, why, FinishRun(RunStatus.FAILED, REFUSED_INPUT, detail=why))
        case HookPoint.AFTER_MODEL:
            turn = _turn_of(t, wait)
            turn.held = None
            return fail_turn(t, turn, why, FinishRun(RunStatus.FAILED, REFUSED_OUTPUT, detail=why))


def _turn_of(t: Transition, wait: Wait) -> Turn:
    return next(turn for turn in t.turns() if turn.number == wait.turn)


def _resume_agent(t: Transition, turn: Turn) -> None:
    """Sets the agent back to work, unless a person is still asked about something else of its turn."""
    others = any(wait.turn == turn.number for wait in t.state.waits)
    if agent_state_of(t, turn.agent) is AgentState.WAITING_FOR_USER and not others:
        set_agent_state(t, turn.agent, Cause.USER_RESPONSE)
