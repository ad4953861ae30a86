"""Directed messages between two agents, or an agent and a person. PURE.

from interlock.messages import AgentMailbox, Delegate, from_wire
"""

from interlock.messages.answers import AnswerRules
from interlock.messages.mailbox import AgentMailbox, Overdue
from interlock.messages.refusals import (
    BadAnswer,
    BadMessage,
    BadQuestion,
    BadVerdict,
    Deadlock,
    DuplicateMessage,
    IllegalMove,
    LateMessage,
    MessageError,
    MessageRefused,
    OutOfTurn,
    TooManyMessages,
    UnknownAddressee,
    WrongConversation,
)
from interlock.messages.selection import AgentSelector
from interlock.messages.states import AgentState, Cause, move
from interlock.messages.validation import MessageValidator, TaskValidator, UserInputValidator, ValidationResult
from interlock.messages.wire import (
    Answer,
    Delegate,
    Message,
    Query,
    Report,
    RequestUserInput,
    UserResponse,
    from_wire,
    to_wire,
)

__all__ = [
    "AgentMailbox",
    "AgentSelector",
    "AgentState",
    "Answer",
    "AnswerRules",
    "BadAnswer",
    "BadMessage",
    "BadQuestion",
    "BadVerdict",
    "Cause",
    "Deadlock",
    "Delegate",
    "DuplicateMessage",
    "IllegalMove",
    "LateMessage",
    "Message",
    "MessageError",
    "MessageRefused",
    "MessageValidator",
    "OutOfTurn",
    "Overdue",
    "Query",
    "Report",
    "RequestUserInput",
    "TaskValidator",
    "TooManyMessages",
    "UnknownAddressee",
    "UserInputValidator",
    "UserResponse",
    "ValidationResult",
    "WrongConversation",
    "from_wire",
    "move",
    "to_wire",
]
