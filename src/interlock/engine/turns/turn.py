"""Turns in runs whose agents exchange messages: delegation is called before a model call and around a conclusion.

Rule 1: other runs never enter this file: `Run.apply` gives their turns to `ask_model` and `route_reply` at once.
"""

from interlock.engine.delegation.hooks import after_conclusion, before_ask, before_conclusion
from interlock.engine.flow.control import route_reply
from interlock.engine.moves import Ask, ConcludeTurn, Move
from interlock.engine.state import Turn
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import ask_model


def ask(t: Transition, move: Ask) -> Move | None:
    """Calls the model, unless delegation has something to do first."""
    return before_ask(t, move.turn) or ask_model(t, move)


def ask_immediately(t: Transition, turn: Turn) -> Move | None:
    """Asks for one of several turns that begin together; returns what else follows from it."""
    move: Move | None = Ask(turn)
    while isinstance(move, Ask):
        move = ask(t, move) if t.has_messaging else ask_model(t, move)
    return move


def conclude_turn(t: Transition, move: ConcludeTurn) -> Move | None:
    """Routes the reply, unless delegation has another use for it."""
    other = before_conclusion(t, move)
    if other is not None:
        return other
    after = route_reply(t, move)
    if not isinstance(after, Ask):
        after_conclusion(t, move.turn)
    return after
