"""A turn: model calls, tool rounds, nudges, until a reply ends it."""

from zlib import crc32

from interlock.engine.beginning import first, new_turn
from interlock.engine.conversation import UNSCALED
from interlock.engine.effects import CallModel, Reserve, RunTool
from interlock.engine.emitting import emitted, is_emission, is_tool_mode, only_emits
from interlock.engine.events import (
    LimitReached,
    ModelCalled,
    ModelFailed,
    ModelReplied,
    Nudged,
    Reserved,
    SignalRejected,
    SignalSeen,
    ToolCalled,
    ToolRequest,
    ToolReturned,
    Warned,
)
from interlock.engine.moves import (
    Ask,
    Begin,
    CloseBranch,
    CloseErrand,
    CloseTask,
    Conclude,
    EndAside,
    Finish,
    Move,
    Rest,
)
from interlock.engine.own_tools import carry_out, own_tool, rests
from interlock.engine.phrases import EMITTED, EMITTED_TOO_EARLY, cut, nudge, refused_emission
from interlock.engine.routing import Decision, Outcome, OwnReply
from interlock.engine.shortages import stop_for
from interlock.engine.spending import (
    account_for,
    bound_without_room,
    call_without_room,
    give_back,
    is_to_wait,
    say_alerts,
    wait_for_window,
    warn_of_large_call,
    window_without_room,
)
from interlock.engine.state import Message, OpenTool, Turn, turns_by
from interlock.engine.timing import RETRY, TOOLS, drop_timer, start_timer
from interlock.engine.transition import CHECK, PURPOSES, SELECT, Transition
from interlock.engine.unanswered import end_tool
from interlock.limits import READ_CHARS_MAX

# A failed model call is tried again this often before it counts.
RETRIES_MAX = 2

# A provider may ask to be left alone for longer than we would; beyond this it is asked again all the same, because a
# run that sleeps for an hour on one header looks dead.
RETRY_AFTER_MAX_MS = 60_000

# Nudges for conflict and for no signal share this allowance.
NUDGES_MAX = 2


def begin(t: Transition, move: Begin) -> Move | None:
    t.state.turn = new_turn(t, move.agent)
    t.state.agent = move.agent
    return first(t, t.state.turn)


def ask(t: Transition, move: Ask) -> Move | None:
    turn = move.turn
    if turn.rounds >= t.settings.max_rounds:
        t.conclude(LimitReached(limit="max_rounds"))
        return turn_failed(t, turn, "max_rounds", Finish("stopped", "max_rounds"))
    turn.rounds += 1
    turn.attempt = 0
    return _try(t, turn)


def _try(t: Transition, turn: Turn) -> Move | None:
    """Calls the model, after asking for room in the budgets where there are any."""
    short = call_without_room(t, turn.agent)
    if short is not None:
        return stop_for(t, short)
    if t.budgets.of(turn.agent).needs_estimate:
        turn.reserving = t.new_key()
        t.order(Reserve(key=turn.reserving, agent=turn.agent, turn=turn.number))
    else:
        call(t, turn)
    return None


def call(t: Transition, turn: Turn) -> None:
    turn.call, turn.called_ms = t.new_key(), t.state.worked_ms
    _number_call(t, turn)
    order = call_of(t, turn)
    t.conclude(
        ModelCalled(agent=turn.agent, call=turn.call, attempt=turn.attempt, model=order.model, purpose=order.purpose)
    )
    t.order(order)


def _number_call(t: Transition, turn: Turn) -> None:
    """Counts it among all calls of the agent, and among those for the same purpose where it has several."""
    calls, agent = t.state.calls, turn.agent
    turn.call_number = calls[agent] = calls.get(agent, 0) + 1
    names = {purpose: f"{agent}:{purpose}" for purpose in PURPOSES}
    if (purpose := purpose_of(turn)) in names:
        turn.purpose_number = calls[names[purpose]] = calls.get(names[purpose], 0) + 1
    elif others := sum(calls.get(name, 0) for name in names.values()):
        turn.purpose_number = turn.call_number - others


