"""A person answers while the run goes on: one question at a time, in the view or below the lines.

Rule 1: the keyboard is read only while somebody asks. What was typed before is no answer.
Rule 2: nothing here waits: keys come in by the loop, and a question that is open no more is taken away.
Rule 3: an empty line leaves a question open; the end of input leaves all of them open.
"""

import asyncio
import codecs
import os
import re
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import click

from interlock.cli.crews import shown
from interlock.cli.progress import Progress, Question
from interlock.cli.terminal import show_question
from interlock.errors import InterlockError
from interlock.ports import Clock

PROMPT = "answer (an empty line leaves it open): "

# How often it is looked whether somebody has finished typing.
LOOK_MS = 50

# Of one piece of what is typed.
READ_BYTES = 4096

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_ENTER, _ERASE, _ERASE_LINE, _END = "\r\n", "\x7f\b", "\x15", "\x04"

# Hands an answer in, by the token of what it answers.
HandIn = Callable[[str, str], Awaitable[object]]


class Typed:
    """A line in the making, from keys as they come."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, keys: bytes) -> str | None:
        """The line, once Enter was pressed; EOFError at the end of input. What follows the line is thrown away."""
        if not keys:
            raise EOFError
        for key in _ESCAPES.sub("", self._decoder.decode(keys)):
            if key in _ENTER:
                return self.text
            if key == _END and not self.text:
                raise EOFError
            self._press(key)
        return None

    def _press(self, key: str) -> None:
        if key in _ERASE:
            self.text = self.text[:-1]
        elif key == _ERASE_LINE:
            self.text = ""
        elif key.isprintable():
            self.text += key


class Asker:
    """Asks whoever sits at the terminal, as soon as there is something to ask."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.question: Question | None = None
        self.typed = Typed()
        self.note = ""  # what became of the last one, where the person has to know
        self.in_view = False
        self._hand_in: HandIn | None = None
        self._left: set[str] = set()  # answered, or left open on purpose
        self._is_over = False
        self._handing_in: set[asyncio.Task[None]] = set()

    # While a run is watched

    @asynccontextmanager
    async def asking(self, hand_in: HandIn, *, in_view: bool) -> AsyncIterator[None]:
        """What is still on the screen when the block ends is the next one's to read."""
        self._hand_in, self.in_view, self.question = hand_in, in_view, None
        try:
            yield
        finally:
            self._stop_reading()
            if self._handing_in:
                await asyncio.wait(self._handing_in)

    async def is_finished_typing(self, clock: Clock) -> bool:
        """The run rests: whoever has begun to type may finish, and the run may go on then."""
        while self.is_typing:
            await clock.sleep_until(clock.monotonic_ms() + LOOK_MS)
        is_handed_in = bool(self._handing_in)
        if is_handed_in:
            await asyncio.wait(self._handing_in)
        return is_handed_in

    def look(self) -> None:
        """After every event: what was answered elsewhere, or in vain, is asked no more; the next one is."""
        if self.question is not None and self.question.token not in self.progress.questions:
            self._say(f"what {self.question.agent} asked is open no more: it was answered elsewhere, or too late")
            self._put_away()
        if self.question is None and (question := self.next()) is not None and self._others_work(question):
            self._ask(question)

    def next(self) -> Question | None:
        """The oldest question that was not left open on purpose."""
        open_ = (question for token, question in self.progress.questions.items() if token not in self._left)
        return next(open_, None) if not self._is_over else None

    def _others_work(self, question: Question) -> bool:
        """Where nobody else works the run is about to rest, and whoever watches it asks then."""
        return any(work.name != question.agent for work in self.progress.at_work())

    @property
    def is_typing(self) -> bool:
        return self.question is not None and bool(self.typed.text)

    def _ask(self, question: Question) -> None:
        self.question, self.typed = question, Typed()
        if self.in_view:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        else:
            show_question(question, PROMPT)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        assert self.question is not None, "keys are read only while somebody asks"
        question = self.question
        try:
            line = self.typed.take(os.read(sys.stdin.fileno(), READ_BYTES))
        except (EOFError, OSError):
            self._is_over, line = True, ""
            self._say("")
        if line is None:
            return
        self._left.add(question.token)
        self._put_away()
        if line.strip():
            task = asyncio.ensure_future(self._answer(question, line))
            self._handing_in.add(task)
            task.add_done_callback(self._handing_in.discard)
        else:
            self.look()

    async def _answer(self, question: Question, line: str) -> None:
        assert self._hand_in is not None, "a run is watched while its questions are asked"
        self.note = ""
        try:
            await self._hand_in(question.token, line)
        except InterlockError as error:
            self._left.discard(question.token)
            self._say(str(error))
        self.look()

    def _say(self, note: str) -> None:
        self.note = note
        if not self.in_view:
            click.echo(f"\n{shown(note)}".rstrip())

    def _put_away(self) -> None:
        self._stop_reading()
        self.question, self.typed = None, Typed()

    def _stop_reading(self) -> None:
        if self.question is not None:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
