"""Control flow after a reply: its signals are recorded, and the decision is carried out."""

from msgspec import UNSET

from interlock.engine.budgets.spending import cancel_call_and_reservation
from interlock.engine.effects import SendExternalSignal
from interlock.engine.events import (
    Decided,
    ExternalSent,
    HandedOver,
    LimitReached,
    RunFinished,
)
from interlock.engine.flow.sub_crews import stop_child
from interlock.engine.flow.waits import open_wait
from interlock.engine.kinds import RunStatus, WaitKind, WorkStatus
from interlock.engine.outputs.checked_reply import CheckedReply, check_reply, repair_or_fail
from interlock.engine.outstanding import check_output_effect
from interlock.engine.publish import publish_reply
from interlock.engine.routing.candidates import HAND_OVER, TOLD, TRANSFERS, Candidate, Verb
from interlock.engine.routing.decision import Decision, OwnReply
from interlock.engine.routing.emit_signal import emission_names
from interlock.engine.stages import (
    ApplyDecision,
    CallSubCrews,
    CloseBranch,
    ConcludeTurn,
    EndSideTurn,
    FinishRun,
    Stage,
    StartGroup,
    StartTurn,
)
from interlock.engine.state import Branch, PendingEnd, Turn
from interlock.engine.timers import drop_all_timers
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import end_conversations
from interlock.engine.turns.replies import NUDGES_MAX, nudge_agent, record_marks
from interlock.engine.turns.side_turns import hand_back_side_turns
from interlock.engine.turns.unanswered import cancel_tools
from interlock.signals.definition import SignalBehavior

# Ends whose output was meant for the caller; that of a failed or cancelled run is only its last reply.
_WITH_OUTPUT = (RunStatus.COMPLETED, RunStatus.STOPPED)

# The same reply of the same agent, this often within the window, is a loop.
EQUAL_REPLIES_MAX = 3


def route_reply(t: Transition, stage: ConcludeTurn) -> Stage:
    state, turn, reply = t.state, stage.turn, stage.reply
    checked = check_reply(t, turn, reply) if t.table.outputs else None
    text = reply if checked is None else checked.beside
    own = OwnReply(turn.agent, text, emission_names(turn.emits) if turn.emits else ())
    decision = t.table.decide(own)
    branch = t.branch_of(turn) if state.group is not None else None
    if branch is not None:
        return _close_member(t, branch, own, decision, reply, checked)
    if state.aside is not None:
        return _route_side_reply(t, turn, decision, reply)
    if decision.then == "nudge" and decision.signal and turn.nudges >= NUDGES_MAX:
        decision = t.table.winner_of(decision)  # no nudge is left, so the winner counts
    if checked is not None and (fault := checked.fault_in(ends=decision.verb is Verb.END)):
        record_marks(t, decision, steers=False)
        return repair_or_fail(t, turn, reply, fault, None)
    record_marks(t, decision, steers=decision.verb is not None)
    record_decision(t, decision)
    fire_tells(t, turn, decision, reply)
    if decision.then == "nudge" and turn.nudges < NUDGES_MAX:
        return nudge_agent(t, turn, reply, decision)
    t.add_history("assistant", turn.agent, reply, turn.number)
    state.output = reply
    if t.table.outputs:
        keep_value(t, checked)
    if decision.verb is None:
        return FinishRun(RunStatus.FAILED, decision.because)
    state.turn = None
    return ApplyDecision(decision)


def _close_member(
    t: Transition, branch: Branch, own: OwnReply, decision: Decision, reply: str, checked: CheckedReply | None
) -> Stage:
    """Closes the branch of a member. Its marks are only recorded; the join decides."""
    turn = branch.turn
    assert turn is not None, "the branch was found by its turn"
    record_marks(t, decision, steers=False)
    if checked is not None:
        if fault := checked.fault_in(ends=_can_end_group(t, own)):
            return repair_or_fail(t, turn, reply, fault, branch)
        branch.value, branch.value_text = checked.value, checked.read.text
    fire_tells(t, turn, decision, reply, waits=False)
    branch.reply = reply
    return CloseBranch(branch, WorkStatus.OK)


def _can_end_group(t: Transition, own: OwnReply) -> bool:
    """Whether the marks of a member may end the run when its group joins."""
    group = t.state.group
    assert group is not None, "only members have branches"
    decision = None if t.crew.groups[group.name].next_agent else t.table.member_decision(own)
    return decision is not None and decision.verb is Verb.END


def keep_value(t: Transition, checked: CheckedReply | Branch | None) -> None:
    """Keeps the value of the reply that decides what comes next; without one there is no value."""
    match checked:
        case Branch():
            t.state.value, t.state.value_text = checked.value, checked.value_text
        case CheckedReply(fault=""):
            t.state.value, t.state.value_text = checked.value, checked.read.text
        case _:
            t.state.value, t.state.value_text = UNSET, ""


def _route_side_reply(t: Transition, turn: Turn, decision: Decision, reply: str) -> Stage:
    """Records the reply of a side turn; its marks steer nothing."""
    record_marks(t, decision, steers=False)
    fire_tells(t, turn, decision, reply, waits=False)
    t.add_history("assistant", turn.agent, reply, turn.number)
    return EndSideTurn()