def purpose_of(turn: Turn) -> str:
    """What the calls of a turn are for, if not the agent's own work."""
    return turn.kind if turn.kind in PURPOSES else ""


def reserved(t: Transition, event: Reserved) -> Move | None:
    """The store has answered: the call is made, waits, or is one too many."""
    turn = t.turn_that_reserves(event.call, event.agent)
    assert turn is not None, "stale answers are turned away before"
    turn.reserving = ""
    say_alerts(t, turn, event)
    if event.refused and event.what == "errors" and _go_to_backup(t, turn):
        return _try(t, turn)
    if event.refused and is_to_wait(event):
        wait_for_window(t, turn, event)
        return None
    if event.refused:
        return stop_for(t, window_without_room(t, turn, event))
    short = bound_without_room(t, turn, event)
    if short is not None:
        give_back(t, turn, event)
        return stop_for(t, short)
    warn_of_large_call(t, turn, event)
    turn.reserved, turn.held_tokens, turn.held_micros = event.call, event.tokens, event.cost_micros
    call(t, turn)
    return None


def call_of(t: Transition, turn: Turn) -> CallModel:
    """The call a turn has under way."""
    backup = t.budgets.of(turn.agent).agent.backup if turn.backup else None
    return CallModel(
        model=backup.name if backup is not None else "",
        key=turn.call,
        agent=turn.agent,
        turn=turn.number,
        history=turn.history,
        attempt=turn.attempt,
        number=turn.call_number,
        purpose=purpose_of(turn),
        purpose_number=turn.purpose_number or turn.call_number,
    )


def turn_failed(t: Transition, turn: Turn, error: str, otherwise: Finish) -> Move:
    """Who works for somebody fails before them alone; with the floor it is the run that ends."""
    if turn.kind in (SELECT, CHECK):
        return CloseErrand(turn, error)
    task, branch = t.task_of(turn), t.branch_of(turn)
    if task is not None:
        return CloseTask(task, error)
    if t.state.aside is not None:
        return EndAside(error)
    return CloseBranch(branch, "failed", error) if branch is not None else otherwise


def replied(t: Transition, event: ModelReplied) -> Move | None:
    turn = call_ended(t, event)
    if event.estimate:
        _calibrate(t, turn.agent, event)
    _warn_if_slow(t, turn)
    _warn_if_unconstrained(t, event)
    _warn_if_long(t, turn, event)
    turn.emits = ()
    if not event.tool_calls or turn.kind in (SELECT, CHECK):
        return Conclude(turn, event.text)
    if only_emits(t.crew, event.tool_calls):
        return _emitted(t, turn, event)
    return _run_tools(t, turn, event)


def _emitted(t: Transition, turn: Turn, event: ModelReplied) -> Move:
    """The turn ends by what was emitted; if nothing of it is the agent's to use, it is told so and asked again."""
    decision = t.table.decide(OwnReply(turn.agent, event.text, emitted(event.tool_calls)))
    if decision.candidates:
        turn.emits = event.tool_calls
        return Conclude(turn, event.text)
    note_marks(t, decision, steers=False)
    _answer_emits(turn, event.text, event.tool_calls, refused_emission(t.crew, turn.agent))
    return Ask(turn)


def _answer_emits(turn: Turn, text: str, emits: tuple[ToolRequest, ...], answer: str) -> None:
    turn.said.append(Message(role="assistant", text=text, tool_calls=emits))
    turn.said += [Message(role="tool", text=answer, tool_call=emit.id) for emit in emits]


def _run_tools(t: Transition, turn: Turn, event: ModelReplied) -> Move | None:
    reply = OwnReply(turn.agent, event.text, emitted(event.tool_calls) if is_tool_mode(t.crew) else ())
    note_marks(t, t.table.decide(reply), steers=False)
    turn.said.append(Message(role="assistant", text=event.text, tool_calls=event.tool_calls))
    turn.tools = [OpenTool(request=request, key=t.new_key()) for request in event.tool_calls]
    for tool in turn.tools:
        request = tool.request
        if is_emission(t.crew, request):
            tool.output = EMITTED_TOO_EARLY
            continue
        t.conclude(ToolCalled(agent=turn.agent, call=tool.key, name=request.name, arguments=request.arguments))
        if own := own_tool(t, turn, request.name):
            carry_out(t, turn, tool, own)
        else:
            t.order(order_of(turn, tool))
    turn.rests = all(rests(tool) for tool in turn.tools)
    start_timer(t, f"{TOOLS}{turn.number}", int(t.settings.tool_result_timeout_seconds * 1000))
    return _after_tools(t, turn)


