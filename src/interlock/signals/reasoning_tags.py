"""Reasoning inside a reply: the blocks between tags such as `<think>`, split off before the text is read for signals.

Rule 1: a block opens with a tag at the start of a line of the text, outside code, and ends at its closing tag or at the
end of the reply. Code is a fence or a code span. A fence inside HTML that is not closed yet does not count.
Rule 2: an opening tag inside a line is text, and so is its closing tag if it follows on the same line.
Rule 3: any other closing tag outside code makes everything before it reasoning.
Rule 4: if nothing but white space comes before a block, the white space after the block goes with it.
Rule 5: any chunking gives the same result, and only what may be the beginning of a tag is held back.
"""

import re
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from interlock.signals.page import closes_fence, element_left_open, fence_opened_by

# Opening tags with their closing tags, in any case of letters. Tags in square brackets are not here: they could be
# signals of a crew.
TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<|start_thinking|>": "<|end_thinking|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}

# Every tag begins with it: a reply without it holds no reasoning.
TAG_BEGIN = "<"

_ALL_TAGS = (*TAGS, *TAGS.values())
_TAG = re.compile("|".join(map(re.escape, _ALL_TAGS)), re.IGNORECASE | re.ASCII)
_CLOSINGS = {closing: re.compile(re.escape(closing), re.IGNORECASE | re.ASCII) for closing in TAGS.values()}
_KIND = itemgetter(0)
_TAG_CHARS_MAX = max(map(len, _ALL_TAGS))
_BREAK = re.compile(r"[\n\r]")
_SIGN = re.compile(r"[\n\r\\<]|`+")
_NOT_BLANK = re.compile(r"\S")


class PartKind(Enum):
    TEXT = "text"
    REASONING = "reasoning"
    TAKEN_BACK = "taken back"  # all parts before this one are reasoning


class ReplyPart(NamedTuple):
    kind: PartKind
    text: str = ""


class SplitText(NamedTuple):
    """A whole reply: its text, and what it reasoned, without the tags. `is_unopened`: it began in a block."""

    text: str
    reasoning: str
    is_unopened: bool = False


# Between two blocks.
_APART = ReplyPart(PartKind.REASONING, "\n\n")


