"""Model replies: each one calls tools, asks the model again with a nudge, or concludes its turn."""

from interlock.engine.events import (
    ModelReplied,
    Nudged,
    SignalRejected,
    SignalSeen,
    ToolRequest,
    Warned,
)
from interlock.engine.kinds import ADVISORY_KINDS
from interlock.engine.prompt.conversation import UNSCALED
from interlock.engine.prompt.phrases import EMITTED, emission_refusal, nudge_text
from interlock.engine.routing.candidates import CHOSEN
from interlock.engine.routing.decision import Decision, OwnReply
from interlock.engine.routing.emit_signal import emission_names, has_only_emissions, is_tool_mode
from interlock.engine.stages import (
    AskModel,
    ConcludeTurn,
    Stage,
)
from interlock.engine.state import Turn, TurnMessage
from interlock.engine.transition import Transition
from interlock.engine.turns.hook_questions import REFUSED_OUTPUT, ask_for_hook, stop_turn
from interlock.engine.turns.model_calls import end_call
from interlock.engine.turns.tool_calls import reasoning_to_return, run_tools
from interlock.limits import READ_CHARS_MAX

# The limit for nudges after a conflict and after no signal, together.
NUDGES_MAX = 2


def on_model_replied(t: Transition, event: ModelReplied) -> Stage | None:
    turn = end_call(t, event)
    if event.estimate:
        _calibrate(t, turn.agent, event)
    if (took_ms := t.state.worked_ms - turn.called_ms) > t.settings.slow_call_threshold_seconds * 1000:
        t.record(Warned(code="slow-call", message=f"a model call of {turn.agent} took {took_ms / 1000:g} s"))
    if event.unconstrained:
        _warn_of_free_marks(t, event)
    if len(event.text) > READ_CHARS_MAX:
        _warn_of_long_reply(t, turn, event)
    if event.verdict is not None:
        if (stop := event.verdict.stopping_decision) is not None:
            return stop_turn(t, turn, stop, REFUSED_OUTPUT)
        if event.verdict.question:
            turn.held = event
            ask_for_hook(t, event.verdict, turn.agent, turn=turn.number)
            return None
    return take_reply(t, turn, event)


def take_reply(t: Transition, turn: Turn, event: ModelReplied) -> Stage | None:
    """Calls the tools of a reply, or concludes its turn."""
    turn.verdict = event.output
    if turn.emits or turn.reasoning:
        turn.emits, turn.reasoning = (), ()
    if not event.tool_calls or turn.kind in ADVISORY_KINDS:
        return ConcludeTurn(turn, event.text)
    if has_only_emissions(t.crew, event.tool_calls):
        return _conclude_by_emission(t, turn, event)
    reply = OwnReply(turn.agent, event.text, emission_names(event.tool_calls) if is_tool_mode(t.crew) else ())
    record_marks(t, t.table.decide(reply), steers=False)
    return run_tools(t, turn, event)


def _conclude_by_emission(t: Transition, turn: Turn, event: ModelReplied) -> Stage:
    """Concludes by the emitted signals; if the agent may use none of them, it is asked again with an error."""
    decision = t.table.decide(OwnReply(turn.agent, event.text, emission_names(event.tool_calls)))
    if decision.candidates:
        turn.emits, turn.reasoning = event.tool_calls, reasoning_to_return(event)
        return ConcludeTurn(turn, event.text)
    record_marks(t, decision, steers=False)
    turn.reasoning = reasoning_to_return(event)
    answer_emits(turn, event.text, event.tool_calls, emission_refusal(t.crew, turn.agent))
    return AskModel(turn)


def answer_emits(turn: Turn, text: str, emits: tuple[ToolRequest, ...], answer: str) -> None:
    """Adds a reply to its turn, with the outputs of the signals that it emitted by a tool."""
    turn.said.append(TurnMessage(role="assistant", text=text, tool_calls=emits, reasoning=turn.reasoning))
    turn.reasoning = ()
    turn.said += [TurnMessage(role="tool", text=answer, tool_call=emit.id) for emit in emits]


def record_marks(t: Transition, decision: Decision, *, steers: bool) -> None:
    for candidate in decision.candidates:
        chosen = steers and candidate.outcome in CHOSEN
        t.record(SignalSeen(agent=decision.agent, signal=candidate.signal, method=candidate.method, steers=chosen))
        if candidate.signal in t.table.deprecations:
            _warn_of_deprecation(t, decision.agent, candidate.signal)
    for refused in decision.rejected:
        t.record(
            SignalRejected(agent=decision.agent, mark=refused.mark, reason=refused.reason, nearest=refused.nearest)
        )


def _warn_of_deprecation(t: Transition, agent: str, signal: str) -> None:
    if t.state.rules >= 3:
        message = f"agent '{agent}' used deprecated signal '{signal}': {t.table.deprecations[signal]}"
        t.record(Warned(code="deprecated-signal", message=message))


def _calibrate(t: Transition, agent: str, event: ModelReplied) -> None:
    """Raises the agent's estimates, because the provider counted more tokens than estimated."""
    before = t.state.scales.get(agent, UNSCALED)
    t.state.scales[agent] = -(-before * event.usage.input_tokens // event.estimate)


def _warn_of_free_marks(t: Transition, event: ModelReplied) -> None:
    """Warns of a model that cannot be constrained, once per run and agent."""
    if event.agent not in t.state.unconstrained:
        t.state.unconstrained.append(event.agent)
        message = f"the model of {event.agent} cannot be held to its marks; they are looked for in its text instead"
        t.record(Warned(code="not-constrained", message=message))


def _warn_of_long_reply(t: Transition, turn: Turn, event: ModelReplied) -> None:
    """Warns of a reply that is too long to be searched for marks as a whole; advisory replies carry none."""
    if t.state.rules >= 3 and turn.kind not in ADVISORY_KINDS and t.settings.signal_mode != "tool":
        message = (
            f"the reply of {turn.agent} has {len(event.text):,} characters; its signals are looked for in the first "
            f"{READ_CHARS_MAX:,} and on its last line"
        )
        t.record(Warned(code="long-reply", message=message))


def nudge_agent(t: Transition, turn: Turn, reply: str, decision: Decision) -> Stage:
    turn.nudges += 1
    t.state.output = reply
    t.record(Nudged(agent=turn.agent, because=decision.because))
    answer_emits(turn, reply, turn.emits, EMITTED)
    turn.said.append(TurnMessage(role="user", text=nudge_text(t.crew, turn.agent, decision)))
    return AskModel(turn)
