"""Messages of the host's own types: `send_message`, `answer_message`, and messages from the host.

Rule 1: the run's first event holds the types, so a replay needs no registry.
Rule 2: an agent with a turn in progress receives a message at once, any other with its next turn. Until then
`ack_timeout_seconds` runs: the message is sent again once, then it is undelivered.
Rule 3: a message that needs an answer gets an ANSWER within `answer_timeout_seconds`.
"""

from typing import Annotated, Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.delegation.mailboxes import (
    mailbox,
    require_room,
    send_and_deliver,
    send_to_outbox,
    short_id,
    start_answer_timer,
)
from interlock.engine.events import MessageGiven
from interlock.engine.kinds import RunStatus, TimerKind
from interlock.engine.stages import Stage
from interlock.engine.state import RunState, Turn, turn_of
from interlock.engine.timers import start_timer
from interlock.engine.transition import ToolRefusal, Transition
from interlock.errors import nearest
from interlock.limits import MESSAGES_MAX
from interlock.messages.host_types import MessageType, require_body
from interlock.messages.refusals import BadMessage, TooManyMessages
from interlock.messages.wire import HOST, Answer, HostNote, HostRequest

SEND_MESSAGE, ANSWER_MESSAGE = "send_message", "answer_message"


class SendMessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, msgspec.Meta(description="The type of the message.")]
    to: Annotated[str, msgspec.Meta(description="The agent that it is for.")]
    body: Annotated[dict[str, Any], msgspec.Meta(description="The body, as the type requires.")] = {}


class AnswerMessageArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: str
    message_id: Annotated[str, msgspec.Meta(description="The id of the message; optional if there is only one.")] = ""


def require_sendable(state: RunState, crew: CrewDefinition, kind: str, sender: str, to: str, body: Any) -> MessageType:
    """Raises `BadMessage` for an unknown type, a bad body, or a sender or addressee that is not allowed."""
    made = require_body(state.message_types, kind, body)
    if not made.may_send(sender):
        who = "the program" if sender == HOST else f"'{sender}'"
        raise BadMessage(f"{who} may not send {kind}; it comes from {', '.join(made.from_)}")
    if to not in crew.agent_ids:
        advice = nearest(to, crew.agent_ids, f"it has {', '.join(crew.agent_ids)}")
        raise BadMessage(f"crew '{crew.name}' has no agent '{to}'; {advice}")
    if not made.may_receive(to) or to == sender:
        raise BadMessage(f"{kind} may not go from {sender} to '{to}'; it goes to {', '.join(made.to)}")
    return made


def require_given(state: RunState, crew: CrewDefinition, event: MessageGiven) -> None:
    """Checks a message before it is stored: the run is open, has room, and `require_sendable` allows it."""
    if state.status not in (RunStatus.RUNNING, RunStatus.PAUSED) or state.ending is not None:
        raise BadMessage(
            f"run '{state.run}' is {state.status if state.ending is None else 'ending'}; it accepts no messages"
        )
    if state.messages >= MESSAGES_MAX:
        raise TooManyMessages(f"{state.run}:m{state.messages + 1}", "messages of a run", MESSAGES_MAX)
    require_sendable(state, crew, event.kind, HOST, event.to, event.body)


def on_message_given(t: Transition, event: MessageGiven) -> Stage | None:
    """Sends a message of the host; the driver has checked it."""
    made = t.state.message_types[event.kind]
    turn = turn_of(t.state, event.to)
    if t.state.status is RunStatus.PAUSED and turn is not None and turn.suspended:
        t.mark_running()
    message = _send_host_message(t, made, HOST, event.to, event.body)
    if event.key:
        t.state.given[event.key] = message.message_id
    return None


def send_message(t: Transition, turn: Turn, given: SendMessageArguments) -> str:
    require_room(t, t.new_message_id())
    try:
        made = require_sendable(t.state, t.crew, given.type, turn.agent, given.to, given.body)
    except BadMessage as fault:
        raise ToolRefusal(f"{fault.code}: {fault}") from fault
    message = _send_host_message(t, made, turn.agent, given.to, given.body)
    then = "; the answer will come to you" if message.asks else ""
    return f"message {short_id(message.message_id)} is on its way to {given.to}{then}"


def _send_host_message(t: Transition, made: MessageType, sender: str, to: str, body: dict[str, Any]) -> HostNote:
    kind = HostRequest if made.requires_response else HostNote
    message = kind(message_id=t.new_message_id(), kind=made.type, from_=sender, to=to, body=body)
    if turn_of(t.state, to) is not None:
        send_and_deliver(t, message)
    else:
        send_to_outbox(t, message)
        mailbox(t, sender).outbox.remove(message)
        mailbox(t, to).deliver(message)
        start_timer(t, TimerKind.ACK.of(message.message_id), mailbox(t, sender).ack_timeout_ms)
    if message.asks:
        start_answer_timer(t, message)
    return message


def answer_message(t: Transition, turn: Turn, given: AnswerMessageArguments) -> str:
    asked = [each for each in mailbox(t, turn.agent).owes.values() if isinstance(each, HostRequest)]
    meant = [each for each in asked if not given.message_id or short_id(each.message_id) == short_id(given.message_id)]
    if len(meant) != 1:
        names = ", ".join(short_id(each.message_id) for each in asked) or "none"
        raise ToolRefusal(f"wrong-conversation: which message is meant? open are: {names}")
    (message,) = meant
    answer = Answer(
        message_id=t.new_message_id(),
        from_=turn.agent,
        to=message.sender,
        answer=given.answer,
        in_response_to=message.message_id,
    )
    fault = send_and_deliver(t, answer)
    if fault is not None:
        raise ToolRefusal(f"{fault.code}: {fault}")
    if message.sender == HOST:
        mailbox(t, HOST).receive()  # the host reads it in the journal
    return f"{message.sender} has your answer to {short_id(message.message_id)}"


def describe_message_types(state: RunState, agent: str) -> str:
    """The message types that an agent may send, as its model sees them."""
    known = [each for each in state.message_types.values() if each.may_send(agent)]
    lines = [f"{each.type} to {', '.join(each.to)}: {msgspec.json.encode(each.schema).decode()}" for each in known]
    return "\n".join(lines)
