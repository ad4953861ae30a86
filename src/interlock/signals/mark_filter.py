"""A reply without its marks, while it streams.

Rule 1: any pieces give the same text as `text_without_marks` of the whole reply.
Rule 2: only what could still be, or belong to, a mark is held back: an open bracket that may become a known name,
emphasis and blanks before one, and a mark until its line tells whether a reader sees it.
Rule 3: Markdown is read in windows. A window begins at a line that nothing before it hides, and ends where nothing in
it can be hidden any more: mostly one line. The whole costs one pass.
Rule 4: beyond `READ_CHARS_MAX` only the last line can hold marks, as in `matching`.
"""

import re
from collections.abc import Iterable
from enum import Enum

from interlock.limits import MARK_CHARS_MAX, READ_CHARS_MAX
from interlock.signals.emphasis import EMPHASIS_TAGS, Span, with_emphasis
from interlock.signals.matching import SignalMatcher, is_plain, marks, marks_of_last_line
from interlock.signals.page import closes_fence, element_left_open, fence_opened_by

_TOKENS = re.compile(r"\[|\]|<|\r\n|\n|\r|[ \t*_~]+|[^\[\]<\r\n \t*_~]+")
_BRACKET = re.compile(r"[\[\]]")
_BREAKS = ("\n", "\r", "\r\n")
_RUN_SIGNS = frozenset(" \t*_~")
_TAG = re.compile(rf"<(?:{EMPHASIS_TAGS})>", re.IGNORECASE)
_TAG_AT_END = re.compile(rf"<(?:{EMPHASIS_TAGS})>\Z", re.IGNORECASE)
_TAG_BEGINS = re.compile(r"<[A-Za-z]{0,6}\Z")
_TAG_CHARS_MAX = len("<strong>")


class _Holding(Enum):
    """Why text is held back."""

    RUN = "emphasis and blanks, which may belong to a mark"
    TAG = "the beginning of a tag of emphasis"
    BRACKET = "an open bracket, which may become a mark"
    MARK = "a mark that may yet be hidden"


def text_without_marks(text: str, matcher: SignalMatcher, reading: int = 3) -> str:
    """The text for people: without known marks and the emphasis around them."""
    spans = [(mark.start, mark.end) for mark in marks(text, matcher.recognizes, reading)]
    return "".join(_outside(text, with_emphasis(text, spans) if reading >= 3 else spans)).strip()


