"""Waiting for a person or the host, and going on afterwards."""

from collections.abc import Iterable

from interlock.engine.approving import APPROVAL, approval_given
from interlock.engine.events import (
    DerivedEvent,
    IncomingEvent,
    InputGiven,
    InputRequested,
    RunPaused,
    RunResumed,
    ToolOutcomeLost,
)
from interlock.engine.moves import Begin, Finish, Follow, Move
from interlock.engine.questions import question_answered
from interlock.engine.routing import Decision, Verb
from interlock.engine.state import RunState, Turn, Wait, turns_by, turns_of
from interlock.engine.timing import BUDGET, RETRY
from interlock.engine.transition import Transition
from interlock.engine.turns import open_tool, run_again, tool_done, turn_failed
from interlock.engine.unanswered import end_tool

APPROVALS = ("", "yes")

# What a mark does once it is approved; only these are held.
_DOES = {
    Verb.HAND_OVER: "hand over to {}",
    Verb.CALL: "call the crew {}",
    Verb.FORK: "start the group {}",
    Verb.AWAIT: "wait for a person",
    Verb.TELL: "be sent",
    Verb.END: "end the run",
}


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
    expects = _expects_of_held(decision) if decision.held and t.state.rules >= 3 else ""
    t.conclude(InputRequested(agent=decision.agent, question=question, token=token, expects=expects))
    return None


def _expects_of_held(decision: Decision) -> str:
    """What a person may answer, and what each answer does."""
    assert decision.verb is not None, "a decision that is held has a mark that won"
    does = _DOES[decision.verb].format(decision.target)
    return f"yes, which lets {decision.signal} {does}, or words for {decision.agent}, which then continues instead"


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
    if any(child.message for child in t.state.leaving):  # stopping the crew of a task is work too
        return True
    return any(is_at_work(t.state, turn) for turn in t.turns())


def is_at_work(state: RunState, turn: Turn) -> bool:
    """Whether something goes on in a turn, rather than waits for a person."""
    if turn.call or turn.reserving or turn.taking:
        return True
    if f"{RETRY}{turn.number}" in state.timers or f"{BUDGET}{turn.number}" in state.timers:
        return True
    if not turn.tools:
        return False
    asked_about = [wait.tool for wait in state.waits]
    return any(tool.output is None and tool.key not in asked_about for tool in turn.tools)


def agents_at_work(state: RunState) -> dict[str, int]:
    """Those whose turn is under way and does not wait, each with the hops of what it announces."""
    if state.status != "running":
        return {}
    turns = [turn for turn in turns_of(state) if not turn.suspended]  # a suspended turn sleeps
    return {turn.agent: turn.hops for turn in turns if not state.waits or is_at_work(state, turn)}


def agents_concerned(event: IncomingEvent, facts: Iterable[DerivedEvent]) -> dict[str, None]:
    """Those of whom the transition says something: nobody else begins to work, or stops, while nobody waits."""
    agents = [getattr(each, "agent", "") for each in (event, *facts)]
    return dict.fromkeys(agent for agent in agents if agent)


def hops_at_work(state: RunState, agent: str) -> int | None:
    """As `agents_at_work` has it for one agent, where nobody waits for a person."""
    awake = [turn.hops for turn in turns_by(state, agent) if not turn.suspended]
    return awake[-1] if awake else None


def resumed(t: Transition, event: RunResumed) -> Move | None:
    wait = t.wait_with(event.token)
    assert wait is not None, "stale tokens are turned away before"
    t.state.waits.remove(wait)
    t.state.answered[event.token] = event.input
    t.go_on()
    t.conclude(InputGiven(token=event.token, by=event.by))
    if wait.message:
        return question_answered(t, wait, event.input)
    if wait.tool:
        return (approval_given if wait.reason == APPROVAL else _tool_decided)(t, wait, event.input)
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
        reason = "tool_unknown_outcome"
        return turn_failed(t, turn, reason, Finish("failed", reason))
    if word == "retry":
        run_again(t, turn, tool)
        return None
    end_tool(t, tool, answer, ok=True)
    return tool_done(t, turn, tool, answer)
