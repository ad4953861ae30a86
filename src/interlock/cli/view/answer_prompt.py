"""Prompts for answers while the run works: one question at a time, in the view or below the lines.

Rule 1: the keyboard is read only while a question is shown. Earlier input is not an answer.
Rule 2: nothing here blocks: the event loop delivers keys, and a closed question is removed.
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

from interlock.cli.crew_argument import safe_line
from interlock.cli.view.progress import PendingQuestion, Progress
from interlock.cli.view.terminal import show_question
from interlock.errors import InterlockError
from interlock.ports import Clock

PROMPT = "answer (an empty line leaves it open): "

# How often to check whether the person has finished typing.
POLL_MS = 50

# Bytes per read of the keyboard.
READ_BYTES = 4096

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_ENTER, _ERASE, _ERASE_LINE, _END = "\r\n", "\x7f\b", "\x15", "\x04"

# Submits an answer, by the token of its question.
SubmitAnswer = Callable[[str, str], Awaitable[object]]


class LineInput:
    """A line of input, built from keys."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed_keys(self, keys: bytes) -> str | None:
        """The line after Enter, else None; EOFError at the end of input. Keys after Enter are dropped."""
        if not keys:
            raise EOFError
        for key in _ESCAPES.sub("", self._decoder.decode(keys)):
            if key in _ENTER:
                return self.text
            if key == _END and not self.text:
                raise EOFError
            self._apply_key(key)
        return None

    def _apply_key(self, key: str) -> None:
        if key in _ERASE:
            self.text = self.text[:-1]
        elif key == _ERASE_LINE:
            self.text = ""
        elif key.isprintable():
            self.text += key


class AnswerPrompt:
    """Shows open questions to the person at the terminal."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.question: PendingQuestion | None = None
        self.line_input = LineInput()
        self.note = ""  # about the last question, if the person must know
        self.in_view = False
        self._submit: SubmitAnswer | None = None
        self._left: set[str] = set()  # answered, or left open on purpose
        self._is_over = False
        self._submissions: set[asyncio.Task[None]] = set()

    # While a run is watched

    @asynccontextmanager
    async def open_prompt(self, submit: SubmitAnswer, *, in_view: bool) -> AsyncIterator[None]:
        """Read answers during the block; a question that is open at its end stays on the screen."""
        self._submit, self.in_view, self.question = submit, in_view, None
        try:
            yield
        finally:
            self._stop_reading()
            if self._submissions:
                await asyncio.wait(self._submissions)

    async def wait_for_typing(self, clock: Clock) -> bool:
        """Wait until a started answer is typed and submitted; return whether one was."""
        while self.is_typing:
            await clock.sleep_until(clock.monotonic_ms() + POLL_MS)
        is_submitted = bool(self._submissions)
        if is_submitted:
            await asyncio.wait(self._submissions)
        return is_submitted

    def update_question(self) -> None:
        """After every event: close a question that is no longer open, and show the next one."""
        if self.question is not None and self.question.token not in self.progress.questions:
            self._show_note(
                f"the question of {self.question.agent} is closed: answered elsewhere, or its deadline has passed"
            )
            self._clear_question()
        if self.question is None and (question := self.next_question()) is not None and self._has_other_work(question):
            self._start_question(question)

    def next_question(self) -> PendingQuestion | None:
        """The oldest question that was not left open on purpose."""
        open_ = (question for token, question in self.progress.questions.items() if token not in self._left)
        return next(open_, None) if not self._is_over else None

    def _has_other_work(self, question: PendingQuestion) -> bool:
        """Whether another agent works. Otherwise the run is about to pause, and the caller asks then."""
        return any(work.name != question.agent for work in self.progress.active_calls())

    @property
    def is_typing(self) -> bool:
        return self.question is not None and bool(self.line_input.text)

    def _start_question(self, question: PendingQuestion) -> None:
        self.question, self.line_input = question, LineInput()
        if self.in_view:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        else:
            show_question(question, PROMPT)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._on_keys)

    def _on_keys(self) -> None:
        assert self.question is not None, "keys are read only while a question is shown"
        question = self.question
        try:
            line = self.line_input.feed_keys(os.read(sys.stdin.fileno(), READ_BYTES))
        except (EOFError, OSError):
            self._is_over, line = True, ""
            self._show_note("")
        if line is None:
            return
        self._left.add(question.token)
        self._clear_question()
        if line.strip():
            task = asyncio.ensure_future(self._submit_answer(question, line))
            self._submissions.add(task)
            task.add_done_callback(self._submissions.discard)
        else:
            self.update_question()

    async def _submit_answer(self, question: PendingQuestion, line: str) -> None:
        assert self._submit is not None, "questions are shown only inside open_prompt"
        self.note = ""
        try:
            await self._submit(question.token, line)
        except InterlockError as error:
            self._left.discard(question.token)
            self._show_note(str(error))
        self.update_question()

    def _show_note(self, note: str) -> None:
        self.note = note
        if not self.in_view:
            click.echo(f"\n{safe_line(note)}".rstrip())

    def _clear_question(self) -> None:
        self._stop_reading()
        self.question, self.line_input = None, LineInput()

    def _stop_reading(self) -> None:
        if self.question is not None:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
