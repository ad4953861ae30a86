"""Patterns of tool calls: `tool`, or `tool:argument op literal`.

Rule 1: a tool's name is letters, digits, `_`, `-` and `*`, which stands for any characters, none included. The name of
an argument has no `*`, and a `*` in a literal is a character like any other. Blanks around a part do not count.
Rule 2: op is one of `=`, `!=`, `>`, `>=`, `<`, `<=`. The last four compare numbers with numbers and text with text.
Rule 3: a literal is a number, `true`, `false`, `null`, text in double quotes (as in JSON) or in single quotes (as it
is), or a word: an ASCII letter or `_`, then letters, digits and `_ . @ / + -`. Anything else is refused.
Rule 4: there are four types: number, text, truth value and null. Text is compared by the code points of its characters.
Rule 5: a pattern fits a call, or does not, or it is unclear: the argument is missing or of another type, or the
arguments are not one JSON object in which each name stands once. Unclear is never taken for a no.
Rule 6: a number is compared as it is written and as a float, because tools read it either way. If that makes a
difference, it is unclear.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import msgspec

from interlock.messages.reading import duplicate_key, read_json

# A rule is a line that a person reads.
PATTERN_CHARS_MAX = 500

_TOOL = re.compile(r"[\w*-]{1,64}")
_ARGUMENT = re.compile(r"[\w-]{1,64}")
_CONDITION = re.compile(r"(?P<argument>[^=!<>]*)(?P<op>!=|>=|<=|=|>|<)(?P<literal>.*)", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,100})?(?:[eE][+-]?[0-9]{1,3})?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.@/+-]*")

_OPERATIONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, ">": gt, ">=": ge, "<": lt, "<=": le}
_ORDERING = (">", ">=", "<", "<=")
_CONSTANTS = {"true": True, "false": False, "null": None}
# Words that people write for a value that JSON writes otherwise, or not at all.
_NOT_TEXT = ("none", "nil", "nan", "inf", "infinity", "yes", "no", "on", "off")

Scalar = str | Decimal | bool | None


class BadCallPattern(ValueError):
    """A text that is not a pattern; the message says why, and what to write."""


class Fit(StrEnum):
    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


class CallPattern(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern as it was written, and its parts. Without an `op` it fits every call of its tools."""

    text: str
    tool: str
    argument: str = ""
    op: str = ""
    literal: Scalar = None

    def is_about(self, tool: str) -> bool:
        """Whether the pattern is about this tool."""
        return _matches_name(self.tool, tool)

    def fit(self, call: "CallArguments") -> Fit:
        """Whether the arguments fit; the caller has asked whether it `is_about` the tool."""
        return _fit_of(self, call) if self.op else Fit.YES

    def for_tool(self, tool: str) -> str:
        """The same condition for one tool, as text."""
        return tool + self.text[len(self.text.partition(":")[0]) :] if self.op else tool


class CallArguments:
    """The arguments of a call, read as rules read them: numbers are not rounded, names are not repeated."""

    def __init__(self, text: str) -> None:
        self.values: dict[str, msgspec.Raw] | None
        try:
            self.values = read_json(text or "{}", dict[str, msgspec.Raw])
            if duplicate_key(text or "{}") is not None:
                self.values = None
        except (ValueError, RecursionError):  # not JSON, not an object, or a number that cannot be read
            self.values = None

    def scalar(self, name: str) -> Any:
        """A scalar value, or `msgspec.UNSET` if the argument is missing or has no scalar value."""
        raw = None if self.values is None else self.values.get(name)
        if raw is None:
            return msgspec.UNSET
        text = bytes(raw).decode().strip()
        try:
            return Decimal(text) if text[0] in "-0123456789" else _scalar_or_unset(msgspec.json.decode(text))
        except (ValueError, ArithmeticError):
            return msgspec.UNSET


def parse_pattern(text: str) -> CallPattern:
    """Reads a pattern; raises `BadCallPattern`."""
    text = text.strip()
    if len(text) > PATTERN_CHARS_MAX:
        raise BadCallPattern(f"a pattern has at most {PATTERN_CHARS_MAX} characters, this one has {len(text)}")
    tool, colon, condition = (part.strip() for part in text.partition(":"))
    if not _TOOL.fullmatch(tool):
        raise BadCallPattern(f"{tool!r} is not the name of a tool; write letters, digits, '_', '-' and '*'")
    if not colon:
        return CallPattern(text=text, tool=tool)
    found = _CONDITION.fullmatch(condition)
    if found is None:
        raise BadCallPattern(f"{condition!r} has no operator; write 'argument op literal', op is = != > >= < or <=")
    argument, op, written = found["argument"].strip(), found["op"], found["literal"].strip()
    if not _ARGUMENT.fullmatch(argument):
        raise BadCallPattern(f"{argument!r} is not the name of an argument; write letters, digits, '_' and '-', no '*'")
    literal = _read_literal(written)
    if op in _ORDERING and (literal is None or isinstance(literal, bool)):
        raise BadCallPattern(f"{written} has no order; use = or !=")
    return CallPattern(text=text, tool=tool, argument=argument, op=op, literal=literal)


def _read_literal(written: str) -> Scalar:
    if written in _CONSTANTS:
        return _CONSTANTS[written]
    if _NUMBER.fullmatch(written):
        return Decimal(written)
    if written[:1] == '"':
        return _read_quoted(written)
    if len(written) > 1 and written[0] == written[-1] == "'" and "'" not in written[1:-1]:
        return written[1:-1]
    if not _WORD.fullmatch(written) or written.lower() in (*_CONSTANTS, *_NOT_TEXT):
        raise BadCallPattern(f"{written!r} is not a literal; write a number, true, false, null, or text in quotes")
    return written


def _read_quoted(written: str) -> str:
    try:
        return msgspec.json.decode(written, type=str)
    except ValueError as error:
        raise BadCallPattern(
            f"{written} is not text in double quotes; escape '\"' and '\\' inside as in JSON"
        ) from error


def _scalar_or_unset(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool) else msgspec.UNSET


def _fit_of(pattern: CallPattern, call: CallArguments) -> Fit:
    value, literal = call.scalar(pattern.argument), pattern.literal
    if type(value) is not type(literal):  # an argument without a scalar value has a type of its own
        return Fit.UNCLEAR
    operation = _OPERATIONS[pattern.op]
    fits = operation(value, literal)
    if isinstance(value, Decimal) and isinstance(literal, Decimal) and operation(float(value), float(literal)) != fits:
        return Fit.UNCLEAR
    return Fit.YES if fits else Fit.NO


def _matches_name(wanted: str, name: str) -> bool:
    """Whether a name with `*` matches, in one pass: each piece at its first place."""
    first, *others = wanted.split("*")
    if not others:
        return first == name
    *middle, last = others
    if not (name.startswith(first) and name.endswith(last) and len(name) >= len(first) + len(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
