"""Refusals of messages, moves and answers. Typed, with a stable code; journals and agents get code and text.

The texts are part of journals: a change would make old runs replay differently.

MessageError ─┬─ BadMessage  BadQuestion  BadAnswer  BadVerdict        the text cannot be read
              ├─ IllegalMove  Deadlock                                 the conversation cannot continue
              └─ MessageRefused ─┬─ UnknownAddressee  WrongConversation  OutOfTurn
                                 └─ LateMessage  DuplicateMessage  TooManyMessages
"""

from collections.abc import Sequence

from interlock.errors import InterlockError, nearest


class MessageError(InterlockError):
    """The sender of the message, question or answer acts."""

    code = "message-error"


class BadMessage(MessageError):
    """The message does not have the form of its type."""

    code = "bad-message"


class BadQuestion(MessageError):
    """The form of the answer is invalid, or too expensive to check."""

    code = "bad-question"


class BadAnswer(MessageError):
    """The answer does not fit its question."""

    code = "bad-answer"


class BadVerdict(MessageError):
    """A model did not answer with JSON of the requested form."""

    code = "bad-verdict"


class IllegalMove(MessageError):
    """The table of moves has no entry for this state and cause."""

    code = "illegal-move"

    def __init__(self, state: str, cause: str, legal: Sequence[str]) -> None:
        super().__init__(f"an agent that is {state} cannot take '{cause}'; it can take {', '.join(legal) or 'nothing'}")
        self.state, self.cause = state, cause


class Deadlock(MessageError):
    """Agents wait for each other in a circle, and no message is on its way to any of them."""

    code = "deadlock"

    def __init__(self, cycle: Sequence[str]) -> None:
        circle = " -> ".join((*cycle, cycle[0]))
        super().__init__(f"each waits for the next and nobody can go on: {circle}; go on without the answer")
        self.cycle = tuple(cycle)


class MessageRefused(MessageError):
    """The message `message_id` is recorded and has no effect."""

    code = "message-refused"

    def __init__(self, message_id: str, text: str) -> None:
        super().__init__(text)
        self.message_id = message_id


class UnknownAddressee(MessageRefused):
    """There is no addressee of this name."""

    code = "unknown-agent"

    def __init__(self, message_id: str, to: str, known: Sequence[str]) -> None:
        otherwise = f"there are {', '.join(known[:12])}" if known else "there is nobody"
        super().__init__(message_id, f"there is no '{to}' to send this to; {nearest(to, known, otherwise)}")
        self.to = to


class WrongConversation(MessageRefused):
    """The sender was never asked this, or the question belongs to another agent."""

    code = "wrong-conversation"


class OutOfTurn(MessageRefused):
    """The sender cannot send this now."""

    code = "out-of-turn"


class LateMessage(MessageRefused):
    """The question is already settled."""

    code = "late"

    def __init__(self, message_id: str, in_response_to: str, because: str) -> None:
        super().__init__(message_id, f"it answers '{in_response_to}', which is over: {because}; nobody waits for it")
        self.in_response_to = in_response_to


class DuplicateMessage(MessageRefused):
    """Its id was used before."""

    code = "duplicate"

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id, f"message '{message_id}' was sent before; the first one counts")


class TooManyMessages(MessageRefused):
    """A run has too many messages, or an agent too many open ones."""

    code = "too-many-messages"

    def __init__(self, message_id: str, limit: str, most: int) -> None:
        super().__init__(message_id, f"no more than {most} are allowed ({limit}); go on with what there is")
        self.limit, self.most = limit, most
