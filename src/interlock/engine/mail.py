"""Mail within a run: sending, acknowledging, settling, and the deadlines of both.

Rule 1: what is sent is written down before anything comes of it, also what is refused.
Rule 2: every message is settled once; what is settled has no timer any more.
"""

from collections.abc import Iterator

from interlock.engine.events import MessageAcknowledged, MessageSent, MessageSettled
from interlock.engine.timing import ACK, ANSWER, drop_timer, start_timer
from interlock.engine.transition import Refusal, Transition
from interlock.limits import MESSAGES_MAX
from interlock.messages.mailbox import ANSWERED, REFUSED, TIMED_OUT, UNDELIVERED, AgentMailbox, Letters, post
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

# What a turn is shown when it comes.
NEWS = (Report, Query, Answer, UserResponse, HostNote, HostRequest)


def mailbox(t: Transition, agent: str) -> AgentMailbox:
    """The agent's, to change something in it; made when it is first used. People have one too."""
    box = t.state.mailboxes.get(agent)
    if box is None:
        tree = t.crew.delegation
        t.index.boxes[agent] = len(t.state.mailboxes)
        box = t.state.mailboxes[agent] = AgentMailbox(agent)
        if tree is not None:
            box.ack_timeout_ms = int(tree.ack_timeout_seconds * 1000)
            box.answer_timeout_ms = int(tree.answer_timeout_seconds * 1000)
    t.touched[agent] = None
    return box


def short(message_id: str) -> str:
    """As models see it: a fork has another run before it."""
    return message_id.rpartition(":")[2]


def require_room(t: Transition, message_id: str) -> None:
    """Whoever begins a conversation asks first; answers always have room."""
    if t.state.messages >= MESSAGES_MAX:
        refusal = TooManyMessages(message_id, "messages of a run", MESSAGES_MAX)
        raise Refusal(f"{refusal.code}: {refusal}")


def send(t: Transition, message: AnyMessage) -> None:
    t.state.messages += 1
    mailbox(t, message.sender).send(message, t.state.worked_ms)
    t.conclude(MessageSent(message=message.to_wire()))


def settle(t: Transition, message: AnyMessage, outcome: str, fault: MessageError | None = None, why: str = "") -> None:
    box, id_ = mailbox(t, message.sender), message.message_id
    if id_ in box.sent:
        box.settle(id_, outcome)
    _settled(t, id_, outcome, fault, why)


def _settled(t: Transition, id_: str, outcome: str, fault: MessageError | None = None, why: str = "") -> None:
    drop_timer(t, f"{ACK}{id_}")
    drop_timer(t, f"{ANSWER}{id_}")
    because = str(fault) if fault is not None else why
    t.conclude(MessageSettled(message_id=id_, outcome=outcome, code=fault.code if fault else "", because=because))


def send_refused(t: Transition, message: AnyMessage, fault: MessageError) -> Refusal:
    """It is written down, and its sender is told why nobody gets it."""
    send(t, message)
    settle(t, message, REFUSED, fault)
    return Refusal(f"{fault.code}: {fault}")


def send_now(t: Transition, message: AnyMessage) -> MessageError | None:
    """To somebody who takes it up at once; the refusal, if it is not taken."""
    send(t, message)
    mailbox(t, message.addressee)
    refusal = post(t.state.mailboxes, message)
    if refusal is not None:
        _settled(t, message.message_id, REFUSED, refusal)
        return refusal
    if message.answers:
        _settled(t, message.answers, ANSWERED)
        _settled(t, message.message_id, ANSWERED)
    else:
        t.conclude(MessageAcknowledged(message_id=message.message_id))
        if isinstance(message, HostNote) and not message.asks:
            _settled(t, message.message_id, ANSWERED)
    return None


def receive(t: Transition, message: HostNote) -> None:
    """Its addressee is shown it, perhaps long after it was sent; what asks for nothing is settled by that."""
    sent = t.state.mailboxes[message.sender].sent.get(message.message_id)
    if sent is not None and not sent.acknowledged:
        acknowledged(t, message)
        if not message.asks:
            _settled(t, message.message_id, ANSWERED)


def expect_answer(t: Transition, message: AnyMessage) -> None:
    start_timer(t, f"{ANSWER}{message.message_id}", mailbox(t, message.sender).answer_timeout_ms)


def acknowledged(t: Transition, message: AnyMessage) -> None:
    mailbox(t, message.sender).acknowledge(message.message_id)
    drop_timer(t, f"{ACK}{message.message_id}")
    t.conclude(MessageAcknowledged(message_id=message.message_id))


def acknowledge_once(t: Transition, message: AnyMessage) -> None:
    """Unless it was acknowledged before."""
    sent = t.state.mailboxes[message.sender].sent.get(message.message_id)
    if sent is not None and not sent.acknowledged:
        acknowledged(t, message)


# What a turn waits for, and what is there for it


def open_messages(t: Transition, agent: str) -> list[AnyMessage]:
    """What the agent has asked and has no answer to, the oldest first."""
    box = t.state.mailboxes.get(agent)
    return list(box.pending_responses.values()) if box is not None else []


def has_open(t: Transition, agent: str, *kinds: type[AnyMessage]) -> int:
    """How much of this the agent has sent and has no answer to."""
    box = t.state.mailboxes.get(agent)
    return box.has_open(*kinds) if box is not None else 0


def open_tasks(t: Transition, agent: str) -> Iterator[Delegate]:
    box = t.state.mailboxes.get(agent)
    sent = box.sent.values() if box is not None else ()
    return (each.message for each in sent if isinstance(each.message, Delegate))


def waits_for_person(t: Transition, agent: str) -> bool:
    return has_open(t, agent, RequestUserInput) > 0


def waits_for_parent(t: Transition, agent: str) -> bool:
    return has_open(t, agent, Query) > 0


def has_news(t: Transition, agent: str, *kinds: type[AnyMessage]) -> bool:
    """Whether something of this came for the agent's turn; tasks wait until the agent is free."""
    box = t.state.mailboxes.get(agent)
    return box is not None and box.has_in_inbox(*(kinds or NEWS)) > 0


def take_out_news(t: Transition, agent: str) -> list[AnyMessage]:
    """What came for the agent's turn, the oldest first; it is in the inbox no more."""
    if not has_news(t, agent):
        return []
    box = mailbox(t, agent)
    news: list[AnyMessage] = [message for message in box.inbox if isinstance(message, NEWS)]
    box.inbox = Letters(message for message in box.inbox if not isinstance(message, NEWS))
    return news


def settle_all(t: Transition, agent: str, why: str, *, notes: bool = False) -> None:
    """The agent waits for nothing any more, and owes nothing. Notes that nobody waits for stay under way."""
    if agent not in t.state.mailboxes:
        return
    box = mailbox(t, agent)
    for sent in list(box.sent.values()):
        if isinstance(sent.message, HostNote) and not sent.message.asks and not notes:
            continue
        settle(t, sent.message, TIMED_OUT if sent.acknowledged else UNDELIVERED, why=why)
        forget(t, sent.message)
    take_out_news(t, agent)
    box.owes.clear()


def forget(t: Transition, message: AnyMessage) -> None:
    """Nobody waits for an answer to it, so nobody owes one, and what was not taken up is not taken up any more."""
    if message.addressee not in t.state.mailboxes:
        return
    box = mailbox(t, message.addressee)
    box.owes.pop(message.message_id, None)
    if message in box.inbox:
        box.inbox.remove(message)
