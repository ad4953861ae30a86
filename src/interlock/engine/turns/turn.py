"""A turn: it starts, asks its model until a reply ends it, and concludes.

Rule 1: in runs whose agents exchange messages, delegation is called before a model call and before a conclusion. Other
runs never enter it.
"""

from interlock.engine.delegation.hooks import after_conclusion, before_ask, before_conclusion
from interlock.engine.flow.control import route_reply
from interlock.engine.moves import Ask, ConcludeTurn, Move, StartTurn
from interlock.engine.state import Turn
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import ask_model
from interlock.engine.turns.start import claim_inbox_or_ask, new_turn


def start_turn(t: Transition, move: StartTurn) -> Move | None:
    t.state.turn = new_turn(t, move.agent)
    t.state.agent = move.agent
    return claim_inbox_or_ask(t, t.state.turn)


def ask(t: Transition, move: Ask) -> Move | None:
    """Calls the model, unless delegation has something to do first."""
    first = before_ask(t, move.turn) if t.has_messaging else None
    return first or ask_model(t, move)


def ask_immediately(t: Transition, turn: Turn) -> Move | None:
    """Asks for one of several turns that begin together; returns what else follows from it."""
    move: Move | None = Ask(turn)
    while isinstance(move, Ask):
        move = ask(t, move)
    return move


def conclude_turn(t: Transition, move: ConcludeTurn) -> Move | None:
    """Routes the reply, unless delegation has another use for it."""
    other = before_conclusion(t, move) if t.has_messaging else None
    if other is not None:
        return other
    after = route_reply(t, move)
    if t.has_messaging and not isinstance(after, Ask):
        after_conclusion(t, move.turn)
    return after
