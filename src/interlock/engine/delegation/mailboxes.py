"""Messages within a run: sending, acknowledging, settling, and their timers.

Rule 1: every message is recorded when it is sent, even if it is refused.
Rule 2: every message is settled once; a settled message has no timer.
"""

from collections.abc import Iterator

from interlock.engine.events import MessageAcknowledged, MessageSent, MessageSettled
from interlock.engine.kinds import TimerKind
from interlock.engine.timers import drop_timer, start_timer
from interlock.engine.transition import ToolRefusal, Transition
from interlock.limits import MESSAGES_MAX
from interlock.messages.mailbox import (
    ANSWERED,
    REFUSED,
    TIMED_OUT,
    UNDELIVERED,
    Mailbox,
    MessageQueue,
    transfer_message,
)
from interlock.messages.refusals import MessageError, TooManyMessages
from interlock.messages.wire import (
    Answer,
    AnyMessage,
    Delegate,
    HostNote,
    HostRequest,
    Query,
    Report,
    RequestUserInput,
    UserResponse,
)

# Messages that are shown to a turn in progress.
TURN_MESSAGE_TYPES = (Report, Query, Answer, UserResponse, HostNote, HostRequest)


def mailbox(t: Transition, agent: str) -> Mailbox:
    """The agent's mailbox, created at first use; its agent counts as touched. People have one too."""
    box = t.state.mailboxes.get(agent)
    if box is None:
        tree = t.crew.delegation
        t.index.boxes[agent] = len(t.state.mailboxes)
        box = t.state.mailboxes[agent] = Mailbox(agent)
        t.has_messaging = True
        if tree is not None:
            box.ack_timeout_ms = int(tree.ack_timeout_seconds * 1000)
            box.answer_timeout_ms = int(tree.answer_timeout_seconds * 1000)
    t.touched[agent] = None
    return box


def short_id(message_id: str) -> str:
    """The id without the run, as models see it: it is the same in a fork."""
    return message_id.rpartition(":")[2]


def require_room(t: Transition, message_id: str) -> None:
    """Refuses a new conversation beyond the limit; answers always have room."""
    if t.state.messages >= MESSAGES_MAX:
        refusal = TooManyMessages(message_id, "messages of a run", MESSAGES_MAX)
        raise ToolRefusal(f"{refusal.code}: {refusal}")


def send_to_outbox(t: Transition, message: AnyMessage) -> None:
    t.state.messages += 1
    mailbox(t, message.sender).send(message, t.state.worked_ms)
    t.record(MessageSent(message=message.to_wire()))


def settle_message(
    t: Transition, message: AnyMessage, outcome: str, fault: MessageError | None = None, why: str = ""
) -> None:
    box, id_ = mailbox(t, message.sender), message.message_id
    if id_ in box.sent:
        box.settle(id_, outcome)
    _record_settlement(t, id_, outcome, fault, why)


def _record_settlement(t: Transition, id_: str, outcome: str, fault: MessageError | None = None, why: str = "") -> None:
    drop_timer(t, TimerKind.ACK.of(id_))
    drop_timer(t, TimerKind.ANSWER.of(id_))
    because = str(fault) if fault is not None else why
    t.record(MessageSettled(message_id=id_, outcome=outcome, code=fault.code if fault else "", because=because))


def send_and_refuse(t: Transition, message: AnyMessage, fault: MessageError) -> ToolRefusal:
    """Records a message as sent and refused; returns the refusal for the sender."""
    send_to_outbox(t, message)
    settle_message(t, message, REFUSED, fault)
    return ToolRefusal(f"{fault.code}: {fault}")


def send_and_deliver(t: Transition, message: AnyMessage) -> MessageError | None:
    """Sends a message to an addressee that receives it at once; returns the refusal, if any."""
    send_to_outbox(t, message)
    mailbox(t, message.addressee)
    refusal = transfer_message(t.state.mailboxes, message)
    if refusal is not None:
        _record_settlement(t, message.message_id, REFUSED, refusal)
        return refusal
    if message.answers:
        _record_settlement(t, message.answers, ANSWERED)
        _record_settlement(t, message.message_id, ANSWERED)
    else:
        t.record(MessageAcknowledged(message_id=message.message_id))
        if isinstance(message, HostNote) and not message.asks:
            _record_settlement(t, message.message_id, ANSWERED)
    return None


