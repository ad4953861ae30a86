"""Turns beside the run's own: agents act on broadcasts, and the floor stays where it is.

Rule 1: a side turn happens when the current turn, or group, is over and before the run goes on. Its reply joins
history, its tells fire, and its steering marks are only noted.
Rule 2: those who were called before the first of them began are heard. Whoever is called meanwhile comes after the
next turn, so that a run goes on however much is announced.
Rule 3: a side turn that fails is warned about, and the run goes on. One that never began because the run ends is
handed back to the bus, if the bus brought it.
"""

from typing import Any

import msgspec

from interlock.broadcast.record import Broadcast, Heard
from interlock.engine.beginning import first, hear, new_turn
from interlock.engine.effects import HandBack
from interlock.engine.events import BroadcastHeard, Warned
from interlock.engine.leaving import abandon_work, leave
from interlock.engine.moves import Begin, EndAside, Follow, Move, StepAside
from interlock.engine.state import Aside, SideTurn, Turn
from interlock.engine.transition import Transition
from interlock.limits import BROADCAST_HOPS_MAX


def call_aside(t: Transition, agent: str, signal: dict[str, Any], hops: int) -> None:
    """An agent that a broadcast of this run names gets a side turn, unless agents are waking each other."""
    if hops > BROADCAST_HOPS_MAX:
        return
    heard = Heard(broadcast=msgspec.convert({**signal, "createdAt": 0}, Broadcast), hops=hops)
    t.state.side.append(SideTurn(agent=agent, heard=heard, delivered=False))


def heard_aside(t: Transition, event: BroadcastHeard) -> None:
    t.state.side.append(SideTurn(agent=event.agent, heard=event.heard, delivered=True))


def aside_first(t: Transition, move: Move) -> Move:
    """Whoever was called aside comes before the run goes on, once a transition."""
    if not t.state.side or t.went_aside or not isinstance(move, Begin | Follow):
        return move
    t.went_aside = True
    return StepAside(move)


def step_aside(t: Transition, move: StepAside) -> Move | None:
    assert t.state.turn is None and t.state.group is None, "moves that go on are made when a turn or group is over"
    then, left = move.then, len(t.state.side)
    if isinstance(then, Begin):
        t.state.aside = Aside(left=left, begin=then.agent)
    else:
        t.state.aside = Aside(left=left, decision=then.decision, by_member=then.by_member)
    return EndAside()


def end_aside(t: Transition, move: EndAside) -> Move | None:
    """One side turn is over, or none has begun yet: the next one, or what the run goes on with."""
    aside = t.state.aside
    assert aside is not None, "only side turns end so"
    t.went_aside = True
    if move.error and t.state.turn is not None:
        _give_up(t, t.state.turn, move.error)
    t.state.turn = None
    if aside.left:
        t.state.aside = msgspec.structs.replace(aside, left=aside.left - 1)
        return _begun(t, t.state.side.pop(0))
    t.state.aside = None
    return Begin(aside.begin) if aside.decision is None else Follow(aside.decision, aside.by_member)


def _begun(t: Transition, side: SideTurn) -> Move | None:
    hear(t, side.agent, side.heard, "aside")
    turn = t.state.turn = new_turn(t, side.agent, side=True)
    turn.hops = max(turn.hops, side.heard.hops + 1)
    return first(t, turn)


def _give_up(t: Transition, turn: Turn, error: str) -> None:
    abandon_work(t, turn)
    t.state.waits = [wait for wait in t.state.waits if wait.turn != turn.number]
    leave(t, turn, failed=True)
    t.conclude(Warned(code="side-turn-failed", message=f"{turn.agent} could not act on a broadcast: {error}"))


def let_go_of_side_turns(t: Transition) -> None:
    """The run ends."""
    for side in t.state.side:
        if side.delivered:
            t.order(HandBack(key=t.new_key(), agent=side.agent, id=side.heard.broadcast.id))
        else:
            kind = side.heard.broadcast.type
            t.conclude(Warned(code="broadcast-unheard", message=f"the run ended before {side.agent} heard {kind}"))
    t.state.side, t.state.aside = [], None
