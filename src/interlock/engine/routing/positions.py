"""Where marks stand in a reply, and whether they count there."""

from collections.abc import Callable

import msgspec

from interlock.signals.matching import marks


class PlacedMark(msgspec.Struct, frozen=True):
    """A mark and the line of its closing bracket."""

    inner: str
    start: int
    end: int
    line: int
    line_start: int
    line_end: int


def marks_with_lines(text: str, wanted: Callable[[str], bool], reading: int) -> list[PlacedMark]:
    """The wanted marks with their lines; each line is searched once."""
    found = marks(text, wanted, reading)
    if "\r" in text:  # the same length, so that positions stay valid
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    placed: list[PlacedMark] = []
    number, start, end = 1, 0, -1
    for mark in found:
        last = mark.end - 1
        if last > end:
            number += text.count("\n", start, last)
            start = text.rfind("\n", start, last) + 1 or start
            end = text.find("\n", last)
            end = len(text) if end < 0 else end
        placed.append(PlacedMark(mark.inner, mark.start, mark.end, number, start, end))
    return placed


def position_rule(
    position: str, seen: list[PlacedMark], text: str, recognizes: Callable[[str], bool]
) -> Callable[[PlacedMark], bool]:
    """A test whether a mark stands where marks count."""
    if position == "last_line":
        last = len(text.rstrip())
        return lambda mark: mark.line_end >= last
    if position == "own_line":
        lines = _mark_only_lines(seen, text, recognizes)
        return lambda mark: mark.line in lines
    return lambda mark: True


def never_counts(mark: PlacedMark) -> bool:
    return False


# Blanks and emphasis beside marks do not count as text.
_AROUND_MARKS = "*_~ \t\r"


def _mark_only_lines(seen: list[PlacedMark], text: str, recognizes: Callable[[str], bool]) -> set[int]:
    """The numbers of lines that hold only marks, blanks and emphasis."""
    by_line: dict[int, list[PlacedMark]] = {}
    for mark in seen:
        if recognizes(mark.inner):
            by_line.setdefault(mark.line, []).append(mark)
    return {line for line, group in by_line.items() if is_mark_only(text, group)}


def is_mark_only(text: str, group: list[PlacedMark]) -> bool:
    """Whether the line of these marks holds only them, blanks and emphasis."""
    return not _rest_of_line(text, group).strip(_AROUND_MARKS)


def _rest_of_line(text: str, group: list[PlacedMark]) -> str:
    rest, position = "", group[0].line_start
    for mark in group:
        rest += text[position : mark.start]
        position = mark.end
    return rest + text[position : group[0].line_end]
