"""The definition of a signal: its name, its behaviour, its emitters and its targets."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeGuard

import msgspec

from interlock.errors import BadDefinition, BadSignalFormat, WrongTarget
from interlock.ids import is_word_char
from interlock.limits import MARK_CHARS_MAX


class SignalBehavior(StrEnum):
    """The effect of a signal on the run, in the order of reports."""

    TERMINATE = "terminate"
    ROUTE = "route"
    PAUSE = "pause"
    PARALLEL = "parallel"
    BROADCAST = "broadcast"
    EXTERNAL = "external"
    SUB_CREW = "sub_crew"


# Used if neither the route nor the definition has a priority. Notifications never compete.
PRIORITY_BY_BEHAVIOR = {
    SignalBehavior.TERMINATE: 100,
    SignalBehavior.PAUSE: 80,
    SignalBehavior.PARALLEL: 60,
    SignalBehavior.SUB_CREW: 60,
    SignalBehavior.ROUTE: 50,
    SignalBehavior.EXTERNAL: 50,
    SignalBehavior.BROADCAST: 50,
}

PRIORITY_MAX = 1_000
MAX_OCCURS_MAX = 1_000_000_000


class SignalDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the registry. `allow_all_agents` is true unless `allowed_agents` is given."""

    name: str
    behavior: str = SignalBehavior.ROUTE
    description: str = ""
    allow_all_agents: bool | None = None
    allowed_agents: Sequence[str] = ()
    default_target: str = ""
    valid_targets: Sequence[str] = ()
    example: str = ""
    priority: int | None = None
    deprecated_msg: str = ""
    required: bool = False
    max_occurs: int | None = None

    def __post_init__(self) -> None:
        set_once = msgspec.structs.force_setattr
        for field, ids in (("allowed_agents", self.allowed_agents), ("valid_targets", self.valid_targets)):
            given: object = ids  # callers are not always typed, and a text is a sequence of letters too
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise BadDefinition(self.name, field, "a list of ids", ids)
            set_once(self, field, list(ids))
        if self.allow_all_agents is None:
            set_once(self, "allow_all_agents", not self.allowed_agents)

    def may_be_emitted_by(self, agent: str) -> bool:
        return bool(self.allow_all_agents) or not self.allowed_agents or agent in self.allowed_agents

    @property
    def rank(self) -> int:
        """The effective priority: its own, else that of the behaviour."""
        return PRIORITY_BY_BEHAVIOR[SignalBehavior(self.behavior)] if self.priority is None else self.priority

    @property
    def replacement(self) -> str | None:
        """The replacement of a deprecated signal, if its message names one."""
        named = _MARK.findall(self.deprecated_msg)
        return next((mark for mark in named if mark != self.name and is_signal_name(mark)), None)


_MARK = re.compile(r"\[[^\[\]]+\]")


def is_signal_name(text: object) -> TypeGuard[str]:
    """`[NAME]`: letters and digits of any script, at least one; `_`, `-`, single spaces; no brackets inside."""
    if not isinstance(text, str):
        return False
    inner = text[1:-1]
    return (
        len(text) <= MARK_CHARS_MAX
        and text.startswith("[")
        and text.endswith("]")
        and any(char.isalnum() for char in inner)
        and all(is_word_char(char) or char in "_- " for char in inner)
        and inner == " ".join(inner.split())
    )


def require_valid_definition(definition: SignalDefinition) -> SignalDefinition:
    """Returns the definition; raises `SignalError` if a field has an invalid value."""
    name = definition.name
    if not is_signal_name(name):
        raise BadSignalFormat(name)
    if definition.behavior not in list(SignalBehavior):
        raise BadDefinition(name, "behavior", f"one of {', '.join(SignalBehavior)}", definition.behavior)
    if definition.priority is not None and not _is_whole_number(definition.priority, 0, PRIORITY_MAX):
        raise BadDefinition(name, "priority", f"a whole number from 0 to {PRIORITY_MAX}", definition.priority)
    if definition.max_occurs is not None and not _is_whole_number(definition.max_occurs, 1, MAX_OCCURS_MAX):
        raise BadDefinition(name, "max_occurs", "a whole number from 1", definition.max_occurs)
    if definition.behavior == SignalBehavior.TERMINATE and definition.default_target:
        raise WrongTarget.of_termination(name, definition.default_target)
    return definition


def _is_whole_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