def record_decision(t: Transition, decision: Decision) -> None:
    t.record(
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
    """Fires each notification once per turn. Without `waits`, external signals that would wait only notify."""
    for candidate in decision.candidates:
        if candidate.outcome is TOLD or not waits:
            _fire_tell(t, turn, candidate, reply)


def _fire_tell(t: Transition, turn: Turn, candidate: Candidate, reply: str) -> None:
    route = t.table.route(turn.agent, candidate.signal)
    is_external = route.behavior is SignalBehavior.EXTERNAL
    if route.signal in turn.told or not (is_external or candidate.outcome is TOLD):
        return
    turn.told.append(route.signal)
    if is_external:
        send_external(t, turn.agent, route.signal, reply)
    else:
        publish_reply(t, turn, route, reply)


def send_external(t: Transition, agent: str, signal: str, reply: str, token: str = "") -> None:
    """Sends an external signal; with a token the host is asked for an answer."""
    waits = bool(token)
    t.record(ExternalSent(signal=signal, agent=agent, content=reply, requires_response=waits))
    t.emit(
        SendExternalSignal(
            key=t.new_key(), signal=signal, agent=agent, content=reply, requires_response=waits, token=token
        )
    )


def apply_decision(t: Transition, stage: ApplyDecision) -> Stage | None:
    decision, signal = stage.decision, stage.decision.signal
    if decision.held:
        return open_wait(t, decision, WaitKind.HELD.reason(signal))
    if signal:
        times = t.state.steered[signal] = t.state.steered.get(signal, 0) + 1
        if times > t.table.max_occurs.get(signal, times):
            t.record(LimitReached(limit="max_occurs"))
            return FinishRun(RunStatus.STOPPED, "max_occurs")
    if decision.verb in TRANSFERS:
        return transfer_control(t, decision, by_member=stage.by_member)
    if decision.verb is Verb.END:
        return FinishRun(RunStatus.COMPLETED, f"signal:{signal}" if signal else decision.because)
    return _open_wait_for_signal(t, decision)


def _open_wait_for_signal(t: Transition, decision: Decision) -> Stage | None:
    if not decision.signal:
        return open_wait(t, decision, str(WaitKind.NO_SIGNAL))
    route = t.table.route(decision.agent, decision.signal)
    if route.behavior is SignalBehavior.EXTERNAL:
        token = t.new_token()
        send_external(t, decision.agent, decision.signal, t.state.output, token)
        return open_wait(t, decision, WaitKind.EXTERNAL.reason(decision.signal), token)
    return open_wait(t, decision, WaitKind.SIGNAL.reason(decision.signal))


def transfer_control(t: Transition, decision: Decision, *, by_member: bool) -> Stage:
    """Hands control to an agent, a group or sub-crews. Every transfer passes here, so that max_handoffs counts all."""
    if t.state.handoffs >= t.settings.max_handoffs:
        t.record(LimitReached(limit="max_handoffs"))
        return FinishRun(RunStatus.STOPPED, "max_handoffs")
    if not by_member and _is_loop(t, decision.agent):
        t.record(LimitReached(limit="loop_detected"))
        return FinishRun(RunStatus.STOPPED, "loop_detected")
    t.state.handoffs += 1
    if decision.verb is not HAND_OVER:
        return StartGroup(decision) if decision.verb is Verb.FORK else CallSubCrews(decision)
    t.record(HandedOver(origin=decision.agent, to=decision.target, signal=decision.signal))
    return StartTurn(decision.target)


def _is_loop(t: Transition, agent: str) -> bool:
    window, now = t.settings.loop_window, t.state.handoffs
    if not window:
        return False
    endings = t.state.endings.setdefault(agent, {})
    equal = endings.setdefault(t.state.output, [])
    equal.append(now)
    if len(endings) > 2 * window:
        t.state.endings[agent] = {reply: seen for reply, seen in endings.items() if seen[-1] > now - window}
    return len(equal) >= EQUAL_REPLIES_MAX and equal[-EQUAL_REPLIES_MAX] > now - window


def finish_run(t: Transition, stage: FinishRun) -> None:
    """Ends the run and everything in it; with children at work, the end is recorded when they have stopped."""
    t.state.parked, t.state.is_set_aside = "", False
    for turn in t.turns():
        cancel_call_and_reservation(t, turn)
        cancel_tools(t, turn)
    hand_back_side_turns(t)
    for child in t.children():
        stop_child(t, child)
    for wait in t.state.waits:
        t.cancel(wait.alarm)
    if t.state.ending is not None and not stage.checked:  # hooks are asked about an output that is of no use now
        t.cancel(t.state.ending.checking)
    end_conversations(t, stage)
    drop_all_timers(t)
    t.state.waits, t.state.turn, t.state.group, t.state.calling = [], None, None, None
    if t.state.leaving:
        t.state.status = RunStatus.RUNNING
        t.state.ending = PendingEnd(status=stage.status, reason=stage.reason, above=stage.above, detail=stage.detail)
    else:
        _record_end(t, stage)


def _check_output(t: Transition, stage: FinishRun) -> None:
    """Asks the hooks of the host about the output before the run ends."""
    t.state.status = RunStatus.RUNNING
    t.state.ending = PendingEnd(
        status=stage.status, reason=stage.reason, above=stage.above, detail=stage.detail, checking=t.new_key()
    )
    t.emit(check_output_effect(t.state.ending))


def _record_end(t: Transition, stage: FinishRun) -> None:
    if t.state.checks_output and not stage.checked and stage.status in _WITH_OUTPUT:
        _check_output(t, stage)
        return
    t.state.ending = None
    t.state.status, t.state.reason, t.state.above = stage.status, stage.reason, stage.above
    t.state.detail = stage.detail
    value = t.state.value if stage.status is RunStatus.COMPLETED else UNSET
    t.state.text = t.table.without_marks(t.state.output) if value is UNSET else t.state.value_text
    t.record(
        RunFinished(
            status=str(stage.status),
            reason=stage.reason,
            agent=t.state.agent,
            output=t.state.output,
            text=t.state.text,
            usage=t.state.usage,
            above=stage.above,
            detail=stage.detail,
            value=value,
        )
    )
