"""How a turn begins: with what is in its agent's inbox, if the driver says that there is something.

Rule 1: what an agent hears is an entry by the system, its data in a frame: it has no authority.
Rule 2: taking mail is an order with a key, answered by an event; only then the model is asked.
"""

import msgspec

from interlock.broadcast.record import Heard
from interlock.engine.effects import MailRead, TakeMail
from interlock.engine.events import BroadcastDelivered, BroadcastHeard, MailTaken, MessageGiven, TurnStarted
from interlock.engine.moves import Ask, Move
from interlock.engine.phrases import How, envelope, envelope_of_rules_2
from interlock.engine.standing import moved
from interlock.engine.state import RunState, Turn, turns_by
from interlock.engine.transition import Transition
from interlock.messages.states import Cause


def new_turn(t: Transition, agent: str, *, side: bool = False) -> Turn:
    t.state.turns += 1
    t.conclude(TurnStarted(agent=agent, turn=t.state.turns, side=side))
    moved(t, agent, Cause.TASK)
    return Turn(number=t.state.turns, agent=agent, history=len(t.state.history), hops=t.state.hops)


def first(t: Transition, turn: Turn) -> Move | None:
    """The first thing that a turn does."""
    if turn.agent not in t.mail:
        return Ask(turn)
    turn.taking = t.new_key()
    t.order(TakeMail(key=turn.taking, agent=turn.agent))
    return None


def turn_that_takes(t: Transition, event: MailTaken) -> Turn | None:
    return next((turn for turn in turns_by(t.state, event.agent) if turn.taking == event.call), None)


def can_hear(state: RunState) -> bool:
    """A run that waits for a person is not woken by a broadcast, and one that is ending hears none."""
    return state.status == "running" and state.ending is None


def comes_too_late(t: Transition, event: BroadcastHeard | MailTaken | MessageGiven) -> bool:
    if isinstance(event, BroadcastHeard):
        return not can_hear(t.state)
    if isinstance(event, MessageGiven):
        return t.state.ending is not None or (event.key != "" and event.key in t.state.given)
    return turn_that_takes(t, event) is None


def mail_taken(t: Transition, event: MailTaken) -> Move:
    turn = turn_that_takes(t, event)
    assert turn is not None, "stale answers are turned away before"
    turn.taking = ""
    t.order(MailRead(key=event.call))
    for each in event.heard:
        hear(t, turn.agent, each, "silent")
        turn.hops = max(turn.hops, each.hops + 1)
    turn.history = len(t.state.history)
    return Ask(turn)


def hear(t: Transition, agent: str, heard: Heard, how: How) -> None:
    """Silently, with a turn that begins anyway; called aside; or with the floor, if the run starts because of it."""
    name = t.budgets.of(agent).agent.name
    write = envelope if t.state.rules >= 3 else envelope_of_rules_2
    said = write(t.settings.language, heard.broadcast, name, how)
    t.remember("user", "system", said.text, t.state.turns, said.frames)
    signal = msgspec.to_builtins(heard.broadcast)
    if not heard.broadcast.created_at:  # it was announced in this run: when, the journal says
        del signal["createdAt"]
    t.conclude(BroadcastDelivered(agent=agent, signal=signal, silent=how == "silent"))
