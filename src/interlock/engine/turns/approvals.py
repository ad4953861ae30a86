"""Approval of tools: the host decides, or a person. Interlock asks, whatever the model says.

Rule 1: what the host decided is an event (`tool.decided`), stored before the tool runs; a replay decides nothing.
Rule 2: a person answers yes, no, other arguments, or a yes that holds for later calls too.
Rule 3: journals of before there were terms replay as they were: an answer holds once, and there is no deadline.
"""

from interlock.approvals.answers import ApprovalAnswer, HoldsFor, fault_in_pattern, read_approval_answer
from interlock.approvals.rules import Verdict
from interlock.approvals.standing import approval_id
from interlock.engine.delegation.agent_states import agent_state_of, set_agent_state
from interlock.engine.effects import SetAlarm, StoreApproval
from interlock.engine.events import ApprovalGiven, ApprovalNeeded, InputRequested, RunResumed, ToolDecided
from interlock.engine.kinds import WaitKind
from interlock.engine.stages import Stage
from interlock.engine.state import OpenTool, Turn, Wait
from interlock.engine.transition import Transition
from interlock.engine.turns.tool_calls import find_open_tool, finish_tool, rerun_tool
from interlock.engine.turns.unanswered import record_tool_end
from interlock.messages.states import AgentState, Cause

APPROVAL = str(WaitKind.APPROVAL)

# The accepted answers, in words.
EXPECTS_ONCE = "yes, no, or a JSON object with the arguments to use instead"
EXPECTS = "yes, no, for this run, always, or a JSON object with the arguments to use instead"

NOT_UNDERSTOOD = "that was neither yes nor no nor a JSON object"
_MAY_NOT_HOLD = "an answer that holds for later calls needs a key with the scope 'approve'; answer yes or no"


def on_tool_decided(t: Transition, event: ToolDecided) -> Stage | None:
    """Runs the tool, or tells the model that the host denies the call."""
    turn, tool = find_open_tool(t, event.call)
    if event.verdict == Verdict.ALLOW:
        tool.approved = True
        rerun_tool(t, turn, tool)
        return None
    output = f"the rules of this host deny '{tool.request.name}' with these arguments (rule '{event.rule}')"
    return _end_without_running(t, turn, tool, output)


def on_approval_needed(t: Transition, event: ApprovalNeeded) -> Stage | None:
    turn, tool = find_open_tool(t, event.call)
    if agent_state_of(t, turn.agent) is AgentState.EXECUTING:
        set_agent_state(t, turn.agent, Cause.REQUEST_USER_INPUT)
    tool.approved, tool.edited = False, ""
    tool.terms = event.terms or tool.terms
    _ask_for_approval(t, turn, tool, event.fault)
    return None


def _ask_for_approval(t: Transition, turn: Turn, tool: OpenTool, fault: str = "", alarm: str = "") -> None:
    """Opens a wait under a new token; the first token stays the name of the question (rules 3)."""
    token, terms = t.new_token(), tool.terms
    again_of = tool.asked_as
    if t.state.rules >= 3:
        tool.asked_as = tool.asked_as or token
    question = approval_question(turn.agent, tool)
    wait = Wait(token=token, reason=APPROVAL, agent=turn.agent, turn=turn.number, tool=tool.key, again_of=again_of)
    if terms is not None:
        wait.question, wait.context, wait.deadline_ms, wait.alarm = question, terms.because, terms.deadline_ms, alarm
    t.state.waits.append(wait)
    if wait.deadline_ms and not wait.alarm:
        wait.alarm = t.new_key()
        t.emit(SetAlarm(key=wait.alarm, token=wait.id, duration_ms=wait.deadline_ms))
    t.record(
        InputRequested(
            agent=turn.agent,
            question=f"{question}\n({fault})" if fault else question,
            token=token,
            expects=EXPECTS_ONCE if terms is None else EXPECTS,
            deadline_ms=wait.deadline_ms,
            context=wait.context,
            again_of=again_of,
        )
    )


def approval_question(agent: str, tool: OpenTool) -> str:
    return f"{agent} wants to use {tool.request.name} with {tool.arguments or '{}'}"


def on_approval_given(t: Transition, wait: Wait, event: RunResumed) -> Stage | None:
    turn, tool = find_open_tool(t, wait.tool)
    if wait.again_of:
        t.state.asked[wait.again_of] = wait.token
    answer = read_approval_answer(event.input)
    if fault := _fault_in(answer, tool, event):
        _ask_for_approval(t, turn, tool, fault, wait.alarm)
        return None
    assert answer is not None, "an answer without a fault was understood"
    t.cancel(wait.alarm)
    _resume_agent(t, turn)
    if not answer.is_yes:
        why = f": {answer.reason}" if answer.reason else ""
        return _end_without_running(t, turn, tool, f"a person did not approve '{tool.request.name}'{why}")
    if answer.holds is not HoldsFor.ONCE:
        _store_approval(t, tool, answer, wait, event.by)
    tool.edited, tool.approved = answer.arguments, True
    tool.hooked = tool.hooked and not answer.arguments  # the hooks of the host have not seen these arguments
    rerun_tool(t, turn, tool)
    return None


def on_approval_expired(t: Transition, wait: Wait) -> Stage | None:
    """Denies a call that no person approved in time."""
    turn, tool = find_open_tool(t, wait.tool)
    t.state.waits.remove(wait)
    t.mark_running()
    _resume_agent(t, turn)
    seconds = wait.deadline_ms / 1000
    return _end_without_running(t, turn, tool, f"no person approved '{tool.request.name}' within {seconds:g} s")


def _fault_in(answer: ApprovalAnswer | None, tool: OpenTool, event: RunResumed) -> str:
    """Why an answer does not count; empty if it does."""
    if answer is None or (answer.holds is not HoldsFor.ONCE and tool.terms is None):
        return NOT_UNDERSTOOD
    if answer.holds is HoldsFor.ONCE:
        return ""
    return _fault_in_holding(answer, tool) if event.may_hold else _MAY_NOT_HOLD


def _fault_in_holding(answer: ApprovalAnswer, tool: OpenTool) -> str:
    return fault_in_pattern(_pattern_of(answer, tool), tool.request.name, tool.arguments)


def _pattern_of(answer: ApprovalAnswer, tool: OpenTool) -> str:
    return answer.pattern or (tool.terms.pattern if tool.terms is not None else "")


def _store_approval(t: Transition, tool: OpenTool, answer: ApprovalAnswer, wait: Wait, by: str) -> None:
    id_, name, pattern = approval_id(wait.token), tool.request.name, _pattern_of(answer, tool)
    t.record(ApprovalGiven(approval=id_, tool=name, pattern=pattern, holds=str(answer.holds), by=by))
    for_run = answer.holds is HoldsFor.RUN
    t.emit(StoreApproval(key=t.new_key(), id=id_, tool=name, pattern=pattern, for_run=for_run, by=by))


def _end_without_running(t: Transition, turn: Turn, tool: OpenTool, output: str) -> Stage | None:
    record_tool_end(t, tool, output)
    return finish_tool(t, turn, tool, f"error: {output}")


def _resume_agent(t: Transition, turn: Turn) -> None:
    """Sets the agent back to work, unless a person is still asked about another of its tools."""
    others = any(wait.turn == turn.number for wait in t.state.waits)
    if agent_state_of(t, turn.agent) is AgentState.WAITING_FOR_USER and not others:
        set_agent_state(t, turn.agent, Cause.USER_RESPONSE)
