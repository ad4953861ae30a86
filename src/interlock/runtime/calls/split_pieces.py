"""The pieces of one reply, split into text and reasoning, and shown as they come.

Rule 1: a closing tag without an opening one takes back the text before it: watchers are told, and the search for a line
of signals begins again after it.
Rule 2: `holds_text` is for a model that is known to begin in reasoning: before the first tag, its text is shown as
reasoning, and the reply is not cut.
"""

from collections.abc import Callable
from typing import Protocol

from interlock.engine.routing.stream import ReplyScanner
from interlock.signals.reasoning_tags import TAG_BEGIN, PartKind, ReasoningSplitter, ReplyPart

Tell = Callable[[str], None]
Listen = Callable[[], ReplyScanner]


class TellReasoning(Protocol):
    def __call__(self, text: str, *, takes_back: bool = False) -> None:
        """Shows a piece of reasoning. With `takes_back`, the text that was shown before was reasoning too."""
        ...


class SplitPieces:
    """Shows text and reasoning; the pieces in `before` were shown already, and hold no tag."""

    def __init__(
        self, tell: Tell, tell_reasoning: TellReasoning, *, before: str = "", holds_text: bool = False
    ) -> None:
        self._tell, self._tell_reasoning, self._holds_text = tell, tell_reasoning, holds_text
        self._splitter = ReasoningSplitter()
        self._splitter.feed(before)

    def feed(self, piece: str) -> None:
        for part in self._splitter.feed(piece):
            self._show(part)

    def end(self) -> None:
        """Shows what was held back: the reply is over."""
        for part in self._splitter.end():
            self._show(part)

    def _show(self, part: ReplyPart) -> None:
        is_taken_back = part.kind is PartKind.TAKEN_BACK
        if part.kind is PartKind.TEXT and not self._holds_text:
            self._tell(part.text)
        elif not is_taken_back:
            self._tell_reasoning(part.text)
        elif not self._holds_text:
            self._tell_reasoning("", takes_back=True)
        self._holds_text = self._holds_text and part.kind is PartKind.TEXT


class CutPieces:
    """Shows pieces up to the end of the first line that holds only signals, and nothing after it."""

    def __init__(self, listen: Listen, tell: Tell, tell_reasoning: TellReasoning, *, holds_text: bool = False) -> None:
        self._listen, self._tell, self._tell_reasoning, self._holds_text = listen, tell, tell_reasoning, holds_text
        self._before: list[str] = []
        self._split = self._new_split() if holds_text else None  # else made for the first piece that may have a tag
        self._listener, self._length, self._is_cut = listen(), 0, False
        self._reasoning: list[str] = []

    def for_whole_reply(self) -> "CutPieces":
        """The same for a reply that came whole: no watcher sees it in pieces."""
        return CutPieces(self._listen, _ignore_text, _ignore_reasoning, holds_text=self._holds_text)

    def feed(self, piece: str) -> bool:
        """Reads a piece; returns whether the reply is cut in it."""
        if self._split is None and TAG_BEGIN not in piece:
            self._before.append(piece)
            self._add_text(piece)
        else:
            self._split = self._split or self._new_split()
            self._split.feed(piece)
        return self._is_cut

    def end(self) -> None:
        """Shows what was held back: the reply is over, and was not cut."""
        if self._split is not None:
            self._split.end()

    def _new_split(self) -> SplitPieces:
        before, holds_text = "".join(self._before), self._holds_text
        return SplitPieces(self._add_text, self.add_reasoning, before=before, holds_text=holds_text)

    @property
    def text(self) -> str:
        """The text so far, up to the cut."""
        return self._listener.text

    @property
    def reasoning_text(self) -> str:
        """The reasoning so far, up to the cut."""
        return "".join(self._reasoning).strip()

    def _add_text(self, text: str) -> None:
        if self._is_cut:
            return
        self._is_cut = self._listener.feed(text)
        shown = self._listener.text[self._length :] if self._is_cut else text
        self._length += len(text)
        if shown:
            self._tell(shown)

    def add_reasoning(self, text: str, *, takes_back: bool = False) -> None:
        if self._is_cut:
            return
        if takes_back:
            self._reasoning.append(self._listener.text)
            self._listener, self._length = self._listen(), 0
        self._reasoning.append(text)
        self._tell_reasoning(text, takes_back=takes_back)


def _ignore_text(text: str) -> None:
    """For a reply that no watcher sees in pieces."""


def _ignore_reasoning(text: str, *, takes_back: bool = False) -> None:
    """For a reply that no watcher sees in pieces."""
