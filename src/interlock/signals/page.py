"""The visible text of a Markdown reply: brackets that are plain text, not code, quote or link.

Rule 1: code fences hide to their end, an unclosed one to the end of the text.
Rule 2: block quotes are recognised line by line; a line that does not begin with `>` is not quoted.
Rule 3: code spans stay within a line; an unclosed backtick hides to the end of its line.
Rule 4: `[x](…)`, `![x](…)` and `[x]: url` are links, with everything inside them; a backslash hides the next sign.
        A link ends on one line; its text may have begun on an earlier one.
Rule 5: HTML hides as in `html`, if it is visible itself: not in code, not after a backslash, not in a quote.
Rule 6: questions are asked from left to right; each line is read at most once, so the whole costs one pass.

Reading 2 is for runs under older rules: it treats HTML as text.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from heapq import merge
from operator import itemgetter

from interlock.limits import FENCE_SIGNS_MAX, LINK_NESTING_MAX, MARK_CHARS_MAX
from interlock.signals.html import HtmlElements, end_of_hidden, sign_at

_LIST_ITEMS = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_FENCE = re.compile(_LIST_ITEMS + r"(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})")
_FENCE_END = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(?:\n|\Z)")
_QUOTE = re.compile(_LIST_ITEMS + ">")
_TICKS = re.compile("`+")
_PLAIN_DESTINATION = re.compile(r"\([^()\\\n]{0,400}\)")
_DEFINITION = re.compile(
    _LIST_ITEMS + r"(\[[^\[\]\n]+\]:[ \t]*(?=[/#.<]|[A-Za-z][A-Za-z0-9+.\-]+:\S)"
    r"(?:<[^<>\n]*>|\S+)"
    r"""(?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)))?)"""
)

_SIGNS = ("[", "]", "`", "\\")
_SIGNS_WITH_HTML = (*_SIGNS, "<")

Span = tuple[int, int]


class MarkdownPage:
    """One text, queried for positions in ascending order."""

    def __init__(self, text: str, reading: int = 3) -> None:
        if "\r" in text:  # same length, so that positions stay
            text = text.replace("\r\n", " \n").replace("\r", "\n")
        self._text = text
        self._elements = HtmlElements(text) if reading > 2 and "<" in text else None
        self._blocks = deque(_blocks(text, self._elements))
        self._behind = 0  # the last block that is over ends here
        self._lines: deque[_Line] = deque(maxlen=2)  # a mark may begin on the line before

    def shows(self, first: int, last: int) -> bool:
        """True if both brackets, at `first` and `last`, are visible."""
        while self._blocks and self._blocks[0][1] <= first:
            self._behind = self._blocks.popleft()[1]
        if self._blocks and self._blocks[0][0] <= last:
            return False
        return not self._line_at(first).hides(first) and not self._line_at(last).hides(last)

    def _line_at(self, position: int) -> "_Line":
        for line in self._lines:
            if line.start <= position <= line.end:
                return line
        after = self._lines[-1].end if self._lines and self._lines[-1].end <= position else 0
        after = max(after, min(self._behind, position))
        start = self._text.rfind("\n", after, position) + 1 or after
        end = self._text.find("\n", position)
        self._lines.append(_Line(self._text, start, end if end >= 0 else len(self._text), self._elements))
        return self._lines[-1]


class _Line:
    """One line and its hidden spans. Inline, code and escapes hide the text after them, links the text before `)`."""

    def __init__(self, text: str, start: int, end: int, elements: HtmlElements | None) -> None:
        self.start, self.end, self._text, self._elements = start, end, text, elements
        self._block_end = _end_of_hidden_block(text, start, end)
        signs = [text.find(sign, start, end) for sign in ("`", "\\", *(("<",) if elements else ()))]
        self._first_sign = min((sign for sign in signs if sign >= 0), default=end)
        self._last_paren = text.rfind(")", start, end)

    def hides(self, position: int) -> bool:
        if position < self._block_end:
            return True
        if self._last_paren < position < self._first_sign:
            return False
        at = bisect_right(self._spans, position, key=itemgetter(0)) - 1
        return at >= 0 and position < self._spans[at][1]

    @cached_property
    def _spans(self) -> list[Span]:
        """The spans hidden inline, in order and apart from each other."""
        return _inline_spans(self._text, self._block_end, self.end, self._elements)


def _blocks(text: str, elements: HtmlElements | None) -> Iterator[Span]:
    """The spans of code fences, and of HTML that hides several lines. Each line is read once for both."""
    signs = ("```", "~~~") if "`" in text or "~" in text else ()  # far cheaper than a search for three in a row
    if elements is not None:
        signs = (*signs, "<")
    position = line_start = line_end = fence_sought = element_sought = 0
    for sign in _places(text, signs, 0, len(text)) if signs else ():
        is_fence = text[sign] != "<"
        if sign < position or sign < (fence_sought if is_fence else element_sought):
            continue
        if sign >= line_end:
            line_start, line_end = text.rfind("\n", position, sign) + 1 or position, _line_end(text, sign)
        if is_fence:
            block, fence_sought = _fence_block(text, line_start, sign), line_end
        elif not _is_multiline(text, sign, line_end, elements):
            continue
        else:
            block, element_sought = _element_block(text, line_start, line_end, elements), line_end
        if block:
            position = line_end = block[1]
            yield block


def _fence_block(text: str, line_start: int, sign: int) -> Span | tuple[()]:
    """The block of a code fence, which must be at the start of a line."""
    fence = _FENCE.match(text, line_start) if _begins_line(text, line_start) else None
    if fence is None or fence.start(1) != sign:
        return ()
    return line_start, _fence_end(text, _line_end(text, sign), fence[1])


def _is_multiline(text: str, sign: int, line_end: int, elements: HtmlElements | None) -> bool:
    """True if the construct that begins here is closed on another line."""
    found = sign_at(text, sign, line_end) if elements is not None else None
    return found is not None and elements is not None and elements.end_after(found) >= line_end


def _element_block(text: str, line_start: int, line_end: int, elements: HtmlElements | None) -> Span | tuple[()]:
    """The block of an element that this line opens and another one closes."""
    end = line_end - text.endswith("\n", line_start, line_end)
    spans = _inline_spans(text, _end_of_hidden_block(text, line_start, end), end, elements)
    return spans[-1] if spans and spans[-1][1] > end else ()


def _begins_line(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def may_be_in_fence(text: str, position: int) -> bool:
    """True if a code fence hides the position, or there are too many fences to tell. HTML around them is not read."""
    if text.count("```") + text.count("~~~") > FENCE_SIGNS_MAX:
        return True
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    return any(start <= position < end for start, end in _blocks(text, None))


def _fence_end(text: str, position: int, opening: str) -> int:
    while position < len(text):
        position = text.find(opening, position)
        if position < 0:
            break
        line_start = text.rfind("\n", 0, position) + 1
        position = _line_end(text, position)
        closing = _FENCE_END.match(text, line_start)
        if closing and closing[1].startswith(opening):
            return position
    return len(text)


def fence_opened_by(line: str) -> str:
    """The signs of the fence that a line (without its break) opens; empty if it opens none."""
    fence = _FENCE.match(line)
    return fence[1] if fence else ""


def closes_fence(line: str, opening: str) -> bool:
    closing = _FENCE_END.match(line)
    return closing is not None and closing[1].startswith(opening)


def element_left_open(line: str, closed_by: str) -> str:
    """The closing sign of HTML that is open after a line, or empty; `closed_by` is that of the lines before."""
    position = _end_of_hidden_block(line, 0, len(line))
    if closed_by:
        position = end_of_hidden(line, 0, closed_by, len(line))
        if position < 0:
            return closed_by
    for place in _places(line, ("<", "`", "\\"), position, len(line)) if "<" in line else ():
        if place < position:
            continue
        sign = sign_at(line, place, len(line)) if line[place] == "<" else None
        if sign is None:
            position = _after_hidden(line, place, len(line)) if line[place] != "<" else place + 1
            continue
        position = end_of_hidden(line, sign.end, sign.closed_by, len(line)) if sign.closed_by else sign.end
        if position < 0:
            return sign.closed_by
    return ""


def _line_end(text: str, position: int) -> int:
    """The position after the line's break."""
    return text.find("\n", position) + 1 or len(text)


