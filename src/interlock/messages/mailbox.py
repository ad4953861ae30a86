"""The mailbox of one agent: its inbox, its outbox, open replies and their deadlines.

Rule 1: acknowledged means received. An answer is something else, and each has its own deadline.
Rule 2: time is passed as a value. Nothing here waits; the caller knows the time and asks what is overdue.
Rule 3: every message that was sent is settled once, as answered, refused, undelivered or timed out. One that asks for
nothing is answered when it is received.
Rule 4: a message is recognised by its id. A second one with the same id is a duplicate.
"""

from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from types import MappingProxyType
from typing import Any, Self

import msgspec

from interlock.messages.refusals import (
    DuplicateMessage,
    LateMessage,
    MessageRefused,
    OutOfTurn,
    UnknownAddressee,
    WrongConversation,
)
from interlock.messages.wire import AnyMessage, answer_type_of

ACK_TIMEOUT_MS = 30_000
ANSWER_TIMEOUT_MS = 600_000

# How often a message that is not acknowledged is sent again; after that it is undelivered.
RESENDS_MAX = 1

ANSWERED, REFUSED, UNDELIVERED, TIMED_OUT = "answered", "refused", "undelivered", "timed_out"
OUTCOMES = (ANSWERED, REFUSED, UNDELIVERED, TIMED_OUT)


class MessageQueue:
    """Messages in order of arrival. It knows how many of each type it has."""

    def __init__(self, messages: Iterable[AnyMessage] = ()) -> None:
        self._messages = list(messages)
        self._counts = Counter(map(type, self._messages))

    def put(self, message: AnyMessage) -> None:
        self._messages.append(message)
        self._counts[type(message)] += 1

    def get(self) -> AnyMessage:
        """Takes out the oldest message."""
        return self._take(0)

    def remove(self, message: AnyMessage) -> None:
        """Takes out a message. The search begins at the newest, which is the one that is usually removed."""
        self._take(-1 if self._messages and self._messages[-1] is message else self._messages.index(message))

    def _take(self, index: int) -> AnyMessage:
        message = self._messages.pop(index)
        self._counts[type(message)] -= 1
        return message

    def count_of(self, *kinds: type[AnyMessage]) -> int:
        return sum(self._counts.get(kind, 0) for kind in kinds)

    def empty(self) -> bool:
        return not self._messages

    def qsize(self) -> int:
        return len(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[AnyMessage]:
        return iter(self._messages)

    def __contains__(self, message: object) -> bool:
        return message in self._messages

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageQueue) and self._messages == other._messages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MessageQueue({self._messages!r})"


class UnsettledMessage(msgspec.Struct, kw_only=True):
    """A message that is not settled yet."""

    message: AnyMessage
    sent_ms: int
    ack_due_ms: int
    answer_due_ms: int
    sends: int = 1
    acknowledged: bool = False


class UnsettledMessages:
    """Sent messages that are not settled, by id. It knows how many of each type it has."""

    def __init__(self, sent: Mapping[str, UnsettledMessage] = MappingProxyType({})) -> None:
        self._sent = dict(sent)
        self._counts = Counter(type(each.message) for each in self._sent.values())

    def add(self, sent: UnsettledMessage) -> None:
        """Adds a message that was never sent before: `Mailbox.send` refuses duplicates."""
        self._sent[sent.message.message_id] = sent
        self._counts[type(sent.message)] += 1

    def remove(self, message_id: str) -> None:
        self._counts[type(self._sent.pop(message_id).message)] -= 1

    def get(self, message_id: str) -> UnsettledMessage | None:
        return self._sent.get(message_id)

    def count_of(self, *kinds: type[AnyMessage]) -> int:
        return sum(self._counts.get(kind, 0) for kind in kinds)

    def values(self) -> ValuesView[UnsettledMessage]:
        return self._sent.values()

    def items(self) -> ItemsView[str, UnsettledMessage]:
        return self._sent.items()

    def __getitem__(self, message_id: str) -> UnsettledMessage:
        return self._sent[message_id]

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._sent

    def __iter__(self) -> Iterator[str]:
        return iter(self._sent)

    def __len__(self) -> int:
        return len(self._sent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsettledMessages) and self._sent == other._sent

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"UnsettledMessages({self._sent!r})"


