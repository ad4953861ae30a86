"""One agent's mail: what came in, what goes out, which replies are owed, and until when.

Rule 1: acknowledged means received. An answer is something else, and each has a deadline of its own.
Rule 2: time comes in as a value. Nothing here waits; whoever knows the time asks what is overdue.
Rule 3: every message that was sent is settled once, as answered, refused, undelivered or timed out. One that asks for
nothing is answered when it is received.
Rule 4: a message is recognised by its id. The second of the same id is the first one again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self, SupportsIndex

import msgspec

from interlock.messages.refusals import (
    DuplicateMessage,
    LateMessage,
    MessageRefused,
    OutOfTurn,
    UnknownAddressee,
    WrongConversation,
)
from interlock.messages.wire import AnyMessage, answered_by

ACK_TIMEOUT_MS = 30_000
ANSWER_TIMEOUT_MS = 600_000

# A message that is not acknowledged is sent again so often, and then is undelivered.
RESENDS_MAX = 1

ANSWERED, REFUSED, UNDELIVERED, TIMED_OUT = "answered", "refused", "undelivered", "timed_out"
OUTCOMES = (ANSWERED, REFUSED, UNDELIVERED, TIMED_OUT)


class Letters(list[AnyMessage]):
    """Messages in the order in which they came, and how many there are of each type."""

    def __init__(self, messages: Iterable[AnyMessage] = ()) -> None:
        super().__init__(messages)
        self._counts = Counter(type(message) for message in self)

    def count_of(self, *kinds: type[AnyMessage]) -> int:
        return sum(self._counts.get(kind, 0) for kind in kinds)

    def append(self, message: AnyMessage) -> None:
        super().append(message)
        self._counts[type(message)] += 1

    def pop(self, index: SupportsIndex = -1) -> AnyMessage:
        message = super().pop(index)
        self._counts[type(message)] -= 1
        return message

    def remove(self, message: AnyMessage) -> None:
        """The newest is looked at first: it is the one that is most often taken back."""
        self.pop(-1 if self and self[-1] is message else self.index(message))

    def put(self, message: AnyMessage) -> None:
        self.append(message)

    def get(self) -> AnyMessage:
        return self.pop(0)

    def empty(self) -> bool:
        return not self

    def qsize(self) -> int:
        return len(self)


class Sent(msgspec.Struct, kw_only=True):
    """A message that is not settled yet."""

    message: AnyMessage
    sent_ms: int
    ack_due_ms: int
    answer_due_ms: int
    sends: int = 1
    acknowledged: bool = False


class Unsettled(dict[str, Sent]):
    """What was sent and is not settled, by its id, and how many there are of each type."""

    def __init__(self, sent: Mapping[str, Sent] | None = None) -> None:
        super().__init__(sent or {})
        self._counts = Counter(type(each.message) for each in self.values())

    def count_of(self, *kinds: type[AnyMessage]) -> int:
        return sum(self._counts.get(kind, 0) for kind in kinds)

    def __setitem__(self, id_: str, sent: Sent) -> None:
        super().__setitem__(id_, sent)
        self._counts[type(sent.message)] += 1

    def __delitem__(self, id_: str) -> None:
        self._counts[type(self[id_].message)] -= 1
        super().__delitem__(id_)


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that has passed: the message was sent again, or is settled by `outcome`."""

    message: AnyMessage
    outcome: str = ""


