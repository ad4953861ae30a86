"""A turn: model calls, tool rounds, nudges, until a reply ends it."""

from interlock.engine.effects import CallModel, RunTool
from interlock.engine.events import (
    LimitReached,
    ModelCalled,
    ModelFailed,
    ModelReplied,
    Nudged,
    ToolCalled,
    ToolReturned,
    TurnStarted,
    Usage,
    Warned,
)
from interlock.engine.moves import Ask, Begin, CloseBranch, Conclude, Finish, Move
from interlock.engine.phrases import cut, nudge
from interlock.engine.routing import Decision
from interlock.engine.state import Message, OpenTool, Turn
from interlock.engine.timing import RETRY, TOOLS, drop_timer, start_timer
from interlock.engine.transition import Transition

# A failed model call is tried again this often before it counts.
RETRIES_MAX = 2

# Nudges for conflict and for no signal share this allowance.
NUDGES_MAX = 2


def begin(t: Transition, move: Begin) -> Move:
    t.state.turn = new_turn(t, move.agent)
    t.state.agent = move.agent
    return Ask(t.state.turn)


def new_turn(t: Transition, agent: str) -> Turn:
    t.state.turns += 1
    t.conclude(TurnStarted(agent=agent, turn=t.state.turns))
    return Turn(number=t.state.turns, agent=agent, history=len(t.state.history))


def ask(t: Transition, move: Ask) -> Move | None:
    turn = move.turn
    if turn.rounds >= t.settings.max_rounds:
        return _spent(t, turn, "max_rounds", "max_rounds")
    budget = _spent_budget(t)
    if budget:
        return _spent(t, turn, budget, f"budget:{budget}")
    turn.rounds += 1
    turn.attempt = 0
    _call(t, turn)
    return None


def _call(t: Transition, turn: Turn) -> None:
    turn.call, turn.called_ms = t.new_key(), t.state.worked_ms
    turn.call_number = t.state.calls[turn.agent] = t.state.calls.get(turn.agent, 0) + 1
    t.conclude(ModelCalled(agent=turn.agent, call=turn.call, attempt=turn.attempt))
    t.order(call_of(turn))


def call_of(turn: Turn) -> CallModel:
    """The call a turn has under way."""
    return CallModel(
        key=turn.call,
        agent=turn.agent,
        turn=turn.number,
        history=turn.history,
        attempt=turn.attempt,
        number=turn.call_number,
    )


def _spent(t: Transition, turn: Turn, limit: str, reason: str) -> Move:
    """A bound within a turn: a member fails its branch, elsewhere it stops the run."""
    t.conclude(LimitReached(limit=limit))
    branch = t.branch_of(turn)
    return CloseBranch(branch, "failed", reason) if branch and limit == "max_rounds" else Finish("stopped", reason)


def _spent_budget(t: Transition) -> str | None:
    used, settings = t.state.usage, t.settings
    if settings.max_calls_per_run is not None and used.calls >= settings.max_calls_per_run:
        return "calls"
    if settings.max_tokens_per_run is not None and used.tokens >= settings.max_tokens_per_run:
        return "tokens"
    if settings.max_cost_per_run is not None and used.cost_micros >= settings.max_cost_per_run * 1_000_000:
        return "cost"
    return None


def replied(t: Transition, event: ModelReplied) -> Move | None:
    turn = t.turn_that(event.call)
    assert turn is not None, "stale replies are turned away before"
    turn.call = ""
    t.state.usage += event.usage + Usage(calls=1)
    _warn_if_slow(t, turn)
    if not event.tool_calls:
        return Conclude(turn, event.text)
    turn.said.append(Message(role="assistant", text=event.text, tool_calls=event.tool_calls))
    turn.tools = [OpenTool(request=request, key=t.new_key()) for request in event.tool_calls]
    for tool in turn.tools:
        request = tool.request
        t.conclude(ToolCalled(agent=turn.agent, call=tool.key, name=request.name, arguments=request.arguments))
        t.order(RunTool(key=tool.key, agent=turn.agent, name=request.name, arguments=request.arguments))
    start_timer(t, f"{TOOLS}{turn.number}", int(t.settings.tool_result_timeout_seconds * 1000))
    return None


def _warn_if_slow(t: Transition, turn: Turn) -> None:
    took, most = t.state.worked_ms - turn.called_ms, t.settings.slow_call_threshold_seconds
    if took > most * 1000:
        t.conclude(Warned(code="slow-call", message=f"a model call of {turn.agent} took {took / 1000:g} s"))


def failed(t: Transition, event: ModelFailed) -> Move | None:
    turn = t.turn_that(event.call)
    assert turn is not None, "stale failures are turned away before"
    turn.call = ""
    t.state.usage += Usage(calls=1)
    if event.retry and turn.attempt < RETRIES_MAX:
        _retry_later(t, turn)
        return None
    branch = t.branch_of(turn)
    return CloseBranch(branch, "failed", event.error) if branch else Finish("failed", event.reason)


def _retry_later(t: Transition, turn: Turn) -> None:
    turn.attempt += 1
    wait = t.settings.retry_backoff_min_millis * 2 ** (turn.attempt - 1)
    start_timer(t, f"{RETRY}{turn.number}", min(wait, int(t.settings.retry_backoff_max_seconds * 1000)))


def retry(t: Transition, number: int) -> Move | None:
    _call(t, next(turn for turn in t.turns() if turn.number == number))
    return None


def tool_returned(t: Transition, event: ToolReturned) -> Move | None:
    turn, tool = open_tool(t, event.call)
    return tool_done(t, turn, tool, event.output if event.ok else f"error: {event.output}")


def tool_done(t: Transition, turn: Turn, tool: OpenTool, output: str) -> Move | None:
    """The turn goes on when the last tool of its reply has an output."""
    tool.output = output
    if any(other.output is None for other in turn.tools):
        return None
    drop_timer(t, f"{TOOLS}{turn.number}")
    left = t.settings.max_total_tool_output_chars
    for done in turn.tools:
        text = cut(done.output or "", left)
        left = max(0, left - len(done.output or ""))
        turn.said.append(Message(role="tool", text=text, tool_call=done.request.id))
    turn.tools = []
    return Ask(turn)


def tools_out_of_time(t: Transition, number: int) -> Move | None:
    """What has no output by now gets none; the model is told."""
    turn = next(turn for turn in t.turns() if turn.number == number)
    seconds = t.settings.tool_result_timeout_seconds
    move = None
    for tool in turn.tools:
        if tool.output is None:
            t.give_up(tool.key)
            move = tool_done(t, turn, tool, f"error: the tools of this reply took longer than {seconds:g} s")
    return move


def open_tool(t: Transition, key: str) -> tuple[Turn, OpenTool]:
    return next((turn, tool) for turn in t.turns() for tool in turn.tools if tool.key == key)


def nudged(t: Transition, turn: Turn, reply: str, decision: Decision) -> Move:
    turn.nudges += 1
    t.conclude(Nudged(agent=turn.agent, because=decision.because))
    turn.said.append(Message(role="assistant", text=reply))
    turn.said.append(Message(role="user", text=nudge(t.crew, turn.agent, decision)))
    return Ask(turn)