class MarkFilter:
    """Removes marks from one reply: `feed` takes its pieces and gives what can be shown, `end` gives the rest."""

    def __init__(self, matcher: SignalMatcher) -> None:
        self._matcher = matcher
        self._pieces: list[str] = []  # of the whole reply
        self._length = 0
        self._ending = _Ending()
        self._carriage_return = ""  # at the end of a piece: a line feed may follow
        # The window: its text, the place of its beginning, and what stands for the text before it.
        self._window: list[str] = []
        self._window_start, self._before, self._tail = 0, "", ""
        self._line: list[str] = []
        self._fence = self._closed_by = ""
        self._holding, self._held = _Holding.RUN, list[str]()
        self._inner = self._tag = ""
        self._shown: list[str] = []
        self._is_hidden_later = False  # the mark may be hidden by the rest of its line
        # Beyond the part that is read: the marks of its last window, and whether that line is over.
        self._is_beyond, self._marks_before, self._has_line_ended = False, list[Span](), False

    def feed(self, piece: str) -> str:
        """Takes a piece; gives the text that can be shown now, which may be empty."""
        piece = self._carriage_return + piece
        self._carriage_return = "\r" if piece.endswith("\r") else ""
        self._read(piece.removesuffix("\r"))
        return self._take_shown()

    def end(self) -> str:
        """The rest of the text: the reply is complete."""
        self._read(self._carriage_return)
        self._carriage_return = ""
        if self._holding is _Holding.MARK:
            self._remove_marks(self._last_marks())
        self._show_held()
        return self._take_shown()

    def _take_shown(self) -> str:
        shown, self._shown = "".join(self._shown), []
        return self._ending.without_blanks(shown)

    def _read(self, piece: str) -> None:
        self._pieces.append(piece)
        room = READ_CHARS_MAX - self._length
        if not self._is_beyond and len(piece) > room:
            self._read_tokens(piece[:room])
            self._pass_limit()
            piece = piece[room:]
        self._read_tokens(piece)

    def _read_tokens(self, piece: str) -> None:
        for part in _TOKENS.findall(piece):
            if self._has_line_ended and not part.isspace():
                self._keep_earlier_line()
            self._length += len(part)
            self._window.append(part)
            if part in _BREAKS:
                self._on_break(part)
            else:
                self._line.append(part)
                self._on_token(part)

    def _on_token(self, part: str) -> None:
        if self._fence:
            self._shown.append(part)
        elif self._holding is _Holding.MARK:
            self._on_token_after_mark(part)
        elif self._holding is _Holding.BRACKET:
            self._on_token_in_bracket(part)
        elif self._holding is _Holding.TAG:
            self._on_token_in_tag(part)
        elif part == "[":
            self._open_bracket()
        elif part == "<":
            self._held.append(part)
            self._holding, self._tag = _Holding.TAG, part
        elif part[0] in _RUN_SIGNS:
            self._held.append(part)
        else:
            self._held.append(part)
            self._show_held()

    def _open_bracket(self) -> None:
        self._held.append("[")
        self._holding, self._inner = _Holding.BRACKET, ""

    def _on_token_in_tag(self, part: str) -> None:
        tag = self._tag + part
        if found := _TAG.match(tag):
            self._held.append(part[: found.end() - len(self._tag)])
            self._holding = _Holding.RUN
            if rest := tag[found.end() :]:
                self._on_token(rest)
        elif _TAG_BEGINS.match(tag):
            self._held.append(part)
            self._tag = tag
        else:
            self._show_held()
            self._on_token(part)

    def _on_token_in_bracket(self, part: str) -> None:
        if part == "]":
            self._held.append(part)
            if self._matcher.recognizes(self._inner):
                self._holding, self._is_hidden_later = _Holding.MARK, False
            else:
                self._show_held()
        elif part == "[":  # a mark begins at the last one
            self._give_up_bracket()
            self._show_tag_begun()
            self._open_bracket()
        else:
            self._held.append(part)
            self._inner += part
            if len(self._inner) > MARK_CHARS_MAX - 2 or not self._matcher.can_begin(self._inner):
                self._give_up_bracket()

    def _give_up_bracket(self) -> None:
        """Shows what was held, but for emphasis and blanks at its end."""
        text = "".join(self._held)
        begun = _TAG_BEGINS.search(text, max(0, len(text) - _TAG_CHARS_MAX))
        start = _start_of_run(text, begun.start() if begun else len(text))
        self._show_held()
        if start < len(text):
            self._shown[-1] = text[:start]
            self._held = [text[start:]]
            if begun:
                self._holding, self._tag = _Holding.TAG, begun[0]

    def _show_tag_begun(self) -> None:
        """Shows the beginning of a tag that is not continued."""
        if self._holding is _Holding.TAG:
            self._show_held()

    def _show_held(self) -> None:
        self._shown.append("".join(self._held))
        self._held, self._holding = [], _Holding.RUN

    def _on_token_after_mark(self, part: str) -> None:
        """Removes the mark as soon as nothing on its line can hide it; mostly at once."""
        is_next = self._held[-1] == "]"
        self._held.append(part)
        if self._is_hidden_later or part[0] in _RUN_SIGNS or self._is_beyond:
            return
        text = "".join(self._window)
        before = text[: len(text) - len(part)]
        self._is_hidden_later = (
            part in ("[", "]", "<")
            or (is_next and part[0] in "(:")
            or bool(self._closed_by or self._before.startswith("[") or _BREAKS[0] in text or _BREAKS[1] in text)
            or not is_plain(before)
            or _has_open_bracket(before)
        )
        if not self._is_hidden_later:
            ((_, end),) = spans = self._spans_of(text)
            self._remove_marks(spans)
            self._tail, self._before = "", "."  # all brackets before are closed
            self._window, self._window_start = [text[end:]], self._length - len(text) + end

    def _on_break(self, line_break: str) -> None:
        line, self._line = "".join(self._line), []
        if self._fence:
            self._shown.append(line_break)
            if closes_fence(line, self._fence):
                self._fence = ""
                self._start_window()
            return
        self._held.append(line_break)
        if self._holding is _Holding.BRACKET:
            self._inner += line_break
        elif self._holding is not _Holding.MARK:
            self._show_held()
        if self._is_beyond:
            self._end_line_beyond()
            return
        was_in_html = bool(self._closed_by)
        self._fence = "" if was_in_html else fence_opened_by(line)
        if not self._fence and (was_in_html or "<" in line):
            self._closed_by = element_left_open(line, self._closed_by)
        if self._fence or not (self._closed_by or self._may_go_beyond_line()):
            self._end_window()

    def _may_go_beyond_line(self) -> bool:
        """True if a mark may have begun that ends on a later line."""
        if self._holding is not _Holding.MARK:
            return self._holding is _Holding.BRACKET
        held = "".join(self._held)
        inner = held[held.rfind("[") + 1 :]
        return "]" not in inner and len(inner) <= MARK_CHARS_MAX - 2 and self._matcher.can_begin(inner)

    def _end_window(self) -> None:
        if self._holding is _Holding.MARK:
            self._remove_marks(self._spans_of("".join(self._window)))
        else:
            self._show_held()
            self._start_window()

    def _end_line_beyond(self) -> None:
        if self._holding is _Holding.MARK:
            self._has_line_ended = True
        elif self._holding is not _Holding.BRACKET:
            self._start_window()

    def _keep_earlier_line(self) -> None:
        """Shows a line that is not the last one: only marks of the part that is read are removed from it."""
        blanks, self._has_line_ended = self._line, False
        if blanks:  # they belong to the line that begins
            del self._window[-len(blanks) :], self._held[-len(blanks) :]
            self._length -= sum(map(len, blanks))
        self._remove_marks(with_emphasis("".join(self._window), self._marks_before))
        self._window, self._held = [*blanks], [*blanks]
        self._length += sum(map(len, blanks))

    def _pass_limit(self) -> None:
        """What follows is not read, but for the last line of the reply."""
        if self._holding is _Holding.MARK:
            self._marks_before = self._marks_of("".join(self._window))
        elif self._holding is _Holding.BRACKET:
            self._give_up_bracket()
        self._is_beyond, self._fence, self._closed_by = True, "", ""

    def _last_marks(self) -> list[Span]:
        """The marks of the last window of the reply."""
        text = "".join(self._window)
        if not self._is_beyond:
            return self._spans_of(text)
        last = marks_of_last_line("".join(self._pieces), self._matcher.recognizes)
        start = self._window_start
        return with_emphasis(text, [*self._marks_before, *((mark.start - start, mark.end - start) for mark in last)])

    def _spans_of(self, text: str) -> list[Span]:
        """The spans to remove from the window."""
        return with_emphasis(text, self._marks_of(text))

    def _marks_of(self, text: str) -> list[Span]:
        shift = len(self._before)
        found = marks(f"{self._before}{text}", self._matcher.recognizes, reads_all=True)
        return [(mark.start - shift, mark.end - shift) for mark in found if mark.start >= shift]

    def _remove_marks(self, spans: list[Span]) -> None:
        """Shows the rest of the window without these spans, and begins another."""
        held = "".join(self._held)
        start = sum(map(len, self._window)) - len(held)
        assert all(start <= first for first, _ in spans), "what could be a mark was held back"
        self._shown += _outside(held, [(first - start, last - start) for first, last in spans])
        self._held, self._holding, self._marks_before = [], _Holding.RUN, []
        self._start_window()

    def _start_window(self) -> None:
        """Begins a window after all that was read. A bracket that is open before it may be that of a link."""
        self._tail = f"{self._tail}{''.join(self._window)}"[-MARK_CHARS_MAX:]
        opening = self._tail.rfind("[")
        is_open = opening > self._tail.rfind("]")
        self._before = "[".ljust(len(self._tail) - opening, "\n") if is_open else ""
        self._window, self._window_start = [], self._length