def order_of(turn: Turn, tool: OpenTool) -> RunTool:
    """The order to run a tool that a turn has under way."""
    return RunTool(
        key=tool.key,
        agent=turn.agent,
        name=tool.request.name,
        arguments=tool.edited or tool.request.arguments,
        approved=tool.approved,
        edited=bool(tool.edited),
        idempotency_key=tool.first_key,
    )


def call_ended(t: Transition, event: ModelReplied | ModelFailed) -> Turn:
    """The turn that made the call, with what it cost accounted for."""
    turn = t.turn_that(event.call, event.agent)
    assert turn is not None, "stale outcomes are turned away before"
    turn.call = ""
    account_for(t, turn, event.usage, failed=isinstance(event, ModelFailed))
    return turn


def note_marks(t: Transition, decision: Decision, *, steers: bool) -> None:
    for candidate in decision.candidates:
        chosen = steers and candidate.outcome in (Outcome.WON, Outcome.JOINED)
        t.conclude(SignalSeen(agent=decision.agent, signal=candidate.signal, method=candidate.method, steers=chosen))
        _warn_if_deprecated(t, decision.agent, candidate.signal)
    for refused in decision.rejected:
        t.conclude(
            SignalRejected(agent=decision.agent, mark=refused.mark, reason=refused.reason, nearest=refused.nearest)
        )


def _warn_if_deprecated(t: Transition, agent: str, signal: str) -> None:
    advice = t.table.deprecated_msg(signal) if t.state.rules >= 3 else ""
    if advice:
        message = f"agent '{agent}' used deprecated signal '{signal}': {advice}"
        t.conclude(Warned(code="deprecated-signal", message=message))


