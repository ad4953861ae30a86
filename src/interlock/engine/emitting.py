"""`emit_signal`: how an agent steers where signal_mode is tool.

Rule 1: what is emitted goes through the same recognition and the same choice as a mark in a text would.
Rule 2: a reply whose only calls are emissions ends the turn; one that also calls other tools does not steer.
Rule 3: names are written without brackets, since tools' outputs cannot carry marks.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.events import ToolRequest
from interlock.limits import MARK_CHARS_MAX
from interlock.messages.reading import read_json

EMIT_SIGNAL = "emit_signal"
DESCRIPTION = "Ends your turn with a signal. Call it in the same reply as your answer, with why in a few words."


class _Arguments(msgspec.Struct, frozen=True):
    name: str
    reason: str = ""


def is_tool_mode(crew: Crew) -> bool:
    return crew.settings.signal_mode == "tool"


def is_emission(crew: Crew, request: ToolRequest) -> bool:
    return is_tool_mode(crew) and request.name == EMIT_SIGNAL


def only_emits(crew: Crew, requests: Sequence[ToolRequest]) -> bool:
    return all(is_emission(crew, request) for request in requests)


def emitted(requests: Sequence[ToolRequest]) -> tuple[str, ...]:
    """The insides of the marks that the emissions among these calls name, in their order."""
    if not requests:
        return ()
    names = (_name(request) for request in requests if request.name == EMIT_SIGNAL)
    return tuple(name for name in names if name is not None)


def _name(request: ToolRequest) -> str | None:
    try:
        arguments: _Arguments = read_json(request.arguments, _Arguments)
    except (msgspec.DecodeError, UnicodeError):
        return None
    name = arguments.name.strip()
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return bare if 0 < len(bare) <= MARK_CHARS_MAX - 2 else None


def parameters(names: Sequence[str]) -> dict[str, Any]:
    """What the tool takes, as JSON schema."""
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [name[1:-1] for name in names]},
            "reason": {"type": "string"},
        },
        "required": ["name", "reason"],
        "additionalProperties": False,
    }