class MarkHolder:
    """Gives a reply whole at its end: for runs under older rules of reading."""

    def __init__(self, matcher: SignalMatcher, reading: int) -> None:
        self._matcher, self._reading = matcher, reading
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        return ""

    def end(self) -> str:
        return text_without_marks("".join(self._pieces), self._matcher, self._reading)


class _Ending:
    """Strips white space around a text that comes in pieces."""

    def __init__(self) -> None:
        self._has_begun, self._blanks = False, list[str]()

    def without_blanks(self, piece: str) -> str:
        """The piece after the white space that was held back, without that at its end."""
        piece = piece if self._has_begun else piece.lstrip()
        kept = piece.rstrip()
        blanks = piece[len(kept) :]
        if not kept:
            self._blanks.append(blanks)
            return ""
        kept, self._has_begun = f"{''.join(self._blanks)}{kept}", True
        self._blanks = [blanks]
        return kept


def _outside(text: str, spans: Iterable[Span]) -> list[str]:
    """The parts of a text outside of the spans."""
    kept, position = list[str](), 0
    for start, end in spans:
        kept.append(text[position:start])
        position = end
    return [*kept, text[position:]]


def _start_of_run(text: str, end: int) -> int:
    """The start of the emphasis and blanks that end at `end`."""
    while end:
        if text[end - 1] in _RUN_SIGNS:
            end -= 1
        elif tag := _TAG_AT_END.search(text, max(0, end - _TAG_CHARS_MAX), end):
            end = tag.start()
        else:
            break
    return end


def _has_open_bracket(text: str) -> bool:
    """True if a bracket before the last pair is not closed."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth = depth + 1 if found[0] == "[" else max(0, depth - 1)
    return depth > 0
