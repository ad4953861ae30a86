"""Waits for a person or the host, and their answers."""

from collections.abc import Iterable, Sequence

from interlock.engine.events import (
    DerivedEvent,
    Event,
    IncomingEvent,
    InputExpired,
    InputGiven,
    InputRequested,
    ModelReplied,
    RunFinished,
    RunPaused,
    RunResumed,
    ToolOutcomeLost,
    TurnStarted,
)
from interlock.engine.kinds import RunStatus, TimerKind, WaitKind, WorkStatus
from interlock.engine.routing.candidates import Verb
from interlock.engine.routing.decision import Decision
from interlock.engine.stages import ApplyDecision, FinishRun, Stage, StartTurn
from interlock.engine.state import RunState, Turn, Wait, turns_by, turns_of
from interlock.engine.transition import Transition
from interlock.engine.turns.approvals import on_approval_expired, on_approval_given
from interlock.engine.turns.hooks import on_hook_answered, on_hook_expired
from interlock.engine.turns.model_calls import fail_turn
from interlock.engine.turns.questions import on_question_answered, on_question_expired
from interlock.engine.turns.tool_calls import find_open_tool, finish_tool, rerun_tool
from interlock.engine.turns.unanswered import record_tool_end

APPROVALS = ("", "yes")

UNKNOWN_OUTCOME = str(WaitKind.UNKNOWN_OUTCOME)

# What a held mark does once it is approved.
_DOES = {
    Verb.HAND_OVER: "hand over to {}",
    Verb.CALL: "call the crew {}",
    Verb.FORK: "start the group {}",
    Verb.AWAIT: "wait for a person",
    Verb.TELL: "be sent",
    Verb.END: "end the run",
}


def open_wait(t: Transition, decision: Decision, reason: str, token: str = "") -> Stage | None:
    """Opens a wait under its own token; other parts of the run continue."""
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
    t.record(InputRequested(agent=decision.agent, question=question, token=token, expects=expects))
    return None


def _expects_of_held(decision: Decision) -> str:
    """The possible answers, and what each one does."""
    assert decision.verb is not None, "a held decision has a winner"
    does = _DOES[decision.verb].format(decision.target)
    return f"yes, which lets {decision.signal} {does}, or words for {decision.agent}, which then continues instead"


def on_tool_outcome_lost(t: Transition, event: ToolOutcomeLost) -> Stage | None:
    """Asks a person, because the tool may or may not have run."""
    turn, tool = find_open_tool(t, event.call)
    token = t.new_token()
    t.state.waits.append(Wait(token=token, reason=UNKNOWN_OUTCOME, agent=turn.agent, turn=turn.number, tool=event.call))
    question = f"tool '{tool.request.name}' may or may not have run: retry, fail, or the text to use as its output"
    t.record(InputRequested(agent=turn.agent, question=question, token=token))
    return None


def pause_if_idle(t: Transition) -> None:
    """Pauses a run in which nothing can continue."""
    if t.state.status is not RunStatus.RUNNING or not t.state.waits or _is_working(t):
        return
    oldest = t.state.waits[0]
    t.state.status = RunStatus.PAUSED
    t.record(RunPaused(agent=oldest.agent, token=oldest.token, reason=oldest.reason))


def _is_working(t: Transition) -> bool:
    if any(child.status is WorkStatus.WORKING for child in t.children()):
        return True
    if any(child.message for child in t.state.leaving):  # stopping a task's sub-crew is work too
        return True
    return any(is_at_work(t.state, turn) for turn in t.turns())


def is_at_work(state: RunState, turn: Turn) -> bool:
    """Whether a turn has work in progress, and does not only wait for a person."""
    if turn.call or turn.reserving or turn.taking:
        return True
    if any(kind.of(turn.number).key in state.timers for kind in (TimerKind.RETRY, TimerKind.BUDGET)):
        return True
    if not turn.tools:
        return False
    asked_about = [wait.tool for wait in state.waits]
    return any(tool.output is None and tool.key not in asked_about for tool in turn.tools)


def agents_at_work(state: RunState) -> dict[str, int]:
    """The agents with a turn in progress that does not wait, each with the hops of its broadcasts."""
    if state.status is not RunStatus.RUNNING:
        return {}
    turns = [turn for turn in turns_of(state) if not turn.suspended]  # a suspended turn does not work
    return {turn.agent: turn.hops for turn in turns if not state.waits or is_at_work(state, turn)}


def agents_concerned(event: IncomingEvent, facts: Iterable[DerivedEvent]) -> dict[str, None]:
    """The agents that the transition names: while no wait is open, no other agent starts or stops working."""
    agents = [getattr(each, "agent", "") for each in (event, *facts)]
    return dict.fromkeys(agent for agent in agents if agent)


def agents_in_record(events: Sequence[Event]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The agents that a plain record shows to end and begin work: a turn starts, and the agent that replied is done.

    Stores rely on it for records that they hold: another rule needs another name.
    """
    begun = tuple([each.agent for each in events if type(each) is TurnStarted])
    first = events[0]
    if type(first) is not ModelReplied or not (begun or type(events[-1]) is RunFinished):
        return (), begun
    return (first.agent,), begun


def hops_at_work(state: RunState, agent: str) -> int | None:
    """The same as `agents_at_work` for one agent, while no wait is open."""
    awake = [turn.hops for turn in turns_by(state, agent) if not turn.suspended]
    return awake[-1] if awake else None


def answer_wait(t: Transition, event: RunResumed) -> Stage | None:
    wait = t.wait_with(event.token)
    assert wait is not None, "stale tokens are rejected before"
    t.state.waits.remove(wait)
    t.state.answered[event.token] = event.input
    t.mark_running()
    t.record(InputGiven(token=event.token, by=event.by))
    if wait.point:
        return on_hook_answered(t, wait, event.input)
    if wait.message:
        return on_question_answered(t, wait, event.input)
    if wait.tool:
        return (
            on_approval_given(t, wait, event)
            if wait.kind is WaitKind.APPROVAL
            else _apply_tool_decision(t, wait, event)
        )
    if wait.kind is WaitKind.HELD and event.input.strip().lower() in APPROVALS:
        return ApplyDecision(t.table.decision_of(wait.agent, wait.signal, wait.calls))
    author = "external" if wait.kind is WaitKind.EXTERNAL else "user"
    if event.input:
        t.add_history("user", author, event.input, t.state.turns)
    next_agent = wait.target if wait.kind is WaitKind.SIGNAL and wait.target else wait.agent
    return StartTurn(next_agent)


def expire_wait(t: Transition, event: InputExpired) -> Stage | None:
    """Ends a wait whose deadline has passed: an approval or a hook says no, a question stays without an answer."""
    wait = next(wait for wait in t.state.waits if wait.id == event.token)
    if wait.point:
        return on_hook_expired(t, wait)
    return on_approval_expired(t, wait) if wait.kind is WaitKind.APPROVAL else on_question_expired(t, event)


def _apply_tool_decision(t: Transition, wait: Wait, event: RunResumed) -> Stage | None:
    turn, tool = find_open_tool(t, wait.tool)
    answer = event.input
    word = answer.strip().lower()
    if word == "fail":
        reason = UNKNOWN_OUTCOME
        return fail_turn(t, turn, reason, FinishRun(RunStatus.FAILED, reason))
    if word == "retry":
        rerun_tool(t, turn, tool)
        return None
    record_tool_end(t, tool, answer, ok=True)
    return finish_tool(t, turn, tool, answer)
