"""JSON that models and people wrote.

Rule 1: the result depends on the text alone. The size of a reader's stack varies, but a replay must give the same
result; so text that is nested too deep is refused before it is read.
Rule 2: the caller must refuse a duplicate key in an object: readers differ in which one they use.
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
    """Reads a value of this type; raises `msgspec.DecodeError` or `UnicodeError` if that fails."""
    may_be_deep = text.count("[") + text.count("{") > JSON_DEPTH_MAX
    if may_be_deep and depth_of(text) > JSON_DEPTH_MAX:
        raise msgspec.DecodeError(f"it is nested more than {JSON_DEPTH_MAX} levels deep")
    return msgspec.json.decode(text, type=type_)


def depth_of(text: str) -> int:
    """The depth of nesting; brackets in strings do not count."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(depth, deepest)
    return deepest


def duplicate_key(text: str) -> str | None:
    """The first duplicate key of an object; the text must be valid JSON."""
    found: list[str] = []

    def collect_duplicates(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
            found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    json.loads(text, object_pairs_hook=collect_duplicates)
    return found[0] if found else None
