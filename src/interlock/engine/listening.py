"""Hearing a reply while it streams: what it would decide so far, and where it may be cut.

Rule 1: any chunking gives the same decision and the same cut as the whole text.
Rule 2: a line is looked at once, when its break has come; the cost grows with the text, whatever the pieces.
Rule 3: the cut is the end of the first line that holds nothing but steering marks; the decision is that of the text
before it. Where marks in text are ignored there is no cut, nor while HTML is open that may still be closed.
"""

import re

from interlock.engine.routing import Decision, OwnReply, RoutingTable
from interlock.limits import MARK_CHARS_MAX, READ_CHARS_MAX
from interlock.signals.page import closes_fence, element_left_open, fence_opened_by

_BREAK = re.compile(r"[\n\r]")


class Listener:
    """Fed with pieces of one agent's reply."""

    def __init__(self, table: RoutingTable, agent: str) -> None:
        self._table, self._agent = table, agent
        self._is_deaf = table.crew.settings.signal_mode == "tool"
        self._pieces: list[str] = []  # of the line that has not ended
        self._lines: list[str] = []  # those that have, with their breaks
        self._length = 0
        self._fence = ""  # what opened the fence that hides what comes
        self._closed_by = ""  # what would close the HTML that hides what comes, if something does
        self._open = ""  # the lines since a bracket was opened that is open still
        self._silent = self._decided = table.decide(OwnReply(agent, ""))
        self._is_decided, self._may_hold_marks = True, False
        self.cut: int | None = None

    def feed(self, piece: str) -> bool:
        """Takes a piece in, and says whether the reply is complete: then nothing after `cut` is wanted."""
        self._is_decided = False
        self._may_hold_marks = self._may_hold_marks or "]" in piece
        position = 0
        while self.cut is None and (found := _BREAK.search(piece, position)) is not None:
            self._pieces.append(piece[position : found.start()])
            line = "".join(self._pieces)
            self._pieces = []
            self._end_line(line, found[0])
            position = found.end()
        if self.cut is None and position < len(piece):
            self._pieces.append(piece[position:])
        return self.cut is not None

    @property
    def text(self) -> str:
        """What was heard, up to the cut."""
        return "".join((*self._lines, *self._pieces))

    @property
    def decision(self) -> Decision:
        """What the reply would cause if it ended here."""
        if not self._may_hold_marks:
            return self._silent
        if not self._is_decided:
            self._decided = self._table.decide(OwnReply(self._agent, self.text))
            self._is_decided = True
        return self._decided

    def _end_line(self, line: str, line_break: str) -> None:
        if not self._is_deaf and self._is_the_end(line):
            self._lines.append(line)
            self.cut = self._length + len(line)
            return
        self._lines.append(line + line_break)
        self._length += len(line) + 1
        self._remember(line)

    def _is_the_end(self, line: str) -> bool:
        if self._fence or self._closed_by or "]" not in line or self._is_beyond_reading(line):
            return False
        closing, opening = line.find("]"), line.find("[")
        if 0 <= opening < closing:
            return self._table.steers_alone(self._agent, line)
        return bool(self._open) and self._table.steers_alone(self._agent, f"{self._open}{line}")

    def _is_beyond_reading(self, line: str) -> bool:
        return self._table.reading >= 3 and self._length + len(line) > READ_CHARS_MAX

    def _remember(self, line: str) -> None:
        """Which fence is open, which HTML, and from where a bracket is, once this line has ended."""
        if self._fence:
            self._fence = "" if closes_fence(line, self._fence) else self._fence
            self._open = ""
            return
        was_in_html = bool(self._closed_by)
        self._fence = "" if was_in_html else fence_opened_by(line)
        if not self._fence and self._table.reading >= 3 and (was_in_html or "<" in line):
            self._closed_by = element_left_open(line, self._closed_by)
        if self._fence or was_in_html or self._closed_by:
            self._open = ""
        elif "[" in line or "]" in line:
            self._open = f"{line}\n" if line.rfind("[") > line.rfind("]") else ""
        elif self._open:
            self._open = f"{self._open}{line}\n"
            if len(self._open) - self._open.rfind("[") > MARK_CHARS_MAX:
                self._open = ""
