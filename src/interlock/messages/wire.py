"""The six messages in their wire format.

Rule 1: `to_wire` gives exactly the keys of the protocol, in its order; `from_wire` accepts no other.
Rule 2: a message is checked when it is made; the error tells what would be right.
Rule 3: people have one name here, `user`: a question to them has no `to`, an answer of theirs no `from`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

import msgspec

from interlock.errors import nearest
from interlock.limits import MESSAGE_ID_CHARS_MAX
from interlock.messages.reading import duplicate_key, read_json
from interlock.messages.refusals import BadMessage

USER = "user"

ReportStatus = Literal["completed", "partial", "needs_help"]
REPORT_STATUSES: tuple[str, ...] = get_args(ReportStatus)

_NAMES: dict[type, str] = {str: "a text", dict: "an object", bool: "true or false"}


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """The base of all messages. `Message.from_wire` reads any of them."""

    message_id: str

    # The fields that must not be blank, and the types of the others.
    filled: ClassVar[tuple[str, ...]] = ("message_id",)
    holds: ClassVar[dict[str, type]] = {}

    def __post_init__(self) -> None:
        for name in self.filled:
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise BadMessage(f"{self.type} needs '{name.rstrip('_')}', a text that is not blank, got {value!r}")
        for name, kind in self.holds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise BadMessage(f"{self.type} needs '{name}', {_NAMES[kind]}, got {value!r}")
        if len(self.message_id) > MESSAGE_ID_CHARS_MAX:
            raise BadMessage(f"{self.type} has a message_id of more than {MESSAGE_ID_CHARS_MAX} characters")

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def sender(self) -> str:
        return str(getattr(self, "from_", USER))

    @property
    def addressee(self) -> str:
        return str(getattr(self, "to", USER))

    @property
    def answers(self) -> str:
        """The id of the message that this one answers; empty if it answers none."""
        return str(getattr(self, "in_response_to", ""))

    @property
    def asks(self) -> bool:
        """True if its sender waits for an answer."""
        return bool(getattr(self, "requires_response", False) or getattr(self, "awaiting_response", False))

    def to_wire(self) -> dict[str, Any]:
        body = msgspec.to_builtins(self)
        return {key: body[key] for key in WIRE_KEYS[self.type]}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any] | str | bytes) -> Self:
        """Reads a message from a mapping or JSON; raises `BadMessage` with the fault."""
        message = from_wire(wire)
        if not isinstance(message, cls):
            raise BadMessage(f"this is a {message.type}, and a {cls.__struct_config__.tag} was expected")
        return message


class Delegate(Message, frozen=True, kw_only=True, tag="DELEGATE"):
    """A parent gives a child a task."""

    from_: str = msgspec.field(name="from")
    to: str
    task: str
    context: dict[str, Any] = {}
    requires_response: bool = True

    filled: ClassVar[tuple[str, ...]] = ("message_id", "from_", "to", "task")
    holds: ClassVar[dict[str, type]] = {"context": dict, "requires_response": bool}


class Report(Message, frozen=True, kw_only=True, tag="REPORT"):
    """A child reports the result of its task."""

    from_: str = msgspec.field(name="from")
    to: str
    result: str
    status: ReportStatus = "completed"
    in_response_to: str

    filled: ClassVar[tuple[str, ...]] = ("message_id", "from_", "to", "in_response_to")
    holds: ClassVar[dict[str, type]] = {"result": str}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status not in REPORT_STATUSES:
            raise BadMessage(f"REPORT has status {self.status!r}; it is one of {', '.join(REPORT_STATUSES)}")


class RequestUserInput(Message, frozen=True, kw_only=True, tag="REQUEST_USER_INPUT"):
    """An agent asks a person."""

    from_: str = msgspec.field(name="from")
    question: str
    context: str = ""
    awaiting_response: bool = True

    filled: ClassVar[tuple[str, ...]] = ("message_id", "from_", "question")
    holds: ClassVar[dict[str, type]] = {"context": str, "awaiting_response": bool}


class UserResponse(Message, frozen=True, kw_only=True, tag="USER_RESPONSE"):
    """A person answers an agent."""

    to: str
    answer: str
    in_response_to: str

    filled: ClassVar[tuple[str, ...]] = ("message_id", "to", "in_response_to")
    holds: ClassVar[dict[str, type]] = {"answer": str}


class Query(Message, frozen=True, kw_only=True, tag="QUERY"):
    """A child asks its parent."""

    from_: str = msgspec.field(name="from")
    to: str
    question: str
    requires_response: bool = True

    filled: ClassVar[tuple[str, ...]] = ("message_id", "from_", "to", "question")
    holds: ClassVar[dict[str, type]] = {"requires_response": bool}


class Answer(Message, frozen=True, kw_only=True, tag="ANSWER"):
    """A parent answers its child."""

    from_: str = msgspec.field(name="from")
    to: str
    answer: str
    in_response_to: str

    filled: ClassVar[tuple[str, ...]] = ("message_id", "from_", "to", "in_response_to")
    holds: ClassVar[dict[str, type]] = {"answer": str}


class HostNote(Message, frozen=True, kw_only=True, tag="HOST_NOTE"):
    """A message of a type that the host has registered; `kind` is that type."""

    kind: str
    from_: str = msgspec.field(name="from")
    to: str
    body: dict[str, Any] = {}

    filled: ClassVar[tuple[str, ...]] = ("message_id", "kind", "from_", "to")
    holds: ClassVar[dict[str, type]] = {"body": dict}

    @property
    def type(self) -> str:
        return self.kind

    def to_wire(self) -> dict[str, Any]:
        head = {"type": self.kind, "from": self.from_, "to": self.to}
        return {**head, **self.body, "message_id": self.message_id, "requires_response": self.asks}


class HostRequest(HostNote, frozen=True, kw_only=True, tag="HOST_REQUEST"):
    """A HostNote whose sender waits for an ANSWER."""

    @property
    def asks(self) -> bool:
        return True


AnyMessage = Delegate | Report | RequestUserInput | UserResponse | Query | Answer | HostNote | HostRequest

# The program that embeds Interlock, as a sender; no agent can have this name.
HOST = "@host"

# The keys of every message of a host type besides its body.
EVERY_KEY = ("type", "from", "to", "message_id", "requires_response", "in_response_to")

TYPES: dict[str, type[AnyMessage]] = {
    "DELEGATE": Delegate,
    "REPORT": Report,
    "REQUEST_USER_INPUT": RequestUserInput,
    "USER_RESPONSE": UserResponse,
    "QUERY": Query,
    "ANSWER": Answer,
}

# The protocol's own order.
WIRE_KEYS: dict[str, tuple[str, ...]] = {
    "DELEGATE": ("type", "from", "to", "task", "context", "message_id", "requires_response"),
    "REPORT": ("type", "from", "to", "result", "status", "message_id", "in_response_to"),
    "REQUEST_USER_INPUT": ("type", "from", "question", "context", "message_id", "awaiting_response"),
    "USER_RESPONSE": ("type", "to", "answer", "message_id", "in_response_to"),
    "QUERY": ("type", "from", "to", "question", "message_id", "requires_response"),
    "ANSWER": ("type", "from", "to", "answer", "message_id", "in_response_to"),
}

# The type of the answer, by type of the question.
ANSWERED_BY: dict[str, str] = {"DELEGATE": "REPORT", "QUERY": "ANSWER", "REQUEST_USER_INPUT": "USER_RESPONSE"}


def answer_type_of(message: Message) -> str:
    """The type of its answer; empty if it has none."""
    return "ANSWER" if isinstance(message, HostRequest) else ANSWERED_BY.get(message.type, "")


def from_journal(wire: Mapping[str, Any]) -> AnyMessage:
    """Reads a recorded message; its type was registered when it was recorded."""
    if wire.get("type") in TYPES:
        return from_wire(wire)
    body = {key: value for key, value in wire.items() if key not in EVERY_KEY}
    made = HostRequest if wire["requires_response"] else HostNote
    return made(kind=wire["type"], from_=wire["from"], to=wire["to"], message_id=wire["message_id"], body=body)


def to_wire(message: Message) -> dict[str, Any]:
    return message.to_wire()


def from_wire(wire: Mapping[str, Any] | str | bytes) -> AnyMessage:
    """Reads any message; raises `BadMessage` with the fault."""
    body = _decode_json(wire) if isinstance(wire, str | bytes) else wire
    if not isinstance(body, Mapping):
        raise BadMessage(f"a message is an object with the key 'type', got {type(body).__name__}")
    kind = body.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        known = ", ".join(TYPES)
        advice = nearest(str(kind), tuple(TYPES), f"it is one of {known}")
        raise BadMessage(f"a message needs 'type'; {advice}" if kind is None else f"{kind!r} is no message; {advice}")
    if body is wire:
        _require_json(body)
    try:
        return msgspec.convert(dict(body), TYPES[kind])
    except msgspec.ValidationError as error:
        keys = ", ".join(WIRE_KEYS[kind])
        raise BadMessage(f"{kind} cannot be read: {error}; its keys are {keys}") from error


def _decode_json(text: str | bytes) -> Any:
    try:
        text = text if isinstance(text, str) else text.decode()
        body = read_json(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadMessage(f"a message is a JSON object, and this is no JSON: {error}") from error
    if (key := duplicate_key(text)) is not None:
        raise BadMessage(f"the key '{key}' stands there more than once; say it once")
    return body


def _require_json(body: Mapping[str, Any]) -> None:
    try:
        msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"a message is made of what JSON can say: {error}") from error
