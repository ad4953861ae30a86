"""The JSON value of a reply, apart from its marks.

Rule 1: a reply is its value if nothing else is in it but known marks and one code fence. Text around the value is a
fault, not something to look over.
Rule 2: marks inside the value are data. Only what stands beside the value can steer.
Rule 3: readers of JSON differ about duplicate keys, NaN, numbers without bounds and deep nesting, so these are faults.
Rule 4: the result depends on the text alone, and so do the faults: they are part of a journal.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from interlock.limits import MARK_CHARS_MAX, OUTPUT_VALUE_BYTES_MAX, OUTPUT_VALUE_DEPTH_MAX
from interlock.messages.reading import depth_of

_BESIDE = re.compile(rf"[\s*_~]*\[([^\[\]]{{1,{MARK_CHARS_MAX - 2}}})\][*_~]*")
_FENCE = re.compile(r"(`{3,}|~{3,})[^\n\r`~]*(?:\r\n|\n|\r)")
_BLANKS = re.compile(r"\s*")
_NOT_BREAK = re.compile(r"[^\n\r]")
_JSON_BLANKS = re.compile(r"[ \t\n\r]*")

# What only JSON begins with; a bracket before a word may be a mark or a link.
_ATTEMPT = re.compile(r'\{|\[[ \t\n\r]*(?:[\[{"\d\-\]]|true\b|false\b|null\b)')

# Integers that every reader of the journal can hold.
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_INT_CHARS_MAX = 20

_TOO_DEEP = f"it is nested more than {OUTPUT_VALUE_DEPTH_MAX} levels deep"
_TOO_LARGE = f"it is larger than {OUTPUT_VALUE_BYTES_MAX // 1024} kB"


class ReplyValue(msgspec.Struct, frozen=True):
    """The value of a reply and its text; or the fault that there is none.

    `beside` is the reply with blanks in place of the value and its fence, so that marks keep their positions.

    `is_attempt`: the reply begins like JSON, so that marks in it may be inside a value.
    """

    beside: str
    value: Any = None
    text: str = ""
    fault: str = ""
    is_attempt: bool = True


class _Unreadable(Exception):
    """A value that is not taken; the text says why."""


def read_value(reply: str, is_mark: Callable[[str], bool]) -> ReplyValue:
    """The value of a reply; `is_mark` tells which names are marks of the crew."""
    start = _after_marks(reply, 0, is_mark)
    fence = _FENCE.match(reply, start)
    begin = _end_of(_JSON_BLANKS, reply, fence.end() if fence else start)
    is_attempt = _ATTEMPT.match(reply, begin) is not None
    try:
        value, end = _decode(reply, begin)
        after = _require_only_marks(reply, end, fence[1] if fence else "", is_mark)
    except _Unreadable as fault:
        return ReplyValue(reply, fault=str(fault), is_attempt=is_attempt)
    blanks = _NOT_BREAK.sub(" ", reply[start:after])
    return ReplyValue(f"{reply[:start]}{blanks}{reply[after:]}", value, reply[begin:end])


def _after_marks(reply: str, at: int, is_mark: Callable[[str], bool]) -> int:
    """The end of the marks and blanks that begin here."""
    while (found := _BESIDE.match(reply, at)) is not None and is_mark(found[1]):
        at = found.end()
    return _end_of(_BLANKS, reply, at)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at


def _require_only_marks(reply: str, end: int, fence: str, is_mark: Callable[[str], bool]) -> int:
    """Where what follows the value begins; raises if it is more than marks."""
    after = end
    if fence:
        closing = re.compile(rf"\s*{re.escape(fence[0])}{{{len(fence)},}}").match(reply, end)
        if closing is None:
            raise _Unreadable("its code fence is not closed after the value")
        after = closing.end()
    rest = _after_marks(reply, after, is_mark)
    if rest < len(reply):
        raise _Unreadable("there is more than one value, or text after it")
    return after


def _decode(reply: str, begin: int) -> tuple[Any, int]:
    if begin >= len(reply):
        raise _Unreadable("there is no JSON in it")
    if depth_of(reply[begin:]) > OUTPUT_VALUE_DEPTH_MAX:
        raise _Unreadable(_TOO_DEEP)
    try:
        value, end = _DECODER.raw_decode(reply, begin)
    except json.JSONDecodeError as error:
        line, column = error.lineno, error.colno
        raise _Unreadable(f"it is not JSON, from line {line}, column {column} on") from error
    except RecursionError as error:
        raise _Unreadable(_TOO_DEEP) from error
    if _depth(value) > OUTPUT_VALUE_DEPTH_MAX:
        raise _Unreadable(_TOO_DEEP)
    try:
        size = len(msgspec.json.encode(value))
    except UnicodeEncodeError as error:
        raise _Unreadable("a text in it has half of a surrogate pair") from error
    if size > OUTPUT_VALUE_BYTES_MAX or end - begin > 4 * OUTPUT_VALUE_BYTES_MAX:
        raise _Unreadable(_TOO_LARGE)
    return value, end


def _depth(value: Any) -> int:
    """The depth of nesting, level by level, since the value may be deeper than the stack."""
    depth, level = 0, [value]
    while level:
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        depth, level = depth + bool(inner), [each for part in inner for each in part]
        if depth > OUTPUT_VALUE_DEPTH_MAX:
            break
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"the key '{twice[:60]}' is in one object twice")
    return found


def _whole(text: str) -> int:
    number = int(text) if len(text) <= _INT_CHARS_MAX + 1 else _INT_MAX + 1
    if not _INT_MIN <= number <= _INT_MAX:
        raise _Unreadable("a whole number in it has more than 64 bits")
    return number


def _fraction(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Unreadable("a number in it is too large")
    return number


def _constant(name: str) -> NoReturn:
    raise _Unreadable(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_fraction, parse_constant=_constant
)
