"""`emit_signal`: the tool by which an agent steers if signal_mode is tool.

Rule 1: an emitted name is recognized and chosen in the same way as a mark in a text.
Rule 2: a reply whose only calls are emissions ends the turn; one that also calls other tools does not steer.
Rule 3: names have no brackets, because tool outputs cannot carry marks.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import ToolRequest
from interlock.limits import MARK_CHARS_MAX
from interlock.messages.reading import read_json

EMIT_SIGNAL = "emit_signal"
DESCRIPTION = "Ends your turn with a signal. Call it in the same reply as your answer, with why in a few words."


class _Arguments(msgspec.Struct, frozen=True):
    name: str
    reason: str = ""


def is_tool_mode(crew: CrewDefinition) -> bool:
    return crew.settings.signal_mode == "tool"


def is_emission(crew: CrewDefinition, request: ToolRequest) -> bool:
    return is_tool_mode(crew) and request.name == EMIT_SIGNAL


def has_only_emissions(crew: CrewDefinition, requests: Sequence[ToolRequest]) -> bool:
    return all(is_emission(crew, request) for request in requests)


def emission_names(requests: Sequence[ToolRequest]) -> tuple[str, ...]:
    """The names that the emissions among these calls carry, in order."""
    names = (_emission_name(request) for request in requests if request.name == EMIT_SIGNAL)
    return tuple(name for name in names if name is not None)


def _emission_name(request: ToolRequest) -> str | None:
    try:
        arguments: _Arguments = read_json(request.arguments, _Arguments)
    except (msgspec.DecodeError, UnicodeError):
        return None
    name = arguments.name.strip()
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return bare if 0 < len(bare) <= MARK_CHARS_MAX - 2 else None


def emit_signal_schema(names: Sequence[str]) -> dict[str, Any]:
    """The arguments as JSON schema."""
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [name[1:-1] for name in names]},
            "reason": {"type": "string"},
        },
        "required": ["name", "reason"],
        "additionalProperties": False,
    }
