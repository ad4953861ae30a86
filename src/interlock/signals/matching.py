"""Recognition: the signals in a text, how exact each is, and where.

Rule 1: identity is exact, recognition is tolerant: `exact`, then `case_insensitive`, then `normalized`.
Rule 2: a mark begins at the last `[` before its `]`; it counts only if a reader would see it (`page`).
Rule 3: one pass; the cost grows with the text, never with the number of signals. Beyond a stated size only the last
line is read.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cached_property, partial

import msgspec

from interlock.errors import BadSignalFormat
from interlock.limits import LAST_LINE_CHARS_MAX, MARK_CHARS_MAX, READ_CHARS_MAX
from interlock.signals.definition import is_signal_name
from interlock.signals.page import MarkdownPage, may_be_in_fence


class MatchMethod(StrEnum):
    """Levels of recognition, most exact first."""

    EXACT = "exact"
    CASE_INSENSITIVE = "case_insensitive"
    NORMALIZED = "normalized"


METHODS = tuple(MatchMethod)


class Match(msgspec.Struct, frozen=True):
    """A mark of `signal` at `text[start:end]`. A mark that fits two signals equally gives a match for each."""

    signal: str
    method: MatchMethod
    start: int
    end: int


class VisibleMark(msgspec.Struct, frozen=True, gc=False):
    """A visible pair of brackets that may or may not be a signal."""

    inner: str
    start: int
    end: int


_BRACKETS = re.compile(rf"\[([^\[\]]{{1,{MARK_CHARS_MAX - 2}}})\]")


class SignalMatcher:
    """Finds signals in texts; made once for a set of names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        # One table per level, most exact first: from the spelling of a mark to the names it may mean.
        self._exact: dict[str, tuple[str, ...]] = {}
        self._caseless: dict[str, tuple[str, ...]] = {}
        self._normalized: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            if not is_signal_name(name):
                raise BadSignalFormat(name)
            inner = name[1:-1]
            self._exact[inner] = (name,)
            _add(self._caseless, inner.casefold(), name)
            _add(self._normalized, normal_form(inner), name)

    def find(self, text: str) -> list[Match]:
        """Every mark of every signal, in the order of the text."""
        found = []
        for mark in marks(text, self.recognizes):
            method, names = self.lookup(mark.inner)
            found += [Match(name, method, mark.start, mark.end) for name in names]
        return found

    def recognizes(self, inner: str) -> bool:
        return inner in self._exact or inner.casefold() in self._caseless or normal_form(inner) in self._normalized

    def can_begin(self, inner: str) -> bool:
        """False if no mark that is recognised begins with this; True also where that is too costly to tell."""
        if not inner.isascii():
            return True
        known = inner[:-1]  # an accent may follow the last letter
        return normal_form(known) in self._beginnings or known.lower() in self._beginnings

    @cached_property
    def _beginnings(self) -> set[str]:
        """All beginnings of the forms of all names."""
        forms = (*self._caseless, *self._normalized)
        return {form[:end] for form in forms for end in range(len(form) + 1)}

    def lookup(self, inner: str) -> tuple[MatchMethod, tuple[str, ...]]:
        """The names that a mark may mean, at the most exact level that has any; empty if there is none."""
        if names := self._exact.get(inner):
            return MatchMethod.EXACT, names
        if names := self._caseless.get(inner.casefold()):
            return MatchMethod.CASE_INSENSITIVE, names
        return MatchMethod.NORMALIZED, self._normalized.get(normal_form(inner), ())


def marks(
    text: str, wanted: Callable[[str], object], reading: int = 3, *, reads_all: bool = False
) -> list[VisibleMark]:
    """The visible marks whose content is wanted. Asking first keeps prose with brackets cheap.

    Of a text longer than `READ_CHARS_MAX` only the beginning and the last line are read, unless it `reads_all`.
    `reading` 2 is for runs under older rules: it reads all of a text and treats HTML as text.
    """
    if reading > 2 and len(text) > READ_CHARS_MAX and not reads_all:
        return [*marks(text[:READ_CHARS_MAX], wanted, reading), *marks_of_last_line(text, wanted)]
    found = _marks_between(text, wanted, 0, len(text))
    if not found or is_plain(text):
        return found
    page = MarkdownPage(text, reading)
    return [mark for mark in found if page.shows(mark.start, mark.end - 1)]


def _marks_between(text: str, wanted: Callable[[str], object], start: int, end: int) -> list[VisibleMark]:
    """The wanted marks in a part of the text, visible or not: what the pattern finds, in half of its time."""
    found: list[VisibleMark] = []
    last = text.find("]", start, end)
    while last >= 0:
        first = text.rfind("[", start, last)
        if first >= 0 and 1 < last - first < MARK_CHARS_MAX and wanted(inner := text[first + 1 : last]):
            found.append(VisibleMark(inner, first, last + 1))
        start = last + 1
        last = text.find("]", start, end)
    return found


def neutralizer(wanted: Callable[[str], object]) -> Callable[[str], str]:
    """Puts ⟦⟧ around the wanted marks of a text, visible or not, so that an echo of them steers nothing."""

    def show(mark: re.Match[str]) -> str:
        inner = mark[1]
        return f"⟦{inner}⟧" if wanted(inner) else mark[0]

    return partial(_BRACKETS.sub, show)


def is_plain(text: str) -> bool:
    """True if a text has no sign of code, quote, link or escape; far cheaper than reading it as a page."""
    if "`" in text or "<" in text or ">" in text or "\\" in text:
        return False
    # One sign is found in a fifth of the time that two take.
    has_link = ("(" in text and "](" in text) or (":" in text and "]:" in text)
    return not has_link and not ("~" in text and "~~~" in text)


def marks_of_last_line(text: str, wanted: Callable[[str], object]) -> list[VisibleMark]:
    """The marks of the last visible line after the part that is read, if it is plain and surely not in a code fence."""
    end = len(text.rstrip())
    start = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1
    start = max(start, READ_CHARS_MAX, end - LAST_LINE_CHARS_MAX)
    found = _marks_between(text, wanted, start, end)
    return found if found and is_plain(text[start:end]) and not may_be_in_fence(text, start) else []


def normal_form(inner: str) -> str:
    """The text in NFC, without case; white space, `_` and `-` are the same; ends and emphasis are trimmed."""
    folded = inner.lower() if inner.isascii() else _fold_case(inner)
    return " ".join(folded.replace("_", " ").replace("-", " ").split()).strip("*~ ")


def _fold_case(text: str) -> str:
    # Folding before decomposing would keep canonically equal spellings apart (Unicode D145).
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def _add(table: dict[str, tuple[str, ...]], key: str, name: str) -> None:
    table[key] = (*table.get(key, ()), name)
