"""Patterns for answers: a subset of regular expressions, matched in bounded time.

Rule 1: letters, `.`, classes `[a-z]`, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {n} {n,} {n,m}`. Nothing
looks back or ahead. `^` and `$` are allowed only at the ends: a pattern must match the whole answer.
Rule 2: no backtracking. For each place of the answer, a part of a pattern computes once where it may end if it begins
there; so the cost grows with the pattern and the answer, not with the nesting.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import msgspec

from interlock.limits import PATTERN_CHARS_MAX, PATTERN_NESTING_MAX, PATTERN_REPEATS_MAX
from interlock.messages.refusals import BadQuestion

# For each place of an answer, the places where a part that begins there may end: one bit each.
Ends = tuple[int, ...]
Part = Callable[[str], Ends]

_SETS: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_BREAKS = {"n": "\n", "t": "\t", "r": "\r"}


class AnswerPattern(msgspec.Struct, frozen=True):
    """A parsed pattern."""

    text: str
    part: Part

    def matches(self, answer: str) -> bool:
        return bool(self.part(answer)[0] >> len(answer) & 1)


def parse_pattern(text: str) -> AnswerPattern:
    """Parses a pattern; raises `BadQuestion` if it is not supported."""
    if len(text) > PATTERN_CHARS_MAX:
        raise BadQuestion(f"a pattern has at most {PATTERN_CHARS_MAX} characters, this one {len(text)}")
    body = text.removeprefix("^")
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    reader = _PatternParser(body, text)
    part = reader.alternatives(0)
    if reader.peek():
        raise reader.refusal(f"'{reader.peek()}' closes nothing")
    return AnswerPattern(text, part)


class _Bounds(NamedTuple):
    least: int
    most: int | None


class _PatternParser:
    """Reads a pattern from left to right."""

    def __init__(self, body: str, whole: str) -> None:
        self.body, self.whole, self.at = body, whole, 0

    def refusal(self, why: str) -> BadQuestion:
        return BadQuestion(
            f"the pattern '{self.whole}' is not understood: {why}; use letters, '.', [a-z], \\d \\w \\s, groups, '|' "
            "and repeats such as * + ? {2,5}"
        )

    def peek(self) -> str:
        return self.body[self.at : self.at + 1]

    def next_char(self) -> str:
        char = self.peek()
        if not char:
            raise self.refusal("it ends too early")
        self.at += 1
        return char

    def alternatives(self, depth: int) -> Part:
        if depth > PATTERN_NESTING_MAX:
            raise self.refusal(f"groups nest more than {PATTERN_NESTING_MAX} deep")
        ways = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            ways.append(self.sequence(depth))
        return ways[0] if len(ways) == 1 else _any_of(ways)

    def sequence(self, depth: int) -> Part:
        parts = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.with_repeats(self.atom(depth)))
        return _in_sequence(parts)

    def atom(self, depth: int) -> Part:
        char = self.next_char()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return _one_char(self.char_class())
        if char == "\\":
            return _one_char(self.escape_sequence())
        if char == ".":
            return _one_char(lambda found: found != "\n")
        if char in "*+?{^$":
            raise self.refusal(f"'{char}' stands where nothing can be repeated or begun")
        return _one_char(lambda found: found == char)

    def group(self, depth: int) -> Part:
        if self.body.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise self.refusal("groups that look ahead, look back or have a name are not part of it")
        inner = self.alternatives(depth + 1)
        if self.peek() != ")":
            raise self.refusal("a group is not closed")
        self.at += 1
        return inner

    def escape_sequence(self) -> Callable[[str], bool]:
        char = self.next_char()
        if char.lower() in _SETS:
            holds = _SETS[char.lower()]
            return holds if char.islower() else lambda found: not holds(found)
        if char.isalnum() and char not in _BREAKS:
            raise self.refusal(f"'\\{char}' is not part of it")
        wanted = _BREAKS.get(char, char)
        return lambda found: found == wanted

    def char_class(self) -> Callable[[str], bool]:
        negated = self.peek() == "^"
        self.at += negated
        tests = list(self.class_items())
        if not tests:
            raise self.refusal("a class [] is empty")
        return lambda found: any(test(found) for test in tests) is not negated

    def class_items(self) -> Iterator[Callable[[str], bool]]:
        while self.peek() != "]":
            char = self.next_char()
            if char == "\\":
                yield self.escape_sequence()
            elif self.peek() == "-" and self.body[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                yield self.span(char, self.next_char())
            else:
                yield lambda found, wanted=char: found == wanted  # type: ignore[misc]
        self.at += 1

    def span(self, first: str, last: str) -> Callable[[str], bool]:
        if last == "\\" or last < first:
            raise self.refusal(f"'{first}-{last}' is no span of characters")
        return lambda found: first <= found <= last

    def with_repeats(self, part: Part) -> Part:
        bounds = {"*": _Bounds(0, None), "+": _Bounds(1, None), "?": _Bounds(0, 1)}.get(self.peek())
        if bounds is not None:
            self.at += 1
        elif self.peek() == "{":
            bounds = self.braces()
        if bounds is None:
            return part
        if self.peek() and self.peek() in "*+?{":
            raise self.refusal(f"'{self.peek()}' repeats a repeat")
        return _repeat(part, bounds)

    def braces(self) -> _Bounds:
        end = self.body.find("}", self.at)
        least, comma, most = self.body[self.at + 1 : max(end, 0)].partition(",")
        if end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            raise self.refusal("a repeat in braces is {n}, {n,} or {n,m}")
        self.at = end + 1
        bounds = _Bounds(int(least), int(most) if most else None if comma else int(least))
        if max(bounds.least, bounds.most or 0) > PATTERN_REPEATS_MAX or bounds.least > (bounds.most or bounds.least):
            raise self.refusal(f"a repeat goes from few to many, and to at most {PATTERN_REPEATS_MAX}")
        return bounds


def _one_char(test: Callable[[str], bool]) -> Part:
    return lambda text: (*(1 << at + 1 if test(char) else 0 for at, char in enumerate(text)), 0)


def _in_sequence(parts: list[Part]) -> Part:
    return lambda text: reduce(_then, (part(text) for part in parts), _nothing(len(text) + 1))


def _any_of(ways: list[Part]) -> Part:
    return lambda text: reduce(_either, (way(text) for way in ways))


def _repeat(part: Part, bounds: _Bounds) -> Part:
    def ends(text: str) -> Ends:
        once = part(text)
        at_least = _times(once, bounds.least)
        if bounds.most is None:
            return _then(at_least, _any_number_of_times(once))
        return _then(at_least, _times(_either(once, _nothing(len(once))), bounds.most - bounds.least))

    return ends


def _nothing(size: int) -> Ends:
    return tuple(1 << at for at in range(size))


def _either(one: Ends, other: Ends) -> Ends:
    return tuple(map(or_, one, other))


def _then(first: Ends, second: Ends) -> Ends:
    return tuple(_from(places, second) for places in first)


def _from(places: int, ends: Sequence[int]) -> int:
    """The places where a part may end that begins at any of these places."""
    found = 0
    while places:
        lowest = places & -places
        found |= ends[lowest.bit_length() - 1]
        places ^= lowest
    return found


def _times(once: Ends, count: int) -> Ends:
    """Repeats a part: each round doubles the number of repeats, until nothing changes."""
    done = _nothing(len(once))
    while count > 0:
        twice = _then(once, once)
        if count & 1 or twice == once:
            done = _then(done, once)
        count = 0 if twice == once else count >> 1
        once = twice
    return done


def _any_number_of_times(once: Ends) -> Ends:
    """Repeats a part any number of times. From the last place to the first, since parts only lead forward."""
    ends = [0] * len(once)
    for at in reversed(range(len(once))):
        here = 1 << at
        ends[at] = here | _from(once[at] & ~here, ends)
    return tuple(ends)
