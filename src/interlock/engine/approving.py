"""Tools that need a person's approval: Interlock asks, whatever the model says. Yes, no, or other arguments."""

import msgspec

from interlock.engine.events import ApprovalNeeded, InputRequested, ToolRequest
from interlock.engine.moves import Move
from interlock.engine.standing import moved, state_of
from interlock.engine.state import OpenTool, Turn, Wait
from interlock.engine.transition import Transition
from interlock.engine.turns import open_tool, run_again, tool_done
from interlock.engine.unanswered import end_tool
from interlock.messages.reading import read_json
from interlock.messages.states import AgentState, Cause

APPROVAL = "approval"

YES, NO = ("yes", "y", "ok"), ("no", "n")


def approval_needed(t: Transition, event: ApprovalNeeded) -> Move | None:
    turn, tool = open_tool(t, event.call)
    if state_of(t, turn.agent) is AgentState.EXECUTING:
        moved(t, turn.agent, Cause.REQUEST_USER_INPUT)
    tool.approved, tool.edited = False, ""
    _ask(t, turn, tool, event.fault)
    return None


def _ask(t: Transition, turn: Turn, tool: OpenTool, fault: str = "") -> None:
    """Under a new token; the first one stays the name of the question (rules 3)."""
    token, request = t.new_token(), tool.request
    again_of = tool.asked_as
    if t.state.rules >= 3:
        tool.asked_as = tool.asked_as or token
    wait = Wait(token=token, reason=APPROVAL, agent=turn.agent, turn=turn.number, tool=tool.key, again_of=again_of)
    t.state.waits.append(wait)
    question = approval_question(turn.agent, request)
    expects = "yes, no, or a JSON object with the arguments to use instead"
    question = f"{question}\n({fault})" if fault else question
    t.conclude(InputRequested(agent=turn.agent, question=question, token=token, expects=expects, again_of=again_of))


def approval_question(agent: str, request: ToolRequest) -> str:
    return f"{agent} wants to use {request.name} with {request.arguments or '{}'}"


def approval_given(t: Transition, wait: Wait, answer: str) -> Move | None:
    turn, tool = open_tool(t, wait.tool)
    if wait.again_of:
        t.state.asked[wait.again_of] = wait.token
    word, _, reason = answer.strip().partition(":")
    if word.strip().lower() in NO:
        _goes_on(t, turn)
        why = f": {reason.strip()}" if reason.strip() else ""
        output = f"a person did not approve '{tool.request.name}'{why}"
        end_tool(t, tool, output)
        return tool_done(t, turn, tool, f"error: {output}")
    edited = "" if word.strip().lower() in YES and not reason else _arguments(answer)
    if edited is None:
        _ask(t, turn, tool, "that was neither yes nor no nor a JSON object")
    else:
        tool.edited = edited
        _run(t, turn, tool)
    return None


def _arguments(answer: str) -> str | None:
    try:
        given = read_json(answer)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return msgspec.json.encode(given, order="deterministic").decode() if isinstance(given, dict) else None


def _run(t: Transition, turn: Turn, tool: OpenTool) -> None:
    _goes_on(t, turn)
    tool.approved = True
    run_again(t, turn, tool)


def _goes_on(t: Transition, turn: Turn) -> None:
    """The agent waits for a person no more, unless another of its tools is asked about."""
    others = any(wait.turn == turn.number for wait in t.state.waits)
    if state_of(t, turn.agent) is AgentState.WAITING_FOR_USER and not others:
        moved(t, turn.agent, Cause.USER_RESPONSE)
