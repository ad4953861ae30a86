"""Turns in runs whose agents exchange messages: delegation is called before a model call and around a conclusion.

Rule 1: other runs never enter this file: `Run.apply` gives their turns to `ask_model` and `route_reply` at once.
"""

from interlock.engine.delegation.hooks import after_conclusion, before_ask, before_conclusion
from interlock.engine.flow.control import route_reply
from interlock.engine.stages import AskModel, ConcludeTurn, Stage
from interlock.engine.state import Turn
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import ask_model


def ask(t: Transition, stage: AskModel) -> Stage | None:
    """Calls the model, unless delegation has something to do first."""
    return before_ask(t, stage.turn) or ask_model(t, stage)


def ask_immediately(t: Transition, turn: Turn) -> Stage | None:
    """Asks for one of several turns that begin together; returns what else follows from it."""
    stage: Stage | None = AskModel(turn)
    while isinstance(stage, AskModel):
        stage = ask(t, stage) if t.has_messaging else ask_model(t, stage)
    return stage


def conclude_turn(t: Transition, stage: ConcludeTurn) -> Stage | None:
    """Routes the reply, unless delegation has another use for it."""
    other = before_conclusion(t, stage)
    if other is not None:
        return other
    after = route_reply(t, stage)
    if not isinstance(after, AskModel):
        after_conclusion(t, stage.turn)
    return after
