"""Scanning a reply while it streams: its decision so far, and where it may be cut.

Rule 1: any chunking gives the same decision and the same cut as the whole text.
Rule 2: each line is read once, at its line break; the cost is linear in the text, for any pieces.
Rule 3: the cut is the end of the first line that holds nothing but steering marks; the decision is that of the text
before it. There is no cut if marks in text are ignored, or while HTML is open that may still be closed.
"""

import re

from interlock.engine.routing.decision import Decision, OwnReply, RoutingTable
from interlock.limits import MARK_CHARS_MAX, READ_CHARS_MAX
from interlock.signals.page import closes_fence, element_left_open, fence_opened_by

_BREAK = re.compile(r"[\n\r]")


class ReplyScanner:
    """The scanner of one agent's reply; `feed` takes its pieces."""

    def __init__(self, table: RoutingTable, agent: str) -> None:
        self._table, self._agent = table, agent
        self._ignores_marks = table.crew.settings.signal_mode == "tool"
        self._pieces: list[str] = []  # of the current line
        self._lines: list[str] = []  # complete lines, with their breaks
        self._length = 0
        self._fence = ""  # what opened the current code fence
        self._closed_by = ""  # what would close the current HTML element
        self._open = ""  # the lines since an open bracket
        self._silent = self._decided = table.decide(OwnReply(agent, ""))
        self._is_decided, self._may_hold_marks = True, False
        self.cut: int | None = None

    def feed(self, piece: str) -> bool:
        """Reads a piece; returns whether the reply is complete, so that nothing after `cut` is needed."""
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
        """The text so far, up to the cut."""
        return "".join((*self._lines, *self._pieces))

    @property
    def decision(self) -> Decision:
        """The decision if the reply ended here."""
        if not self._may_hold_marks:
            return self._silent
        if not self._is_decided:
            self._decided = self._table.decide(OwnReply(self._agent, self.text))
            self._is_decided = True
        return self._decided

    def _end_line(self, line: str, line_break: str) -> None:
        if not self._ignores_marks and self._is_cut_line(line):
            self._lines.append(line)
            self.cut = self._length + len(line)
            return
        self._lines.append(line + line_break)
        self._length += len(line) + 1
        self._track_open_blocks(line)

    def _is_cut_line(self, line: str) -> bool:
        if self._fence or self._closed_by or "]" not in line or self._is_beyond_reading(line):
            return False
        closing, opening = line.find("]"), line.find("[")
        if 0 <= opening < closing:
            return self._table.is_steering_line(self._agent, line)
        return bool(self._open) and self._table.is_steering_line(self._agent, f"{self._open}{line}")

    def _is_beyond_reading(self, line: str) -> bool:
        return self._table.reading >= 3 and self._length + len(line) > READ_CHARS_MAX

    def _track_open_blocks(self, line: str) -> None:
        """Updates the open fence, HTML element and bracket after this line."""
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