def as_plain_messages(value: object) -> object:
    """The list or mapping of a message collection, as snapshots show it; for `enc_hook` of msgspec.

    msgspec asks for `NotImplementedError` where a type is none of these, here and in the inverse.
    """
    if isinstance(value, MessageQueue):
        return list(value)
    if isinstance(value, UnsettledMessages):
        return dict(value.items())
    raise NotImplementedError(f"no plain form of {type(value).__name__}")


def from_plain_messages(kind: type, value: Any) -> object:
    """The inverse of `as_plain_messages`; for `dec_hook` of msgspec."""
    if kind is MessageQueue:
        return MessageQueue(msgspec.convert(value, list[AnyMessage]))
    if kind is UnsettledMessages:
        return UnsettledMessages(msgspec.convert(value, dict[str, UnsettledMessage]))
    raise NotImplementedError(f"no plain form of {kind.__name__}")


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that has passed: the message was sent again, or is settled by `outcome`."""

    message: AnyMessage
    outcome: str = ""


class Mailbox(msgspec.Struct):
    """The mailbox of one agent."""

    agent_id: str
    ack_timeout_ms: int = ACK_TIMEOUT_MS
    answer_timeout_ms: int = ANSWER_TIMEOUT_MS
    inbox: MessageQueue = msgspec.field(default_factory=MessageQueue)
    outbox: MessageQueue = msgspec.field(default_factory=MessageQueue)
    sent: UnsettledMessages = msgspec.field(default_factory=UnsettledMessages)
    owes: dict[str, AnyMessage] = {}  # messages that others wait for an answer to
    received: dict[str, str] = {}  # the type of each received message, by id
    settled: dict[str, str] = {}  # the outcome of each sent message, by id

    def count_in_inbox(self, *kinds: type[AnyMessage]) -> int:
        """The number of messages of these types in the inbox."""
        return self.inbox.count_of(*kinds)

    def count_open(self, *kinds: type[AnyMessage]) -> int:
        """The number of messages of these types that were sent and are not settled."""
        return self.sent.count_of(*kinds)

    @property
    def pending_responses(self) -> dict[str, AnyMessage]:
        """The sent messages that still wait for an answer."""
        return {id_: sent.message for id_, sent in self.sent.items() if sent.message.asks}

    # Sending

    def send(self, message: AnyMessage, now_ms: int = 0) -> None:
        """Puts a message into the outbox; its deadlines for acknowledgement and answer start now."""
        id_ = message.message_id
        if message.sender != self.agent_id:
            raise WrongConversation(id_, f"'{self.agent_id}' cannot send what is from '{message.sender}'")
        if id_ in self.sent or id_ in self.settled:
            raise DuplicateMessage(id_)
        self.sent.add(
            UnsettledMessage(
                message=message,
                sent_ms=now_ms,
                ack_due_ms=now_ms + self.ack_timeout_ms,
                answer_due_ms=now_ms + self.answer_timeout_ms,
            )
        )
        self.outbox.put(message)
        self.owes.pop(message.answers, None)

    def acknowledge(self, message_id: str, response: AnyMessage | None = None) -> None:
        """Records that the addressee has received a message; with a response, that it has answered too."""
        sent = self._require_unsettled(message_id)
        if response is not None:
            self._require_answer(response)
            if response.answers != message_id:
                raise WrongConversation(response.message_id, f"it answers '{response.answers}', and not '{message_id}'")
            self.settle(message_id, ANSWERED)
            self.received[response.message_id] = response.type
        elif sent.message.asks:
            sent.acknowledged = True
        else:
            self.settle(message_id, ANSWERED)

    def settle(self, message_id: str, outcome: str) -> None:
        """Records the outcome of a message, once, and removes it from the outbox."""
        assert outcome in OUTCOMES, "a message ends in one of four ways"
        message = self._require_unsettled(message_id).message
        while message in self.outbox:
            self.outbox.remove(message)
        self.sent.remove(message_id)
        self.settled[message_id] = outcome

    def _require_unsettled(self, message_id: str) -> UnsettledMessage:
        sent = self.sent.get(message_id)
        if sent is None and message_id in self.settled:
            raise LateMessage(message_id, message_id, self.settled[message_id])
        if sent is None:
            raise WrongConversation(message_id, f"'{self.agent_id}' has sent no message '{message_id}'")
        return sent

    # Receiving

    def deliver(self, message: AnyMessage) -> bool:
        """Puts a message into the inbox; false if it came before. Raises a refusal if it is not valid here or now."""
        if message.addressee != self.agent_id:
            raise UnknownAddressee(message.message_id, message.addressee, [self.agent_id])
        if message.message_id in self.received:
            if self.received[message.message_id] != message.type:
                raise DuplicateMessage(message.message_id)
            return False
        if message.answers:
            self._require_answer(message)
            self.settle(message.answers, ANSWERED)
        self.received[message.message_id] = message.type
        self.inbox.put(message)
        if message.asks:
            self.owes[message.message_id] = message
        return True

    def _require_answer(self, message: AnyMessage) -> None:
        """Refuses an answer unless its question is open, its type is right, and its sender is the one who was asked."""
        id_, to = message.message_id, message.answers
        if to in self.settled:
            raise LateMessage(id_, to, self.settled[to])
        if to not in self.sent:
            raise WrongConversation(id_, f"it answers '{to}', which '{self.agent_id}' never sent")
        asked = self.sent[to].message
        if answer_type_of(asked) != message.type:
            raise OutOfTurn(
                id_, f"a {asked.type} is answered by {answer_type_of(asked) or 'nothing'}, not {message.type}"
            )
        if asked.addressee != message.sender:
            raise WrongConversation(id_, f"'{to}' was sent to '{asked.addressee}', and '{message.sender}' answers it")

    def receive(self) -> AnyMessage | None:
        """Takes the oldest message out of the inbox; None if it is empty."""
        return self.inbox.get() if self.inbox else None

    # Deadlines

    def on_ack_timeout(self, message_id: str) -> str:
        """Sends an unacknowledged message again; the next time it is undelivered. Returns that outcome, or ''."""
        sent = self._require_unsettled(message_id)
        if sent.sends > RESENDS_MAX:
            self.settle(message_id, UNDELIVERED)
            return UNDELIVERED
        sent.sends += 1
        self.outbox.put(sent.message)
        return ""

    def on_answer_timeout(self, message_id: str) -> None:
        self.settle(message_id, TIMED_OUT)

    def expire_overdue(self, now_ms: int) -> list[Overdue]:
        """All deadlines that have passed by now, with their consequences."""
        passed = []
        for id_, sent in list(self.sent.items()):
            if not sent.acknowledged and now_ms >= sent.ack_due_ms:
                passed.append(Overdue(message=sent.message, outcome=self.on_ack_timeout(id_)))
                sent.ack_due_ms = now_ms + self.ack_timeout_ms
            elif sent.acknowledged and now_ms >= sent.answer_due_ms:
                self.on_answer_timeout(id_)
                passed.append(Overdue(message=sent.message, outcome=TIMED_OUT))
        return passed

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next deadline."""
        due = [sent.answer_due_ms if sent.acknowledged else sent.ack_due_ms for sent in self.sent.values()]
        return min(due, default=None)

    # Keeping

    def snapshot(self) -> object:
        """The mailbox as plain JSON values."""
        return msgspec.to_builtins(self, enc_hook=as_plain_messages)

    @classmethod
    def restore(cls, snapshot: object) -> Self:
        return msgspec.convert(snapshot, cls, dec_hook=from_plain_messages)


def transfer_message(mailboxes: dict[str, Mailbox], message: AnyMessage) -> MessageRefused | None:
    """Delivers a message from its sender's outbox to its addressee's inbox, and returns the acknowledgement.

    A refusal settles the message and is returned, so that the caller can record it.
    """
    sender = mailboxes[message.sender]
    try:
        if message.addressee not in mailboxes:
            raise UnknownAddressee(message.message_id, message.addressee, tuple(mailboxes))
        mailboxes[message.addressee].deliver(message)
    except MessageRefused as refusal:
        sender.settle(message.message_id, REFUSED)
        return refusal
    finally:
        if message in sender.outbox:
            sender.outbox.remove(message)
    if message.message_id in sender.sent:
        sender.acknowledge(message.message_id)
    return None
