"""The start of a turn: broadcasts in its agent's inbox are claimed and shown first.

Rule 1: a broadcast is shown as an entry by the system with its data in a frame: it has no authority.
Rule 2: claiming the inbox is an effect with a key; the model is asked after its answer.
"""

import msgspec

from interlock.broadcast.record import ReceivedBroadcast
from interlock.engine.delegation.agent_states import set_agent_state
from interlock.engine.effects import AckInbox, ClaimInbox
from interlock.engine.events import BroadcastDelivered, BroadcastHeard, MailTaken, MessageGiven, TurnStarted
from interlock.engine.kinds import RunStatus
from interlock.engine.prompt.phrases import How, broadcast_entry, broadcast_entry_of_rules_2
from interlock.engine.stages import AskModel, Stage, StartTurn
from interlock.engine.state import RunState, Turn, turns_by
from interlock.engine.transition import Transition
from interlock.messages.states import Cause


def start_turn(t: Transition, stage: StartTurn) -> Stage | None:
    turn = t.state.turn = new_turn(t, stage.agent)
    t.state.agent = stage.agent
    return claim_inbox_or_ask(t, turn)


def new_turn(t: Transition, agent: str, *, side: bool = False) -> Turn:
    state = t.state
    number = state.turns = state.turns + 1
    t.record(TurnStarted(agent=agent, turn=number, side=side))
    if t.has_messaging or agent in t.table.messaging_agents:
        set_agent_state(t, agent, Cause.TASK)
    return Turn(number=number, agent=agent, history=len(state.history), hops=state.hops)


def claim_inbox_or_ask(t: Transition, turn: Turn) -> Stage | None:
    """Claims the inbox if it holds broadcasts, else asks the model."""
    if turn.agent not in t.mail:
        return AskModel(turn)
    turn.taking = t.new_key()
    t.emit(ClaimInbox(key=turn.taking, agent=turn.agent))
    return None


def turn_claiming_inbox(t: Transition, event: MailTaken) -> Turn | None:
    return next((turn for turn in turns_by(t.state, event.agent) if turn.taking == event.call), None)


def accepts_broadcasts(state: RunState) -> bool:
    """Whether the run may get a broadcast: it is running and not ending."""
    return state.status is RunStatus.RUNNING and state.ending is None


def is_stale_broadcast(t: Transition, event: BroadcastHeard | MailTaken | MessageGiven) -> bool:
    if isinstance(event, BroadcastHeard):
        return not accepts_broadcasts(t.state)
    if isinstance(event, MessageGiven):
        return t.state.ending is not None or (event.key != "" and event.key in t.state.given)
    return turn_claiming_inbox(t, event) is None


def on_mail_taken(t: Transition, event: MailTaken) -> Stage:
    turn = turn_claiming_inbox(t, event)
    assert turn is not None, "stale answers are rejected before"
    turn.taking = ""
    t.emit(AckInbox(key=event.call))
    for each in event.heard:
        show_broadcast(t, turn.agent, each, "silent")
        turn.hops = max(turn.hops, each.hops + 1)
    turn.history = len(t.state.history)
    return AskModel(turn)


def show_broadcast(t: Transition, agent: str, heard: ReceivedBroadcast, how: How) -> None:
    """Adds a broadcast to history: silently with a turn, for a side turn, or as the start of the run."""
    name = t.budgets[agent].agent.name
    write = broadcast_entry if t.state.rules >= 3 else broadcast_entry_of_rules_2
    said = write(t.settings.language, heard.broadcast, name, how)
    t.add_history("user", "system", said.text, t.state.turns, said.frames)
    signal = msgspec.to_builtins(heard.broadcast)
    if not heard.broadcast.created_at:  # it was published in this run; the journal has its time
        del signal["createdAt"]
    t.record(BroadcastDelivered(agent=agent, signal=signal, silent=how == "silent"))