def _end_of_hidden_block(text: str, start: int, end: int) -> int:
    """The end of a quote or definition that begins the line."""
    if not _begins_line(text, start):
        return start
    if _QUOTE.match(text, start, end):
        return end
    definition = _DEFINITION.match(text, start, end)
    return definition.end() if definition else start


def _inline_spans(text: str, start: int, end: int, elements: HtmlElements | None) -> list[Span]:
    """The hidden spans of a line; the last one may extend beyond its end."""
    spans: list[Span] = []
    opened = deque([start] if _has_open_bracket(text, start) else [], maxlen=LINK_NESTING_MAX)
    destinations = _Destinations(text, start, end)
    position = start
    for place in _places(text, _SIGNS if elements is None else _SIGNS_WITH_HTML, start, end):
        if place < position:
            continue
        position = place + 1
        match text[place]:
            case "[":
                opened.append(place)
            case "]":
                opening = opened.pop() if opened else None
                if opening is not None and (after := destinations.after(position)):
                    position = after
                    _add_span(spans, opening, position)
            case "<":
                position = _after_element(text, place, end, elements)
                if position > place + 1:
                    spans.append((place, position))
            case _:
                position = _after_hidden(text, place, end)
                spans.append((place, position))
    return spans


def _after_hidden(text: str, place: int, end: int) -> int:
    """The position after the code span or the escaped sign that begins here."""
    return _after_code(text, place, end) if text[place] == "`" else place + 2