def receive_host_note(t: Transition, message: HostNote) -> None:
    """Acknowledges a host message when it is shown; one that needs no answer is settled."""
    sent = t.state.mailboxes[message.sender].sent.get(message.message_id)
    if sent is not None and not sent.acknowledged:
        acknowledge_message(t, message)
        if not message.asks:
            _record_settlement(t, message.message_id, ANSWERED)


def start_answer_timer(t: Transition, message: AnyMessage) -> None:
    start_timer(t, TimerKind.ANSWER.of(message.message_id), mailbox(t, message.sender).answer_timeout_ms)


def acknowledge_message(t: Transition, message: AnyMessage) -> None:
    mailbox(t, message.sender).acknowledge(message.message_id)
    drop_timer(t, TimerKind.ACK.of(message.message_id))
    t.record(MessageAcknowledged(message_id=message.message_id))


def acknowledge_once(t: Transition, message: AnyMessage) -> None:
    """Acknowledges a message that is not acknowledged yet."""
    sent = t.state.mailboxes[message.sender].sent.get(message.message_id)
    if sent is not None and not sent.acknowledged:
        acknowledge_message(t, message)


def open_messages(t: Transition, agent: str) -> list[AnyMessage]:
    """Messages of the agent that have no answer yet, the oldest first."""
    box = t.state.mailboxes.get(agent)
    return list(box.pending_responses.values()) if box is not None else []


def count_open(t: Transition, agent: str, *kinds: type[AnyMessage]) -> int:
    """The number of the agent's messages of these kinds without an answer."""
    box = t.state.mailboxes.get(agent)
    return box.count_open(*kinds) if box is not None else 0


def open_tasks(t: Transition, agent: str) -> Iterator[Delegate]:
    box = t.state.mailboxes.get(agent)
    sent = box.sent.values() if box is not None else ()
    return (each.message for each in sent if isinstance(each.message, Delegate))


def is_waiting_for_person(t: Transition, agent: str) -> bool:
    return count_open(t, agent, RequestUserInput) > 0


def is_waiting_for_parent(t: Transition, agent: str) -> bool:
    return count_open(t, agent, Query) > 0


def has_new_messages(t: Transition, agent: str, *kinds: type[AnyMessage]) -> bool:
    """Whether messages of these kinds came for the agent's turn; tasks wait until the agent is free."""
    box = t.state.mailboxes.get(agent)
    return box is not None and box.count_in_inbox(*(kinds or TURN_MESSAGE_TYPES)) > 0


def take_new_messages(t: Transition, agent: str) -> list[AnyMessage]:
    """Removes the messages for the agent's turn from its inbox, the oldest first."""
    if not has_new_messages(t, agent):
        return []
    box = mailbox(t, agent)
    news: list[AnyMessage] = [message for message in box.inbox if isinstance(message, TURN_MESSAGE_TYPES)]
    box.inbox = MessageQueue(message for message in box.inbox if not isinstance(message, TURN_MESSAGE_TYPES))
    return news


def settle_all(t: Transition, agent: str, why: str, *, notes: bool = False) -> None:
    """Settles the agent's messages, and clears those it has to answer. Without `notes`, notes stay open."""
    if agent not in t.state.mailboxes:
        return
    box = mailbox(t, agent)
    for sent in list(box.sent.values()):
        if isinstance(sent.message, HostNote) and not sent.message.asks and not notes:
            continue
        settle_message(t, sent.message, TIMED_OUT if sent.acknowledged else UNDELIVERED, why=why)
        withdraw_message(t, sent.message)
    take_new_messages(t, agent)
    box.owes.clear()


def withdraw_message(t: Transition, message: AnyMessage) -> None:
    """Removes a message from its addressee's inbox, and from those it has to answer."""
    if message.addressee not in t.state.mailboxes:
        return
    box = mailbox(t, message.addressee)
    box.owes.pop(message.message_id, None)
    if message in box.inbox:
        box.inbox.remove(message)
