"""After a reply: what it carries is written down, and what was decided is done."""

import hashlib

from interlock.crew.definition import Route
from interlock.engine.announcing import publish
from interlock.engine.effects import Tell
from interlock.engine.emitting import emitted
from interlock.engine.events import (
    Decided,
    ExternalSent,
    HandedOver,
    LimitReached,
    RunFinished,
)
from interlock.engine.moves import Begin, Call, CloseBranch, Conclude, Depart, EndAside, Finish, Follow, Fork, Move
from interlock.engine.nesting import stop_child
from interlock.engine.parting import end_conversations
from interlock.engine.routing import Decision, Outcome, OwnReply, Verb
from interlock.engine.side_turns import let_go_of_side_turns
from interlock.engine.spending import abandon_call
from interlock.engine.state import Ending, Turn
from interlock.engine.timing import drop_timer
from interlock.engine.transition import Transition
from interlock.engine.turns import NUDGES_MAX, note_marks, nudged
from interlock.engine.unanswered import give_up_tools
from interlock.engine.waiting import wait_for
from interlock.signals.definition import SignalBehavior

# The same reply of the same agent, this often within the window, is a loop.
EQUAL_REPLIES_MAX = 3


def conclude(t: Transition, move: Conclude) -> Move:
    turn, reply = move.turn, move.reply
    decision = t.table.decide(OwnReply(turn.agent, reply, emitted(turn.emits)))
    branch = t.branch_of(turn)
    if branch is not None:  # members only note their marks; the join decides
        note_marks(t, decision, steers=False)
        fire_tells(t, turn, decision, reply, waits=False)
        branch.reply = reply
        return CloseBranch(branch, "ok")
    if t.state.aside is not None:
        return _concluded_aside(t, turn, decision, reply)
    if decision.then == "nudge" and decision.signal and turn.nudges >= NUDGES_MAX:
        decision = t.table.winner_of(decision)  # the allowance is spent, so the winner is taken after all
    note_marks(t, decision, steers=decision.verb is not None)
    write_down(t, decision)
    fire_tells(t, turn, decision, reply)
    if decision.then == "nudge" and turn.nudges < NUDGES_MAX:
        return nudged(t, turn, reply, decision)
    t.remember("assistant", turn.agent, reply, turn.number)
    t.state.output = reply
    if decision.verb is None:
        return Finish("failed", decision.because)
    t.state.turn = None
    return Follow(decision)


def _concluded_aside(t: Transition, turn: Turn, decision: Decision, reply: str) -> Move:
    """The floor stays where it is, so marks that steer are only noted."""
    note_marks(t, decision, steers=False)
    fire_tells(t, turn, decision, reply, waits=False)
    t.remember("assistant", turn.agent, reply, turn.number)
    return EndAside()


def write_down(t: Transition, decision: Decision) -> None:
    t.conclude(
        Decided(
            agent=decision.agent,
            verb=decision.verb,
            signal=decision.signal,
            target=decision.target,
            because=decision.because,
            candidates=decision.candidates,
        )
    )


def fire_tells(t: Transition, turn: Turn, decision: Decision, reply: str, *, waits: bool = True) -> None:
    """Each once a turn, though a reply is said again after a nudge. What would wait, and may not, is told as well."""
    for candidate in decision.candidates:
        route = t.table.route(decision.agent, candidate.signal)
        is_told = candidate.outcome is Outcome.TOLD or (not waits and route.behavior is SignalBehavior.EXTERNAL)
        if is_told and route.signal not in turn.told:
            turn.told.append(route.signal)
            _tell(t, turn, route, reply)


def _tell(t: Transition, turn: Turn, route: Route, reply: str) -> None:
    if route.behavior is SignalBehavior.EXTERNAL:
        send_external(t, turn.agent, route.signal, reply)
    else:
        publish(t, turn, route, reply)


def send_external(t: Transition, agent: str, signal: str, reply: str, token: str = "") -> None:
    """With a token the host is asked for an answer."""
    waits = bool(token)
    t.conclude(ExternalSent(signal=signal, agent=agent, content=reply, requires_response=waits))
    t.order(Tell(key=t.new_key(), signal=signal, agent=agent, content=reply, requires_response=waits, token=token))


