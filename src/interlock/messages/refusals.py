"""Why a message, a move or an answer is not taken. Typed, with a stable code; journals and agents are told both.

MessageError ─┬─ BadMessage  BadQuestion  BadAnswer  BadVerdict        what was written cannot be read
              ├─ IllegalMove  Deadlock                                 the conversation cannot go on so
              └─ MessageRefused ─┬─ UnknownAddressee  WrongConversation  OutOfTurn
                                 └─ LateMessage  DuplicateMessage  TooManyMessages
"""

from collections.abc import Sequence

from interlock.errors import InterlockError, nearest


class MessageError(InterlockError):
    """Whoever sent, answered or asked acts."""

    code = "message-error"


class BadMessage(MessageError):
    """It has not the form of its type."""

    code = "bad-message"


class BadQuestion(MessageError):
    """What an answer must look like cannot be understood, or could take for ever to check."""

    code = "bad-question"


class BadAnswer(MessageError):
    """The answer does not fit its question."""

    code = "bad-answer"


class BadVerdict(MessageError):
    """A model was asked for JSON of a certain form, and said something else."""

    code = "bad-verdict"


class IllegalMove(MessageError):
    code = "illegal-move"

    def __init__(self, state: str, cause: str, legal: Sequence[str]) -> None:
        super().__init__(f"an agent that is {state} cannot take '{cause}'; it can take {', '.join(legal) or 'nothing'}")
        self.state, self.cause = state, cause


class Deadlock(MessageError):
    """Agents wait for each other in a circle, and nothing is on its way to any of them."""

    code = "deadlock"

    def __init__(self, cycle: Sequence[str]) -> None:
        circle = " -> ".join((*cycle, cycle[0]))
        super().__init__(f"each waits for the next and nobody can go on: {circle}; go on without the answer")
        self.cycle = tuple(cycle)


class MessageRefused(MessageError):
    """`message_id` says which; the message is written down, and has no effect."""

    code = "message-refused"

    def __init__(self, message_id: str, text: str) -> None:
        super().__init__(text)
        self.message_id = message_id


class UnknownAddressee(MessageRefused):
    code = "unknown-agent"

    def __init__(self, message_id: str, to: str, known: Sequence[str]) -> None:
        otherwise = f"there are {', '.join(known[:12])}" if known else "there is nobody"
        super().__init__(message_id, f"there is no '{to}' to send this to; {nearest(to, known, otherwise)}")
        self.to = to


class WrongConversation(MessageRefused):
    """It answers something that was never asked of its sender, or belongs to somebody else."""

    code = "wrong-conversation"


class OutOfTurn(MessageRefused):
    """Its sender cannot send this now."""

    code = "out-of-turn"


class LateMessage(MessageRefused):
    """What it answers is settled already."""

    code = "late"

    def __init__(self, message_id: str, in_response_to: str, because: str) -> None:
        super().__init__(message_id, f"it answers '{in_response_to}', which is over: {because}; nobody waits for it")
        self.in_response_to = in_response_to


class DuplicateMessage(MessageRefused):
    code = "duplicate"

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id, f"message '{message_id}' was sent before; the first one counts")


class TooManyMessages(MessageRefused):
    code = "too-many-messages"

    def __init__(self, message_id: str, limit: str, most: int) -> None:
        super().__init__(message_id, f"no more than {most} are allowed ({limit}); go on with what there is")
        self.limit, self.most = limit, most
