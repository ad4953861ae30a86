"""Approval of tools by a person: yes, no, or other arguments. Interlock asks, whatever the model says."""

import msgspec

from interlock.engine.delegation.agent_states import agent_state_of, set_agent_state
from interlock.engine.events import ApprovalNeeded, InputRequested, ToolRequest
from interlock.engine.kinds import WaitKind
from interlock.engine.stages import Stage
from interlock.engine.state import OpenTool, Turn, Wait
from interlock.engine.transition import Transition
from interlock.engine.turns.tool_calls import find_open_tool, finish_tool, rerun_tool
from interlock.engine.turns.unanswered import record_tool_end
from interlock.messages.reading import read_json
from interlock.messages.states import AgentState, Cause

APPROVAL = str(WaitKind.APPROVAL)

YES, NO = ("yes", "y", "ok"), ("no", "n")


def on_approval_needed(t: Transition, event: ApprovalNeeded) -> Stage | None:
    turn, tool = find_open_tool(t, event.call)
    if agent_state_of(t, turn.agent) is AgentState.EXECUTING:
        set_agent_state(t, turn.agent, Cause.REQUEST_USER_INPUT)
    tool.approved, tool.edited = False, ""
    _ask_for_approval(t, turn, tool, event.fault)
    return None


def _ask_for_approval(t: Transition, turn: Turn, tool: OpenTool, fault: str = "") -> None:
    """Opens a wait under a new token; the first token stays the name of the question (rules 3)."""
    token, request = t.new_token(), tool.request
    again_of = tool.asked_as
    if t.state.rules >= 3:
        tool.asked_as = tool.asked_as or token
    wait = Wait(token=token, reason=APPROVAL, agent=turn.agent, turn=turn.number, tool=tool.key, again_of=again_of)
    t.state.waits.append(wait)
    question = approval_question(turn.agent, request)
    expects = "yes, no, or a JSON object with the arguments to use instead"
    question = f"{question}\n({fault})" if fault else question
    t.record(InputRequested(agent=turn.agent, question=question, token=token, expects=expects, again_of=again_of))


def approval_question(agent: str, request: ToolRequest) -> str:
    return f"{agent} wants to use {request.name} with {request.arguments or '{}'}"


def on_approval_given(t: Transition, wait: Wait, answer: str) -> Stage | None:
    turn, tool = find_open_tool(t, wait.tool)
    if wait.again_of:
        t.state.asked[wait.again_of] = wait.token
    word, _, reason = answer.strip().partition(":")
    if word.strip().lower() in NO:
        _resume_agent(t, turn)
        why = f": {reason.strip()}" if reason.strip() else ""
        output = f"a person did not approve '{tool.request.name}'{why}"
        record_tool_end(t, tool, output)
        return finish_tool(t, turn, tool, f"error: {output}")
    edited = "" if word.strip().lower() in YES and not reason else _arguments_in(answer)
    if edited is None:
        _ask_for_approval(t, turn, tool, "that was neither yes nor no nor a JSON object")
    else:
        tool.edited = edited
        _run_approved_tool(t, turn, tool)
    return None


def _arguments_in(answer: str) -> str | None:
    try:
        given = read_json(answer)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return msgspec.json.encode(given, order="deterministic").decode() if isinstance(given, dict) else None


def _run_approved_tool(t: Transition, turn: Turn, tool: OpenTool) -> None:
    _resume_agent(t, turn)
    tool.approved = True
    rerun_tool(t, turn, tool)


def _resume_agent(t: Transition, turn: Turn) -> None:
    """Sets the agent back to work, unless a person is still asked about another of its tools."""
    others = any(wait.turn == turn.number for wait in t.state.waits)
    if agent_state_of(t, turn.agent) is AgentState.WAITING_FOR_USER and not others:
        set_agent_state(t, turn.agent, Cause.USER_RESPONSE)
