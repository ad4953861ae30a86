"""Emphasis around marks: when marks are removed from a text, the emphasis around them is removed too."""

import re
from collections.abc import Iterable

Span = tuple[int, int]

_SIGNS = "*_~"
_BLANKS = " \t"
_SIGNS_MAX = 8  # of emphasis on one side: bold, italic and strikethrough take five
EMPHASIS_TAGS = "b|strong|i|em|u|s|del|ins|mark|small|big|span|font"
_OPENING = re.compile(rf"<({EMPHASIS_TAGS})>\Z", re.IGNORECASE)
_CLOSING = re.compile(rf"</({EMPHASIS_TAGS})>", re.IGNORECASE)
_TAG_CHARS_MAX = len("<strong>")


def with_emphasis(text: str, marks: Iterable[Span]) -> list[Span]:
    """The spans of the marks, each with the emphasis that contains nothing else; adjacent marks are one span."""
    found: list[Span] = []
    for start, end in _merge_adjacent(text, marks):
        first, last = start, end
        while (wider := _widen_once(text, first, last)) is not None:
            first, last = wider
        if found and first < found[-1][1]:  # the emphasis of the one before ended here
            first = found[-1][1]
        found.append((_before_blanks(text, first, last), last))
    return found


def _merge_adjacent(text: str, marks: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in marks:
        if joined and not text[joined[-1][1] : start].strip(_BLANKS):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _widen_once(text: str, first: int, last: int) -> Span | None:
    """The span with one more pair of signs or tags."""
    while first > 0 and text[first - 1] in _BLANKS:
        first -= 1
    while last < len(text) and text[last] in _BLANKS:
        last += 1
    sign = text[first - 1 : first]
    if sign and sign in _SIGNS and text.startswith(sign, last) and not _belongs_to_words(text, first, last):
        return first - 1, last + 1
    opening, closing = _OPENING.search(text, max(0, first - _TAG_CHARS_MAX), first), _CLOSING.match(text, last)
    if opening and closing and opening[1].lower() == closing[1].lower():
        return opening.start(), closing.end()
    return None


def _belongs_to_words(text: str, first: int, last: int) -> bool:
    """True if the signs belong to words beside the mark: `*a* [END] *b*`."""
    before = text[max(0, first - _SIGNS_MAX) : first].rstrip(_SIGNS)[-1:]
    after = text[last : last + _SIGNS_MAX].lstrip(_SIGNS)[:1]
    return before.isalnum() or after.isalnum()


def _before_blanks(text: str, first: int, last: int) -> int:
    """The start before the blank, if the words before it share the emphasis: a trailing blank would undo it."""
    if not text.startswith(tuple(_SIGNS), last):
        return first
    while first > 0 and text[first - 1] in _BLANKS:
        first -= 1
    return first
