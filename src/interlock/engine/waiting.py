"""Waiting for a person or the host, and going on afterwards."""

from interlock.engine.effects import RunTool
from interlock.engine.events import (
    InputGiven,
    InputRequested,
    RunPaused,
    RunResumed,
    ToolCalled,
    ToolOutcomeLost,
)
from interlock.engine.moves import Begin, CloseBranch, EndAside, Finish, Follow, Move
from interlock.engine.routing import Decision
from interlock.engine.state import RunState, Turn, Wait
from interlock.engine.timing import BUDGET, RETRY
from interlock.engine.transition import Transition
from interlock.engine.turns import open_tool, tool_done

APPROVALS = ("", "yes")


def wait_for(t: Transition, decision: Decision, reason: str, token: str = "") -> Move | None:
    """Opens a wait of its own token; the run goes on elsewhere if it can."""
    token = token or t.new_token()
    t.state.waits.append(
        Wait(
            token=token,
            reason=reason,
            agent=decision.agent,
            turn=t.state.turns,
            signal=decision.signal,
            target=decision.target,
            calls=decision.calls,
        )
    )
    question = t.table.without_marks(t.state.output)
    t.conclude(InputRequested(agent=decision.agent, question=question, token=token))
    return None


def tool_lost(t: Transition, event: ToolOutcomeLost) -> Move | None:
    """Nobody knows whether the tool did its work, so a person decides."""
    turn, tool = open_tool(t, event.call)
    token = t.new_token()
    t.state.waits.append(
        Wait(token=token, reason="tool_unknown_outcome", agent=turn.agent, turn=turn.number, tool=event.call)
    )
    question = f"tool '{tool.request.name}' may or may not have run: retry, fail, or the text to use as its output"
    t.conclude(InputRequested(agent=turn.agent, question=question, token=token))
    return None


def pause_if_idle(t: Transition) -> None:
    """A run is paused only when nothing in it can go on."""
    if t.state.status != "running" or not t.state.waits or _is_working(t):
        return
    oldest = t.state.waits[0]
    t.state.status = "paused"
    t.conclude(RunPaused(agent=oldest.agent, token=oldest.token, reason=oldest.reason))


def _is_working(t: Transition) -> bool:
    if any(child.status == "working" for child in t.children()):
        return True
    return any(is_at_work(t.state, turn) for turn in t.turns())


def is_at_work(state: RunState, turn: Turn) -> bool:
    """Whether something goes on in a turn, rather than waits for a person."""
    if turn.call or turn.reserving or turn.taking:
        return True
    if f"{RETRY}{turn.number}" in state.timers or f"{BUDGET}{turn.number}" in state.timers:
        return True
    asked_about = [wait.tool for wait in state.waits]
    return any(tool.output is None and tool.key not in asked_about for tool in turn.tools)


def agents_at_work(state: RunState) -> dict[str, int]:
    """Those whose turn is under way and does not wait for a person, each with the hops of what it announces."""
    if state.status != "running":
        return {}
    if state.group is not None:
        turns = [branch.turn for branch in state.group.branches if branch.status == "working"]
    else:
        turns = [state.turn]
    open_ones = [turn for turn in turns if turn is not None]
    return {turn.agent: turn.hops for turn in open_ones if not state.waits or is_at_work(state, turn)}


def resumed(t: Transition, event: RunResumed) -> Move | None:
    wait = t.wait_with(event.token)
    assert wait is not None, "stale tokens are turned away before"
    t.state.waits.remove(wait)
    t.state.answered[event.token] = event.input
    t.state.status = "running"
    t.conclude(InputGiven(token=event.token))
    if wait.tool:
        return _tool_decided(t, wait, event.input)
    if wait.reason.startswith("held:") and event.input.strip().lower() in APPROVALS:
        return Follow(t.table.decision_of(wait.agent, wait.signal, wait.calls))
    author = "external" if wait.reason.startswith("external:") else "user"
    if event.input:
        t.remember("user", author, event.input, t.state.turns)
    goes_on_at = wait.target if wait.reason.startswith("signal:") and wait.target else wait.agent
    return Begin(goes_on_at)


def _tool_decided(t: Transition, wait: Wait, answer: str) -> Move | None:
    turn, tool = open_tool(t, wait.tool)
    word = answer.strip().lower()
    if word == "fail":
        branch, reason = t.branch_of(turn), "tool_unknown_outcome"
        if t.state.aside is not None:
            return EndAside(reason)
        return CloseBranch(branch, "failed", reason) if branch else Finish("failed", reason)
    if word == "retry":
        tool.key = t.new_key()
        request = tool.request
        t.conclude(ToolCalled(agent=turn.agent, call=tool.key, name=request.name, arguments=request.arguments))
        t.order(RunTool(key=tool.key, agent=turn.agent, name=request.name, arguments=request.arguments))
        return None
    return tool_done(t, turn, tool, answer)