class AgentMailbox(msgspec.Struct):
    """The mail of one agent."""

    agent_id: str
    ack_timeout_ms: int = ACK_TIMEOUT_MS
    answer_timeout_ms: int = ANSWER_TIMEOUT_MS
    inbox: list[AnyMessage] = msgspec.field(default_factory=Letters)
    outbox: list[AnyMessage] = msgspec.field(default_factory=Letters)
    sent: dict[str, Sent] = msgspec.field(default_factory=Unsettled)
    owes: dict[str, AnyMessage] = {}  # what others wait for an answer to
    received: dict[str, str] = {}  # the type of what came in, by id
    settled: dict[str, str] = {}  # what became of what was sent, by id

    def __post_init__(self) -> None:
        self.inbox, self.outbox, self.sent = Letters(self.inbox), Letters(self.outbox), Unsettled(self.sent)

    def has_in_inbox(self, *kinds: type[AnyMessage]) -> int:
        """How many of these types came and were not taken out."""
        assert isinstance(self.inbox, Letters), "made so, and kept so"
        return self.inbox.count_of(*kinds)

    def has_open(self, *kinds: type[AnyMessage]) -> int:
        """How many of these types were sent and are not settled."""
        assert isinstance(self.sent, Unsettled), "made so, and kept so"
        return self.sent.count_of(*kinds)

    @property
    def pending_responses(self) -> dict[str, AnyMessage]:
        """What was sent, asks for an answer, and has none yet."""
        return {id_: sent.message for id_, sent in self.sent.items() if sent.message.asks}

    # Sending

    def send(self, message: AnyMessage, now_ms: int = 0) -> None:
        """Into the outbox; from now on its acknowledgement is owed, and an answer if it asks for one."""
        id_ = message.message_id
        if message.sender != self.agent_id:
            raise WrongConversation(id_, f"'{self.agent_id}' cannot send what is from '{message.sender}'")
        if id_ in self.sent or id_ in self.settled:
            raise DuplicateMessage(id_)
        self.sent[id_] = Sent(
            message=message,
            sent_ms=now_ms,
            ack_due_ms=now_ms + self.ack_timeout_ms,
            answer_due_ms=now_ms + self.answer_timeout_ms,
        )
        self.outbox.append(message)
        self.owes.pop(message.answers, None)

    def acknowledge(self, message_id: str, response: AnyMessage | None = None) -> None:
        """The addressee has received it; with a response it has answered as well."""
        sent = self._sent(message_id)
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
        """What became of a message; once. What is settled is not on its way any more."""
        assert outcome in OUTCOMES, "a message ends in one of four ways"
        message = self._sent(message_id).message
        while message in self.outbox:
            self.outbox.remove(message)
        del self.sent[message_id]
        self.settled[message_id] = outcome

    def _sent(self, message_id: str) -> Sent:
        sent = self.sent.get(message_id)
        if sent is None and message_id in self.settled:
            raise LateMessage(message_id, message_id, self.settled[message_id])
        if sent is None:
            raise WrongConversation(message_id, f"'{self.agent_id}' has sent no message '{message_id}'")
        return sent

    # Receiving

    def deliver(self, message: AnyMessage) -> bool:
        """Into the inbox, and True; False if it came before. A typed refusal if it is not for here, or not now."""
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
        self.inbox.append(message)
        if message.asks:
            self.owes[message.message_id] = message
        return True

    def _require_answer(self, message: AnyMessage) -> None:
        """`message` answers something that is still open, is of the right type, and comes from whom it was asked of."""
        id_, to = message.message_id, message.answers
        if to in self.settled:
            raise LateMessage(id_, to, self.settled[to])
        if to not in self.sent:
            raise WrongConversation(id_, f"it answers '{to}', which '{self.agent_id}' never sent")
        asked = self.sent[to].message
        if answered_by(asked) != message.type:
            raise OutOfTurn(id_, f"a {asked.type} is answered by {answered_by(asked) or 'nothing'}, not {message.type}")
        if asked.addressee != message.sender:
            raise WrongConversation(id_, f"'{to}' was sent to '{asked.addressee}', and '{message.sender}' answers it")

    def receive(self) -> AnyMessage | None:
        """The next message, the oldest first; None where there is none."""
        return self.inbox.pop(0) if self.inbox else None

    # Deadlines

    def missed_ack(self, message_id: str) -> str:
        """Nobody took it in time: it is sent again, and the next time it is undelivered. Gives that outcome, or ''."""
        sent = self._sent(message_id)
        if sent.sends > RESENDS_MAX:
            self.settle(message_id, UNDELIVERED)
            return UNDELIVERED
        sent.sends += 1
        self.outbox.append(sent.message)
        return ""

    def missed_answer(self, message_id: str) -> None:
        self.settle(message_id, TIMED_OUT)

    def overdue(self, now_ms: int) -> list[Overdue]:
        """Every deadline that has passed by now, with what follows from it."""
        passed = []
        for id_, sent in list(self.sent.items()):
            if not sent.acknowledged and now_ms >= sent.ack_due_ms:
                passed.append(Overdue(message=sent.message, outcome=self.missed_ack(id_)))
                sent.ack_due_ms = now_ms + self.ack_timeout_ms
            elif sent.acknowledged and now_ms >= sent.answer_due_ms:
                self.missed_answer(id_)
                passed.append(Overdue(message=sent.message, outcome=TIMED_OUT))
        return passed

    @property
    def next_due_ms(self) -> int | None:
        """When to ask again what is overdue."""
        due = [sent.answer_due_ms if sent.acknowledged else sent.ack_due_ms for sent in self.sent.values()]
        return min(due, default=None)

    # Keeping

    def snapshot(self) -> object:
        """As plain JSON values."""
        return msgspec.to_builtins(self)

    @classmethod
    def restore(cls, snapshot: object) -> Self:
        return msgspec.convert(snapshot, cls)


def post(mailboxes: dict[str, AgentMailbox], message: AnyMessage) -> MessageRefused | None:
    """Carries a message from its sender's outbox to its addressee's inbox, and the acknowledgement back.

    A refusal settles the message, and is given to whoever wants to write it down.
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
