"""Side turns: agents act on broadcasts, and the current agent stays current.

Rule 1: side turns run after the current turn or group, before the run continues. A reply is added to history, its
notifications fire, and its steering marks are only recorded.
Rule 2: side turns that are queued while others run come after the next turn, so that the run always continues.
Rule 3: a side turn that fails is a warning, and the run continues. One that never began because the run ends is
returned to the bus, if it came from there.
"""

from typing import Any

import msgspec

from interlock.broadcast.record import Broadcast, ReceivedBroadcast
from interlock.engine.effects import HandBackBroadcast
from interlock.engine.events import BroadcastHeard, Warned
from interlock.engine.stages import ApplyDecision, EndSideTurn, Stage, StartSideTurns, StartTurn
from interlock.engine.state import AfterSideTurns, SideTurn, Turn
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import abort_turn, cancel_turn_work
from interlock.engine.turns.start import claim_inbox_or_ask, new_turn, show_broadcast
from interlock.limits import BROADCAST_HOPS_MAX


def queue_target_side_turn(t: Transition, agent: str, signal: dict[str, Any], hops: int) -> None:
    """Queues a side turn for a target of this run's broadcast, unless too many broadcasts led to it."""
    if hops > BROADCAST_HOPS_MAX:
        return
    heard = ReceivedBroadcast(broadcast=msgspec.convert({**signal, "createdAt": 0}, Broadcast), hops=hops)
    t.state.side.append(SideTurn(agent=agent, heard=heard, delivered=False))


def queue_side_turn(t: Transition, event: BroadcastHeard) -> None:
    t.state.side.append(SideTurn(agent=event.agent, heard=event.heard, delivered=True))


def insert_side_turns(t: Transition, stage: Stage) -> Stage:
    """Puts queued side turns before a stage that continues the run, once per transition."""
    if not t.state.side or t.went_aside or not isinstance(stage, StartTurn | ApplyDecision):
        return stage
    t.went_aside = True
    return StartSideTurns(stage)


def start_side_turns(t: Transition, stage: StartSideTurns) -> Stage | None:
    assert t.state.turn is None and t.state.group is None, "the run continues only when a turn or group is over"
    then, left = stage.then, len(t.state.side)
    if isinstance(then, StartTurn):
        t.state.aside = AfterSideTurns(left=left, begin=then.agent)
    else:
        t.state.aside = AfterSideTurns(left=left, decision=then.decision, by_member=then.by_member)
    return EndSideTurn()


def end_side_turn(t: Transition, stage: EndSideTurn) -> Stage | None:
    """Ends a side turn; starts the next one, or continues the run."""
    aside = t.state.aside
    assert aside is not None, "only a side turn ends this way"
    t.went_aside = True
    if stage.error and t.state.turn is not None:
        _cancel_side_turn(t, t.state.turn, stage.error)
    t.state.turn = None
    if aside.left:
        t.state.aside = msgspec.structs.replace(aside, left=aside.left - 1)
        return _start_next_side_turn(t, t.state.side.pop(0))
    t.state.aside = None
    return StartTurn(aside.begin) if aside.decision is None else ApplyDecision(aside.decision, aside.by_member)


def _start_next_side_turn(t: Transition, side: SideTurn) -> Stage | None:
    show_broadcast(t, side.agent, side.heard, "aside")
    turn = t.state.turn = new_turn(t, side.agent, side=True)
    turn.hops = max(turn.hops, side.heard.hops + 1)
    return claim_inbox_or_ask(t, turn)


def _cancel_side_turn(t: Transition, turn: Turn, error: str) -> None:
    cancel_turn_work(t, turn)
    t.state.waits = [wait for wait in t.state.waits if wait.turn != turn.number]
    abort_turn(t, turn, failed=True)
    t.record(Warned(code="side-turn-failed", message=f"{turn.agent} could not act on a broadcast: {error}"))


def hand_back_side_turns(t: Transition) -> None:
    """Returns queued side turns to the bus, because the run ends."""
    for side in t.state.side:
        if side.delivered:
            t.emit(HandBackBroadcast(key=t.new_key(), agent=side.agent, id=side.heard.broadcast.id))
        else:
            kind = side.heard.broadcast.type
            t.record(Warned(code="broadcast-unheard", message=f"the run ended before {side.agent} heard {kind}"))
    t.state.side, t.state.aside = [], None
