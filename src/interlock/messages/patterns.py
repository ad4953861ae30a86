"""Patterns for answers: a part of regular expressions that is matched in bounded time, whatever the pattern.

Rule 1: letters, `.`, classes `[a-z]`, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {n} {n,} {n,m}`. Nothing
looks back or ahead. `^` and `$` stand at the ends alone: a pattern is about the whole answer.
Rule 2: no backtracking. A part of a pattern takes the places where it may begin and gives those where it may end.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from interlock.limits import PATTERN_CHARS_MAX, PATTERN_NESTING_MAX, PATTERN_REPEATS_MAX
from interlock.messages.refusals import BadQuestion

Places = frozenset[int]
Part = Callable[[str, Places], Places]

_SETS: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_BREAKS = {"n": "\n", "t": "\t", "r": "\r"}


class Pattern(msgspec.Struct, frozen=True):
    """A pattern that was understood."""

    text: str
    part: Part

    def fits(self, answer: str) -> bool:
        return len(answer) in self.part(answer, frozenset((0,)))


def pattern(text: str) -> Pattern:
    """`BadQuestion` if it is not one of ours."""
    if len(text) > PATTERN_CHARS_MAX:
        raise BadQuestion(f"a pattern has at most {PATTERN_CHARS_MAX} characters, this one {len(text)}")
    body = text.removeprefix("^")
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    reader = _Reader(body, text)
    part = reader.alternatives(0)
    if reader.peek():
        raise reader.refused(f"'{reader.peek()}' closes nothing")
    return Pattern(text, part)


class _Bounds(NamedTuple):
    least: int
    most: int | None


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, body: str, whole: str) -> None:
        self.body, self.whole, self.at = body, whole, 0

    def refused(self, why: str) -> BadQuestion:
        return BadQuestion(
            f"the pattern '{self.whole}' is not understood: {why}; use letters, '.', [a-z], \\d \\w \\s, groups, '|' "
            "and repeats such as * + ? {2,5}"
        )

    def peek(self) -> str:
        return self.body[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise self.refused("it ends too early")
        self.at += 1
        return char

    def alternatives(self, depth: int) -> Part:
        if depth > PATTERN_NESTING_MAX:
            raise self.refused(f"groups nest more than {PATTERN_NESTING_MAX} deep")
        ways = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            ways.append(self.sequence(depth))
        return ways[0] if len(ways) == 1 else _any_of(ways)

    def sequence(self, depth: int) -> Part:
        parts = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.repeated(self.atom(depth)))
        return _one_after_the_other(parts)

    def atom(self, depth: int) -> Part:
        char = self.take()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return _one(self.char_class())
        if char == "\\":
            return _one(self.escaped())
        if char == ".":
            return _one(lambda found: found != "\n")
        if char in "*+?{^$":
            raise self.refused(f"'{char}' stands where nothing can be repeated or begun")
        return _one(lambda found: found == char)

    def group(self, depth: int) -> Part:
        if self.body.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise self.refused("groups that look ahead, look back or have a name are not part of it")
        inner = self.alternatives(depth + 1)
        if self.peek() != ")":
            raise self.refused("a group is not closed")
        self.at += 1
        return inner

    def escaped(self) -> Callable[[str], bool]:
        char = self.take()
        if char.lower() in _SETS:
            holds = _SETS[char.lower()]
            return holds if char.islower() else lambda found: not holds(found)
        if char.isalnum() and char not in _BREAKS:
            raise self.refused(f"'\\{char}' is not part of it")
        wanted = _BREAKS.get(char, char)
        return lambda found: found == wanted

    def char_class(self) -> Callable[[str], bool]:
        negated = self.peek() == "^"
        self.at += negated
        tests = list(self.class_items())
        if not tests:
            raise self.refused("a class [] is empty")
        return lambda found: any(test(found) for test in tests) is not negated

    def class_items(self) -> Iterator[Callable[[str], bool]]:
        while self.peek() != "]":
            char = self.take()
            if char == "\\":
                yield self.escaped()
            elif self.peek() == "-" and self.body[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                yield self.span(char, self.take())
            else:
                yield lambda found, wanted=char: found == wanted  # type: ignore[misc]
        self.at += 1

    def span(self, first: str, last: str) -> Callable[[str], bool]:
        if last == "\\" or last < first:
            raise self.refused(f"'{first}-{last}' is no span of characters")
        return lambda found: first <= found <= last

    def repeated(self, part: Part) -> Part:
        bounds = {"*": _Bounds(0, None), "+": _Bounds(1, None), "?": _Bounds(0, 1)}.get(self.peek())
        if bounds is not None:
            self.at += 1
        elif self.peek() == "{":
            bounds = self.braces()
        if bounds is None:
            return part
        if self.peek() and self.peek() in "*+?{":
            raise self.refused(f"'{self.peek()}' repeats a repeat")
        return _repeat(part, bounds)

    def braces(self) -> _Bounds:
        end = self.body.find("}", self.at)
        least, comma, most = self.body[self.at + 1 : max(end, 0)].partition(",")
        if end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            raise self.refused("a repeat in braces is {n}, {n,} or {n,m}")
        self.at = end + 1
        bounds = _Bounds(int(least), int(most) if most else None if comma else int(least))
        if max(bounds.least, bounds.most or 0) > PATTERN_REPEATS_MAX or bounds.least > (bounds.most or bounds.least):
            raise self.refused(f"a repeat goes from few to many, and to at most {PATTERN_REPEATS_MAX}")
        return bounds


def _one(test: Callable[[str], bool]) -> Part:
    return lambda text, starts: frozenset(at + 1 for at in starts if at < len(text) and test(text[at]))


def _one_after_the_other(parts: list[Part]) -> Part:
    def ends(text: str, starts: Places) -> Places:
        for part in parts:
            if not starts:
                break
            starts = part(text, starts)
        return starts

    return ends


def _any_of(ways: list[Part]) -> Part:
    return lambda text, starts: frozenset().union(*(way(text, starts) for way in ways))


def _repeat(part: Part, bounds: _Bounds) -> Part:
    def ends(text: str, starts: Places) -> Places:
        for _ in range(bounds.least):
            before, starts = starts, part(text, starts)
            if starts == before:  # nothing, or all there is: more of the same changes nothing
                break
        reached, newest, left = starts, starts, bounds.most - bounds.least if bounds.most is not None else len(text)
        while newest and left > 0:  # a place is looked at once, so this ends by itself
            newest = part(text, newest) - reached
            reached |= newest
            left -= 1
        return reached

    return ends
