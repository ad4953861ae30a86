"""What a reader of Markdown sees: which brackets of a text are plain text rather than code, quote or link.

Rule 1: code fences hide to their end, an unclosed one to the end of the text.
Rule 2: block quotes are told line by line; a line that does not begin with `>` is not quoted.
Rule 3: code spans stay within a line; an unclosed backtick hides to the end of its line.
Rule 4: `[x](…)`, `![x](…)` and `[x]: url` are links, with all that is inside them; a backslash hides what follows.
Rule 5: questions are asked from left to right; each line is read at most once, so the whole costs one pass.
"""

import re
from bisect import bisect_right
from collections import deque

from interlock.limits import LINK_NESTING_MAX

_LIST_ITEMS = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_FENCE = re.compile(_LIST_ITEMS + r"(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})")
_FENCE_SIGN = re.compile("```|~~~")
_FENCE_END = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(?:\n|\Z)")
_QUOTE = re.compile(_LIST_ITEMS + ">")
_TICKS = re.compile("`+")
_TOKEN = re.compile(r"\\[^\n]|`+|[\[\]]")
_PAREN = re.compile(r"\\[^\n]|[()]")
_DEFINITION = re.compile(
    r"[ \t]*(\[[^\[\]\n]+\]:[ \t]*(?=[/#.<]|[A-Za-z][A-Za-z0-9+.\-]+:\S)"
    r"(?:<[^<>\n]*>|\S+)"
    r"""(?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)))?)"""
)

Span = tuple[int, int]


class Page:
    """One text, asked about positions in growing order."""

    def __init__(self, text: str) -> None:
        if "\r" in text:  # same length, so that positions stay
            text = text.replace("\r\n", " \n").replace("\r", "\n")
        self._text = text
        self._fences = deque(_fences(text))
        self._lines: deque[_Line] = deque(maxlen=2)  # a mark may begin on the line before

    def shows(self, first: int, last: int) -> bool:
        """Whether both brackets, at `first` and `last`, are visible."""
        while self._fences and self._fences[0][1] <= first:
            self._fences.popleft()
        if self._fences and self._fences[0][0] <= last:
            return False
        return not self._line_at(first).hides(first) and not self._line_at(last).hides(last)

    def _line_at(self, position: int) -> "_Line":
        for line in self._lines:
            if line.start <= position <= line.end:
                return line
        after = self._lines[-1].end if self._lines and self._lines[-1].end <= position else 0
        start = self._text.rfind("\n", after, position) + 1 or after
        end = self._text.find("\n", position)
        self._lines.append(_Line(self._text, start, end if end >= 0 else len(self._text)))
        return self._lines[-1]


class _Line:
    """One line and the spans of it that are hidden, in order and apart from each other."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        self._hidden = _hidden_spans(text, start, end)
        self._starts = [span[0] for span in self._hidden]

    def hides(self, position: int) -> bool:
        at = bisect_right(self._starts, position) - 1
        return at >= 0 and position < self._hidden[at][1]


def _fences(text: str) -> list[Span]:
    """The spans of code fences. Only what opens a line can be a fence, so a line is looked at once."""
    fences: list[Span] = []
    if "```" not in text and "~~~" not in text:
        return fences
    position = 0
    while ticks := _FENCE_SIGN.search(text, position):
        line_start = text.rfind("\n", position, ticks.start()) + 1 or position
        line_end = _line_end(text, ticks.start())
        fence = _FENCE.match(text, line_start)
        if fence is None or fence.start(1) != ticks.start():
            position = line_end
            continue
        position = _fence_end(text, line_end, fence[1])
        fences.append((line_start, position))
    return fences


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


def _line_end(text: str, position: int) -> int:
    """The position after the line's break."""
    return text.find("\n", position) + 1 or len(text)


def _hidden_spans(text: str, start: int, end: int) -> list[Span]:
    if _QUOTE.match(text, start, end):
        return [(start, end + 1)]
    spans: list[Span] = []
    definition = _DEFINITION.match(text, start, end)
    if definition:
        spans.append(definition.span(1))
        start = definition.end()
    if any(text.find(sign, start, end) >= 0 for sign in ("`", "\\", "](")):
        spans += _inline_spans(text, start, end)
    return spans


def _inline_spans(text: str, start: int, end: int) -> list[Span]:
    spans: list[Span] = []
    opened: deque[int] = deque(maxlen=LINK_NESTING_MAX)
    closing_paren = _closing_parens(text, start, end)
    position = start
    while token := _TOKEN.search(text, position, end):
        first, position = token.span()
        if token[0] == "[":
            opened.append(first)
            continue
        if token[0][0] == "`":
            position = _after_code(text, position, end, len(token[0]))
        elif token[0] == "]":
            first = opened.pop() if opened else first
            if position not in closing_paren:
                continue
            position = closing_paren[position] + 1
        _cover(spans, first, position)
    return spans


def _after_code(text: str, position: int, end: int, ticks: int) -> int:
    for run in _TICKS.finditer(text, position, end):
        if run.end() - run.start() == ticks:
            return run.end()
    return end


def _closing_parens(text: str, start: int, end: int) -> dict[int, int]:
    """Where each parenthesis of the line that follows a `]` is closed."""
    closed: dict[int, int] = {}
    if text.find("](", start, end) < 0:
        return closed
    opened: list[int] = []
    for paren in _PAREN.finditer(text, start, end):
        if paren[0] == "(":
            opened.append(paren.start())
        elif paren[0] == ")" and opened:
            closed[opened.pop()] = paren.start()
    return closed


def _cover(spans: list[Span], first: int, after: int) -> None:
    """Adds a span; a link swallows what was hidden inside its text."""
    while spans and spans[-1][0] >= first:
        spans.pop()
    spans.append((first, after))
