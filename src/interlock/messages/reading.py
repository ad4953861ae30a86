"""JSON that models and people wrote.

Rule 1: whether it is read hangs on the text alone. A reader has a stack, and what fits on it one day does not fit on
another; a run that is replayed must come to the same end. So what nests too deep is refused before it is read.
Rule 2: a key that stands twice in an object is for whoever reads to refuse: readers differ in which one they believe.
"""

import json
import re
from collections import Counter
from typing import Any

import msgspec

from interlock.limits import JSON_DEPTH_MAX

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


def read_json(text: str, type_: Any = Any) -> Any:
    """What it says, of this type; `msgspec.DecodeError` or `UnicodeError` if it cannot be read."""
    may_be_deep = text.count("[") + text.count("{") > JSON_DEPTH_MAX
    if may_be_deep and depth_of(text) > JSON_DEPTH_MAX:
        raise msgspec.DecodeError(f"it is nested more than {JSON_DEPTH_MAX} levels deep")
    return msgspec.json.decode(text, type=type_)


def depth_of(text: str) -> int:
    """How deep it nests; brackets in texts do not count."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(depth, deepest)
    return deepest


def repeated_key(text: str) -> str | None:
    """The first key that stands more than once in one object; the text is known to be JSON."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    json.loads(text, object_pairs_hook=look)
    return found[0] if found else None