class ReasoningSplitter:
    """The splitter of one reply; `feed` takes its pieces."""

    _line: list[str]  # of the text, so far
    _is_blank: bool
    _is_escaped: bool
    _code: int  # the number of backticks that opened a code span
    _ticks_read: int  # just now
    _open_in_line: set[str]  # the closing tags of opening tags that are text

    def __init__(self) -> None:
        self._parts: list[ReplyPart] = []
        self._held = ""  # it may be the beginning of a tag
        self._closing = ""  # the tag that ends the open block
        self._skips_blanks = False  # after a block that nothing came before
        self._has_reasoning = self._has_text = self._has_shown = False
        self._fence = ""  # what opened the current code fence
        self._html = ""  # what would close the current HTML element
        self._start_line()

    def feed(self, piece: str) -> list[ReplyPart]:
        """Reads a piece; returns what is certain by now."""
        text, position, self._held = f"{self._held}{piece}", 0, ""
        while position < len(text):
            if self._closing:
                position = self._read_block(text, position)
            elif self._skips_blanks:
                position = self._skip_blanks(text, position)
            else:
                position = self._read_text(text, position)
        return self._take_parts()

    def end(self) -> list[ReplyPart]:
        """What is left at the end of the reply."""
        held, self._held = self._held, ""
        if held:
            self._parts.append(ReplyPart(PartKind.REASONING if self._closing else PartKind.TEXT, held))
        return self._take_parts()

    def _take_parts(self) -> list[ReplyPart]:
        parts, self._parts = self._parts, []
        return [ReplyPart(kind, "".join(part.text for part in same)) for kind, same in groupby(parts, _KIND)]

    def _read_block(self, text: str, position: int) -> int:
        closing = _CLOSINGS[self._closing].search(text, position)
        end = closing.start() if closing else len(text) - _length_of_tag_begun(text, position, self._closing)
        if end > position:
            self._parts.append(ReplyPart(PartKind.REASONING, text[position:end]))
        if closing is None:
            self._held = text[end:]
            return len(text)
        self._end_block()
        return closing.end()

    def _end_block(self) -> None:
        self._closing, self._skips_blanks = "", not self._has_text

    def _skip_blanks(self, text: str, position: int) -> int:
        first = _NOT_BLANK.search(text, position)
        self._skips_blanks = first is None
        return first.start() if first else len(text)

    def _read_text(self, text: str, position: int) -> int:
        """Reads up to the next sign and the sign itself."""
        sign = (_BREAK if self._fence else _SIGN).search(text, position)
        place = sign.start() if sign else len(text)
        if place > position:
            self._add_plain(text[position:place])
        if sign is None:
            return place
        if sign[0] == TAG_BEGIN:
            return self._read_tag(text, place)
        if sign[0] in "\n\r":
            self._end_line(sign[0])
        elif self._is_escaped:  # a backslash hides one sign
            self._add_plain(sign[0][0])
            return place + 1
        elif sign[0] == "\\":
            self._is_escaped = not self._is_in_code()
            self._add_text("\\")
        else:
            self._ticks_read += len(sign[0])
            self._add_text(sign[0])
        return sign.end()

    def _read_tag(self, text: str, place: int) -> int:
        """Reads a tag, or a sign that begins none."""
        if self._is_in_code() or self._is_escaped:
            self._add_plain(TAG_BEGIN)
            return place + 1
        tag = _TAG.match(text, place)
        if tag is None:
            if len(text) - place < _TAG_CHARS_MAX and _begins_any_tag(text[place:]):
                self._held = text[place:]
                return len(text)
            self._add_plain(TAG_BEGIN)
            return place + 1
        name = tag[0].lower()
        if name in TAGS:
            self._open(name, tag[0])
        elif name in self._open_in_line:
            self._open_in_line.discard(name)
            self._add_plain(tag[0])
        else:
            self._take_back()
        return tag.end()

    def _open(self, name: str, tag: str) -> None:
        if self._is_blank:
            self._closing = TAGS[name]
            if self._has_reasoning:
                self._parts.append(_APART)
            self._has_reasoning = True
        else:
            self._open_in_line.add(TAGS[name])
            self._add_plain(tag)

    def _take_back(self) -> None:
        if self._has_shown:
            self._parts.append(ReplyPart(PartKind.TAKEN_BACK))
        self._has_reasoning = self._has_reasoning or self._has_shown
        self._has_text = self._has_shown = False
        self._fence = self._html = ""
        self._start_line()
        self._end_block()

    def _is_in_code(self) -> bool:
        """True after backticks that are not closed: they hide to the end of their line at least."""
        if self._ticks_read:
            if not self._code:
                self._code = self._ticks_read
            elif self._code == self._ticks_read:
                self._code = 0
            self._ticks_read = 0
        return self._code > 0

    def _add_plain(self, text: str) -> None:
        self._is_in_code()  # a row of backticks is over
        self._is_escaped = False
        self._add_text(text)

    def _add_text(self, text: str) -> None:
        self._line.append(text)
        self._has_shown = True
        if self._is_blank and not text.isspace():
            self._is_blank, self._has_text = False, True
        self._parts.append(ReplyPart(PartKind.TEXT, text))

    def _start_line(self) -> None:
        self._line, self._open_in_line = [], set()
        self._is_blank, self._is_escaped = True, False
        self._code = self._ticks_read = 0

    def _end_line(self, line_break: str) -> None:
        line = "".join(self._line)
        if self._fence:
            self._fence = "" if closes_fence(line, self._fence) else self._fence
        else:
            was_in_html = bool(self._html)
            self._fence = "" if was_in_html else fence_opened_by(line)
            if not self._fence and (was_in_html or "<" in line):
                self._html = element_left_open(line, self._html)
        self._start_line()
        self._has_shown = True
        self._parts.append(ReplyPart(PartKind.TEXT, line_break))


def split_reasoning(text: str) -> SplitText:
    """Splits a whole reply."""
    splitter = ReasoningSplitter()
    parts = [*splitter.feed(text), *splitter.end()]
    taken_back = max((place for place, part in enumerate(parts) if part.kind is PartKind.TAKEN_BACK), default=-1)
    said = [part.text for part in parts[taken_back + 1 :] if part.kind is PartKind.TEXT]
    reasoning = [part.text for n, part in enumerate(parts) if n < taken_back or part.kind is PartKind.REASONING]
    return SplitText("".join(said), "".join(reasoning).strip(), is_unopened=taken_back >= 0)


def hide_tags_in_json(text: str) -> str:
    """JSON whose texts speak about tags: the same value, with no tag to split at."""
    return _TAG.sub(lambda tag: tag[0].replace(TAG_BEGIN, "\\u003c"), text) if TAG_BEGIN in text else text


def _begins_any_tag(begun: str) -> bool:
    lower = begun.lower()
    return begun.isascii() and any(tag.startswith(lower) for tag in _ALL_TAGS)


def _length_of_tag_begun(text: str, position: int, tag: str) -> int:
    """The length of the beginning of the tag at the end of the text."""
    for length in range(min(len(tag) - 1, len(text) - position), 0, -1):
        if text[-length:].isascii() and tag.startswith(text[-length:].lower()):
            return length
    return 0