def follow(t: Transition, move: Follow) -> Move | None:
    decision = move.decision
    if decision.held:
        return wait_for(t, decision, f"held:{decision.signal}")
    if decision.signal and _too_often(t, decision.signal):
        return Finish("stopped", "max_occurs")
    match decision.verb:
        case Verb.END:
            return Finish("completed", f"signal:{decision.signal}" if decision.signal else decision.because)
        case Verb.AWAIT:
            return _await(t, decision)
        case _:
            return Depart(decision, move.by_member)


def _too_often(t: Transition, signal: str) -> bool:
    most = t.table.max_occurs(signal)
    t.state.steered[signal] = t.state.steered.get(signal, 0) + 1
    if most is None or t.state.steered[signal] <= most:
        return False
    t.conclude(LimitReached(limit="max_occurs"))
    return True


def _await(t: Transition, decision: Decision) -> Move | None:
    if not decision.signal:
        return wait_for(t, decision, decision.because)
    route = t.table.route(decision.agent, decision.signal)
    if route.behavior is SignalBehavior.EXTERNAL:
        token = t.new_token()
        send_external(t, decision.agent, decision.signal, t.state.output, token)
        return wait_for(t, decision, f"external:{decision.signal}", token)
    return wait_for(t, decision, f"signal:{decision.signal}")


def depart(t: Transition, move: Depart) -> Move | None:
    """Every transfer of control passes here, so that the bound holds for all of them."""
    decision = move.decision
    if t.state.handoffs >= t.settings.max_handoffs:
        t.conclude(LimitReached(limit="max_handoffs"))
        return Finish("stopped", "max_handoffs")
    if not move.by_member and _is_loop(t, decision.agent):
        t.conclude(LimitReached(limit="loop_detected"))
        return Finish("stopped", "loop_detected")
    t.state.handoffs += 1
    if decision.verb is Verb.FORK:
        return Fork(decision)
    if decision.verb is Verb.CALL:
        return Call(decision)
    t.conclude(HandedOver(origin=decision.agent, to=decision.target, signal=decision.signal))
    return Begin(decision.target)


def _is_loop(t: Transition, agent: str) -> bool:
    window, now = t.settings.loop_window, t.state.handoffs
    if not window:
        return False
    digest = hashlib.sha256(t.state.output.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    endings = t.state.endings
    equal = endings.setdefault(f"{agent}:{digest}", [])
    equal.append(now)
    if len(endings) > 2 * window:
        t.state.endings = {key: seen for key, seen in endings.items() if seen[-1] > now - window}
    return len(equal) >= EQUAL_REPLIES_MAX and equal[-EQUAL_REPLIES_MAX] > now - window


def finish(t: Transition, move: Finish) -> None:
    """Nothing that belongs to a run outlives it: with children still at work it ends when they have stopped.

    A parked run that comes to its end is not parked any more.
    """
    t.state.parked, t.state.is_set_aside = "", False
    for turn in t.turns():
        abandon_call(t, turn)
        give_up_tools(t, turn)
    let_go_of_side_turns(t)
    for child in t.children():
        stop_child(t, child)
    for wait in t.state.waits:
        t.give_up(wait.alarm)
    end_conversations(t, move)
    for purpose in list(t.state.timers):
        drop_timer(t, purpose)
    t.state.waits, t.state.turn, t.state.group, t.state.calling = [], None, None, None
    if t.state.leaving:
        t.state.status = "running"
        t.state.ending = Ending(status=move.status, reason=move.reason, above=move.above, detail=move.detail)
    else:
        _end(t, move)


def _end(t: Transition, move: Finish) -> None:
    t.state.ending = None
    t.state.status, t.state.reason, t.state.above = move.status, move.reason, move.above
    t.state.detail = move.detail
    t.state.text = t.table.without_marks(t.state.output)
    t.conclude(
        RunFinished(
            status=move.status,
            reason=move.reason,
            agent=t.state.agent,
            output=t.state.output,
            text=t.state.text,
            usage=t.state.usage,
            above=move.above,
            detail=move.detail,
        )
    )
