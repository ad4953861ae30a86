"""JSON that models and people wrote.

Rule 1: whether it is read hangs on the text alone. A reader has a stack, and what fits on it one day does not fit on
another; a run that is replayed must come to the same end. So what nests too deep is refused before it is read.
"""

import re
from typing import Any

import msgspec

from interlock.limits import JSON_DEPTH_MAX

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def read_json(text: str, type_: Any = Any) -> Any:
    """What it says, of this type; `msgspec.DecodeError` or `UnicodeError` if it cannot be read."""
    if _is_deep(text):
        raise msgspec.DecodeError(f"it is nested more than {JSON_DEPTH_MAX} levels deep")
    return msgspec.json.decode(text, type=type_)


def _is_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= JSON_DEPTH_MAX:
        return False
    depth = 0
    for char in _STRING.sub("", text):
        depth += (char in "[{") - (char in "]}")
        if depth > JSON_DEPTH_MAX:
            return True
    return False
