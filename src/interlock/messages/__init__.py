"""Directed messages between two agents, or an agent and a person. PURE, except for the two names below.

from interlock.messages import AgentMailbox, Delegate, from_wire

`AgentMailbox` and `MessageValidator` are async, for programs. They are in `runtime` and are imported on first use, so
that this package stays light; the engine uses the pure ones of `messages.mailbox` and
`messages.validation`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlock.messages.answers import AnswerRules
from interlock.messages.host_types import ANY, MessageType, register, unregister
from interlock.messages.host_types import message_types as registered
from interlock.messages.mailbox import Overdue
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
from interlock.messages.validation import TaskValidator, UserInputValidator, ValidationResult
from interlock.messages.wire import (
    HOST,
    Answer,
    Delegate,
    HostNote,
    HostRequest,
    Message,
    Query,
    Report,
    RequestUserInput,
    UserResponse,
    from_wire,
    to_wire,
)

if TYPE_CHECKING:
    from interlock.runtime.mailboxes import AgentMailbox, MessageValidator

_AWAITED = ("AgentMailbox", "MessageValidator")

__all__ = [  # noqa: RUF022 - plainly by name, as the test of exports wants
    "ANY",
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
    "HOST",
    "HostNote",
    "HostRequest",
    "IllegalMove",
    "LateMessage",
    "Message",
    "MessageError",
    "MessageRefused",
    "MessageType",
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
    "register",
    "registered",
    "to_wire",
    "unregister",
]


def __getattr__(name: str) -> Any:
    if name in _AWAITED:
        return getattr(import_module("interlock.runtime.mailboxes"), name)
    raise AttributeError(f"module 'interlock.messages' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
