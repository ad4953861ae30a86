"""Message types of the host program: registered before a run starts, and written into its `run.started`.

Rule 1: a run has the types that were registered when it started, so that a replay needs no registry.
Rule 2: a body is an object of the type's schema; keys that every message has are not part of it.
Rule 3: the host sends as `HOST`; no agent can have that name.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interlock.errors import nearest
from interlock.messages.answers import AnswerRules, require_rules, require_use, require_valid_answer
from interlock.messages.refusals import BadAnswer, BadMessage, BadQuestion
from interlock.messages.wire import EVERY_KEY, HOST, TYPES

# Every agent of the crew.
ANY = "*"

# A program that registers more is in a loop.
TYPES_MAX = 100

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class MessageType(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message type: its senders, its receivers and the schema of its body."""

    type: str
    schema: dict[str, Any]
    from_: tuple[str, ...] = msgspec.field(name="from")
    to: tuple[str, ...]
    requires_response: bool = False

    def may_send(self, sender: str) -> bool:
        return sender in self.from_ or (sender != HOST and ANY in self.from_)

    def may_receive(self, agent: str) -> bool:
        return agent in self.to or ANY in self.to


_registered: dict[str, MessageType] = {}


def register(
    type: str,  # noqa: A002 - the contract's name
    schema: Mapping[str, Any],
    *,
    from_: str | Iterable[str],
    to: str | Iterable[str],
    requires_response: bool = False,
) -> MessageType:
    """Registers a message type for runs that start from now on; raises `BadMessage` if it is invalid.

    `from_` names agents, `"*"` for all of them, or `HOST` for the program itself; `to` names agents or `"*"`.
    """
    made = MessageType(
        type=type, schema=dict(schema), from_=_names(from_), to=_names(to), requires_response=requires_response
    )
    _require_type(made)
    if _registered.get(type, made) != made:
        raise BadMessage(f"{type} is registered already, with another form; choose another name")
    if len(_registered) >= TYPES_MAX and type not in _registered:
        raise BadMessage(f"no more than {TYPES_MAX} types can be registered")
    _registered[type] = made
    return made


def unregister(type: str) -> None:  # noqa: A002
    """Removes a message type; runs that started with it keep it."""
    _registered.pop(type, None)


def message_types() -> tuple[MessageType, ...]:
    return tuple(_registered.values())


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _require_type(made: MessageType) -> None:
    if not _NAME.fullmatch(made.type) or made.type in TYPES:
        raise BadMessage(f"{made.type!r} cannot be a type: capitals, digits and '_', and none of {', '.join(TYPES)}")
    if made.schema.get("type") != "object":
        raise BadMessage(f"the schema of {made.type} has no type 'object'; a body is an object")
    clash = [key for key in made.schema.get("properties", {}) if key in EVERY_KEY]
    if clash:
        raise BadMessage(f"the schema of {made.type} has the key '{clash[0]}', which every message has")
    if not made.from_ or not made.to or HOST in made.to:
        raise BadMessage(f"{made.type} needs senders, and agents to go to; the program is reached by external signals")
    try:
        require_rules(AnswerRules(schema=made.schema))
        require_use(made.schema)
    except BadQuestion as fault:
        raise BadMessage(f"the schema of {made.type} cannot be used: {fault}") from fault


def require_body(known: Mapping[str, MessageType], type: str, body: Any) -> MessageType:  # noqa: A002
    """Raises `BadMessage` if the type is unknown or the body does not fit its schema."""
    made = known.get(type)
    if made is None:
        names = tuple(known)
        advice = nearest(str(type), names, f"there are {', '.join(names)}" if names else "none is registered")
        raise BadMessage(f"{type!r} is not a message type of this run; {advice}")
    try:
        text = msgspec.json.encode(body).decode()
        require_valid_answer(AnswerRules(schema=made.schema), text)
    except (BadAnswer, TypeError, ValueError, RecursionError) as fault:
        raise BadMessage(f"the body of {type} does not fit its schema: {fault}") from fault
    return made