def _calibrate(t: Transition, agent: str, event: ModelReplied) -> None:
    """The provider counted more than was estimated; from now on the estimate is that much larger."""
    before = t.state.scales.get(agent, UNSCALED)
    t.state.scales[agent] = -(-before * event.usage.input_tokens // event.estimate)


def _warn_if_slow(t: Transition, turn: Turn) -> None:
    took, most = t.state.worked_ms - turn.called_ms, t.settings.slow_call_threshold_seconds
    if took > most * 1000:
        t.conclude(Warned(code="slow-call", message=f"a model call of {turn.agent} took {took / 1000:g} s"))


def _warn_if_unconstrained(t: Transition, event: ModelReplied) -> None:
    """Once a run and agent."""
    if event.unconstrained and event.agent not in t.state.unconstrained:
        t.state.unconstrained.append(event.agent)
        message = f"the model of {event.agent} cannot be held to its marks; they are looked for in its text instead"
        t.conclude(Warned(code="not-constrained", message=message))


def _warn_if_long(t: Transition, turn: Turn, event: ModelReplied) -> None:
    """A reply of which not every mark is looked for; what is said in an errand carries none."""
    is_long = len(event.text) > READ_CHARS_MAX
    if is_long and t.state.rules >= 3 and turn.kind not in (SELECT, CHECK) and t.settings.signal_mode != "tool":
        message = (
            f"the reply of {turn.agent} has {len(event.text):,} characters; its signals are looked for in the first "
            f"{READ_CHARS_MAX:,} and on its last line"
        )
        t.conclude(Warned(code="long-reply", message=message))


def failed(t: Transition, event: ModelFailed) -> Move | None:
    turn = call_ended(t, event)
    if event.too_long and not turn.trimmed:
        turn.trimmed = True
        return _try(t, turn)
    if event.retry and turn.attempt < RETRIES_MAX:
        _retry_later(t, turn, event.retry_after_ms)
        return None
    if event.reason == "model_error" and _go_to_backup(t, turn):
        return _try(t, turn)
    return turn_failed(t, turn, event.error, Finish("failed", event.reason))


def _go_to_backup(t: Transition, turn: Turn) -> bool:
    """Whether there is another model to ask from now on, for the rest of the turn and with tries of its own."""
    if turn.backup or t.budgets.of(turn.agent).agent.backup is None:
        return False
    turn.backup, turn.attempt = True, 0
    return True


def _retry_later(t: Transition, turn: Turn, retry_after_ms: int) -> None:
    turn.attempt += 1
    wait = t.settings.retry_backoff_min_millis * 2 ** (turn.attempt - 1)
    wait = min(wait, int(t.settings.retry_backoff_max_seconds * 1000))
    asked = min(retry_after_ms, RETRY_AFTER_MAX_MS)
    if asked > wait:
        # Many runs are told the same time; they come back one by one within a quarter of it, not all at once.
        wait = asked + crc32(f"{t.state.run}:{turn.call_number}:{turn.agent}".encode()) % (asked // 4 + 1)
    start_timer(t, f"{RETRY}{turn.number}", wait)


def retry(t: Transition, number: int) -> Move | None:
    return _try(t, next(turn for turn in t.turns() if turn.number == number))


def tool_returned(t: Transition, event: ToolReturned) -> Move | None:
    turn, tool = open_tool(t, event.call)
    output = event.output if event.ok else f"error: {event.output}"
    if tool.edited:
        output = f"(a person changed the arguments to {tool.edited})\n{output}"
    return tool_done(t, turn, tool, output)


def tool_done(t: Transition, turn: Turn, tool: OpenTool, output: str) -> Move | None:
    tool.output = output
    t.index.tools.pop(tool.key, None)
    return _after_tools(t, turn)


def _after_tools(t: Transition, turn: Turn) -> Move | None:
    """The turn goes on when the last tool of its reply has an output."""
    if any(other.output is None for other in turn.tools):
        return None
    drop_timer(t, f"{TOOLS}{turn.number}")
    left = t.settings.max_total_tool_output_chars
    for done in turn.tools:
        text = cut(done.output or "", left)
        left = max(0, left - len(done.output or ""))
        turn.said.append(Message(role="tool", text=text, tool_call=done.request.id))
    turn.tools = []
    return Rest(turn) if turn.rests else Ask(turn)


def tools_out_of_time(t: Transition, number: int) -> Move | None:
    """What has no output by now gets none; the model is told."""
    turn = next(turn for turn in t.turns() if turn.number == number)
    seconds = t.settings.tool_result_timeout_seconds
    move = None
    for tool in turn.tools:
        if tool.output is None:
            t.give_up(tool.key)
            output = f"the tools of this reply took longer than {seconds:g} s"
            end_tool(t, tool, output)
            move = tool_done(t, turn, tool, f"error: {output}")
    return move


def open_tool(t: Transition, key: str) -> tuple[Turn, OpenTool]:
    """Where a tool under way is."""
    turns = turns_by(t.state, t.index.tools[key])
    return next((turn, tool) for turn in turns for tool in turn.tools if tool.key == key)


def is_open(t: Transition, key: str) -> bool:
    """Whether a tool was ordered and has no output yet."""
    return key in t.index.tools


def run_again(t: Transition, turn: Turn, tool: OpenTool) -> None:
    """Under a new key, because what comes for the old one is stale; the tool itself is given its first one again.

    Before rules 3 the tool was given the new one.
    """
    del t.index.tools[tool.key]
    if t.state.rules >= 3:
        tool.first_key = tool.first_key or tool.key
    tool.key = t.new_key()
    order = order_of(turn, tool)
    t.conclude(ToolCalled(agent=turn.agent, call=tool.key, name=order.name, arguments=order.arguments))
    t.order(order)


def nudged(t: Transition, turn: Turn, reply: str, decision: Decision) -> Move:
    turn.nudges += 1
    t.state.output = reply
    t.conclude(Nudged(agent=turn.agent, because=decision.because))
    _answer_emits(turn, reply, turn.emits, EMITTED)
    turn.said.append(Message(role="user", text=nudge(t.crew, turn.agent, decision)))
    return Ask(turn)
