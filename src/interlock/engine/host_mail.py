"""Messages of the host's own types: `send_message`, `answer_message`, and what the host itself sends.

Rule 1: types were written down when the run started; nothing else is asked, so a replay needs no registry.
Rule 2: an agent with a turn under way receives a message at once. Any other receives it with its next turn, and until
then `ack_timeout_seconds` runs: sent again once, then undelivered.
Rule 3: what asks is answered by an ANSWER, within `answer_timeout_seconds`.
"""

from typing import Annotated, Any

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.events import MessageGiven
from interlock.engine.mail import expect_answer, mailbox, require_room, send, send_now, short
from interlock.engine.moves import Move
from interlock.engine.state import RunState, Turn, turn_of
from interlock.engine.timing import ACK, start_timer
from interlock.engine.transition import Refusal, Transition
from interlock.errors import nearest
from interlock.limits import MESSAGES_MAX
from interlock.messages.host_types import MessageType, require_body
from interlock.messages.refusals import BadMessage, TooManyMessages
from interlock.messages.wire import HOST, Answer, HostNote, HostRequest

SEND_MESSAGE, ANSWER_MESSAGE = "send_message", "answer_message"


class SendMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, msgspec.Meta(description="Which type of message.")]
    to: Annotated[str, msgspec.Meta(description="The agent that it is for.")]
    body: Annotated[dict[str, Any], msgspec.Meta(description="What the type asks for.")] = {}


class AnswerMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer: str
    message_id: Annotated[str, msgspec.Meta(description="Which one; may be left out where there is only one.")] = ""


def require_sendable(state: RunState, crew: Crew, kind: str, sender: str, to: str, body: Any) -> MessageType:
    """`BadMessage` for an unknown type, a body that does not fit, and who may not send it to whom."""
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


def require_given(state: RunState, crew: Crew, event: MessageGiven) -> None:
    """Before it is stored: a run that is over, a full one, and what `require_sendable` refuses."""
    if state.status not in ("running", "paused") or state.ending is not None:
        raise BadMessage(f"run '{state.run}' is {state.status if state.ending is None else 'ending'}; nobody reads it")
    if state.messages >= MESSAGES_MAX:
        raise TooManyMessages(f"{state.run}:m{state.messages + 1}", "messages of a run", MESSAGES_MAX)
    require_sendable(state, crew, event.kind, HOST, event.to, event.body)


def message_given(t: Transition, event: MessageGiven) -> Move | None:
    """The driver has looked whether it can be sent."""
    made = t.state.message_types[event.kind]
    turn = turn_of(t.state, event.to)
    if t.state.status == "paused" and turn is not None and turn.suspended:
        t.go_on()
    message = _send(t, made, HOST, event.to, event.body)
    if event.key:
        t.state.given[event.key] = message.message_id
    return None


def send_message(t: Transition, turn: Turn, given: SendMessage) -> str:
    require_room(t, t.new_message_id())
    try:
        made = require_sendable(t.state, t.crew, given.type, turn.agent, given.to, given.body)
    except BadMessage as fault:
        raise Refusal(f"{fault.code}: {fault}") from fault
    message = _send(t, made, turn.agent, given.to, given.body)
    then = "; the answer will come to you" if message.asks else ""
    return f"message {short(message.message_id)} is on its way to {given.to}{then}"


def _send(t: Transition, made: MessageType, sender: str, to: str, body: dict[str, Any]) -> HostNote:
    kind = HostRequest if made.requires_response else HostNote
    message = kind(message_id=t.new_message_id(), kind=made.type, from_=sender, to=to, body=body)
    if turn_of(t.state, to) is not None:
        send_now(t, message)
    else:
        send(t, message)
        mailbox(t, sender).outbox.remove(message)
        mailbox(t, to).deliver(message)
        start_timer(t, f"{ACK}{message.message_id}", mailbox(t, sender).ack_timeout_ms)
    if message.asks:
        expect_answer(t, message)
    return message


def answer_message(t: Transition, turn: Turn, given: AnswerMessage) -> str:
    asked = [each for each in mailbox(t, turn.agent).owes.values() if isinstance(each, HostRequest)]
    meant = [each for each in asked if not given.message_id or short(each.message_id) == short(given.message_id)]
    if len(meant) != 1:
        names = ", ".join(short(each.message_id) for each in asked) or "none"
        raise Refusal(f"wrong-conversation: which message is meant? open are: {names}")
    (message,) = meant
    answer = Answer(
        message_id=t.new_message_id(),
        from_=turn.agent,
        to=message.sender,
        answer=given.answer,
        in_response_to=message.message_id,
    )
    fault = send_now(t, answer)
    if fault is not None:
        raise Refusal(f"{fault.code}: {fault}")
    if message.sender == HOST:
        mailbox(t, HOST).receive()  # the host reads it in the journal
    return f"{message.sender} has your answer to {short(message.message_id)}"


def about_types(state: RunState, agent: str) -> str:
    """What a model is told of the types that it may send."""
    known = [each for each in state.message_types.values() if each.may_send(agent)]
    lines = [f"{each.type} to {', '.join(each.to)}: {msgspec.json.encode(each.schema).decode()}" for each in known]
    return "\n".join(lines)
