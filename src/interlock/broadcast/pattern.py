"""Patterns over broadcast types such as `build:project-x:done`.

Rule 1: both sides are trimmed; an empty one never matches.
Rule 2: segments are split on `:`; a segment may be empty.
Rule 3: `*` alone matches exactly one segment. There are no other wildcards.
"""

from interlock.limits import BROADCAST_SEGMENTS_MAX, BROADCAST_TYPE_CHARS_MAX


def matches(pattern: str, type: str) -> bool:  # noqa: A002 - the contract's name
    """True if a subscription to `pattern` receives a broadcast of `type`."""
    wanted, given = segments_of(pattern), segments_of(type)
    return bool(wanted) and len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))


def segments_of(text: str) -> list[str]:
    """The segments of a pattern or type; none if it is blank."""
    trimmed = text.strip()
    return trimmed.split(":") if trimmed else []


def wildcard_fault(pattern: str) -> str | None:
    """The fault of a pattern with a misplaced `*`, which `matches` treats as an ordinary letter, or None."""
    odd = next((segment for segment in pattern.strip().split(":") if "*" in segment and segment != "*"), None)
    return None if odd is None else f"has '*' within the segment '{odd}'; '*' stands alone, for exactly one segment"


def pattern_fault(pattern: str) -> str | None:
    """The fault of a pattern that cannot be subscribed to, or None."""
    if not pattern.strip():
        return "is empty and would never match"
    if len(pattern) > BROADCAST_TYPE_CHARS_MAX:
        return f"has {len(pattern)} characters, at most {BROADCAST_TYPE_CHARS_MAX} are allowed"
    if pattern.count(":") >= BROADCAST_SEGMENTS_MAX:
        return f"has {pattern.count(':') + 1} segments, at most {BROADCAST_SEGMENTS_MAX} are allowed"
    return wildcard_fault(pattern)