def _after_element(text: str, place: int, end: int, elements: HtmlElements | None) -> int:
    """The position after the HTML that begins here; the next position if there is none."""
    sign = sign_at(text, place, end) if elements is not None else None
    if sign is None or elements is None:
        return place + 1
    after = elements.end_after(sign)
    return after if after >= 0 else end


def _has_open_bracket(text: str, start: int) -> bool:
    """True if a bracket of an earlier line is still open here, so a link may end on this line."""
    before = max(0, start - MARK_CHARS_MAX)
    return text.rfind("[", before, start) > text.rfind("]", before, start)


def _after_code(text: str, first: int, end: int) -> int:
    runs = _TICKS.finditer(text, first, end)
    opening = len(next(runs)[0])
    return next((run.end() for run in runs if run.end() - run.start() == opening), end)


class _Destinations:
    """The ends of the `(…)` of a line's links. Few contain parentheses; for those the line is read once."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end

    def after(self, position: int) -> int | None:
        """The position after the destination that begins at `position`, if one does."""
        if plain := _PLAIN_DESTINATION.match(self._text, position, self._end):
            return plain.end()
        return self._ends_by_start.get(position) if self._text.startswith("(", position, self._end) else None

    @cached_property
    def _ends_by_start(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        opened: list[int] = []
        position = self._start
        for place in _places(self._text, ("(", ")", "\\"), self._start, self._end):
            if place < position:
                continue
            if self._text[place] == "\\":
                position = place + 2
            elif self._text[place] == "(":
                opened.append(place)
            elif opened:
                ends[opened.pop()] = place + 1
        return ends


def _places(text: str, signs: tuple[str, ...], start: int, end: int) -> Iterator[int]:
    """The positions of the signs, in order. Searching for one at a time is ten times faster than for any of them."""
    return merge(*(_places_of(text, sign, start, end) for sign in signs))


def _places_of(text: str, sign: str, start: int, end: int) -> Iterator[int]:
    while (start := text.find(sign, start, end)) >= 0:
        yield start
        start += len(sign)


def _add_span(spans: list[Span], first: int, after: int) -> None:
    """Adds a span; the span of a link replaces those inside its text."""
    while spans and spans[-1][0] >= first:
        spans.pop()
    spans.append((first, after))
