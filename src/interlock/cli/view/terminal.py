"""The terminal of a command: its abilities, output of other code, and input."""

import io
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

import click

from interlock.cli.crew_argument import safe_line
from interlock.cli.view.progress import PendingQuestion
from interlock.cli.view.transcript import Kind, TranscriptLine

# Lines of a question in the prompt; the transcript above has all of it.
QUESTION_LINES_MAX = 12

# For a paused run.
PROMPT = "answer (an empty line leaves the run paused): "

# The longest delay of a Ctrl-C at the prompt.
CTRL_C_SECONDS = 0.5


def can_show_live() -> bool:
    """Whether standard output is a terminal that supports the live view and is in the foreground."""
    named = os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return sys.stdout.isatty() and named and not os.environ.get("NO_COLOR") and _is_utf8() and is_in_foreground()


def _is_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def is_in_foreground() -> bool:
    """Whether this job is in the foreground; a background job must not paint the screen."""
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:  # not our controlling terminal
        return True


def is_same_terminal(one: TextIO, other: TextIO) -> bool:
    return one.isatty() and other.isatty() and os.path.sameopenfile(one.fileno(), other.fileno())


# While a view is open


@contextmanager
def capture_output(lines: list[TranscriptLine]) -> Iterator[None]:
    """Capture terminal output as lines; redirected output is left alone."""
    printed, log = _LineCapture(lines, "printed"), _LineCapture(lines, "log")
    shared = is_same_terminal(sys.stdout, sys.stderr)
    try:
        with redirect_stdout(printed), redirect_stderr(log if shared else sys.stderr):
            yield
    finally:
        printed.close()
        log.close()


class _LineCapture(io.TextIOBase):
    """A stream that collects whole lines."""

    def __init__(self, lines: list[TranscriptLine], kind: Kind) -> None:
        self._lines, self._kind, self._partial = lines, kind, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._partial = (self._partial + text).split("\n")
        self._lines.extend(TranscriptLine(self._kind, safe_line(line)) for line in whole)
        return len(text)

    def close(self) -> None:
        if self._partial:
            self.write("\n")
        super().close()


@contextmanager
def without_echo() -> Iterator[None]:
    """Turn the terminal's echo off: only the view shows keys, and leftover input is discarded."""
    if not sys.stdin.isatty() or not is_in_foreground():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = [*before[:3], before[3] & ~(termios.ECHO | termios.ICANON), *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


# Asking a person


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and is_in_foreground()


def read_input() -> str:
    """Read the input of a run from the terminal; empty at the end of input or Ctrl-C."""
    click.echo("input: ", nl=False)
    try:
        return sys.stdin.readline().rstrip("\n")
    except KeyboardInterrupt:
        click.echo()
        return ""


def prompt_answer(question: PendingQuestion, is_gone: Callable[[], bool], *, is_shown: bool) -> str | None:
    """The typed answer; empty to leave the question open, None if it is closed."""
    try:  # includes the output: a Ctrl-C may come as soon as it is visible
        if not is_shown:
            show_question(question, PROMPT)
        typed = _read_line(is_gone)
    except KeyboardInterrupt:
        typed = ""
    if typed is None or not typed.endswith("\n"):
        click.echo()
    return typed.removesuffix("\n") if typed is not None else None


def _read_line(is_gone: Callable[[], bool]) -> str | None:
    """Wait in short intervals: a Ctrl-C just before a blocking read would be noticed only after it."""
    while not select.select([sys.stdin], [], [], CTRL_C_SECONDS)[0]:
        if is_gone():
            return None
    return sys.stdin.readline()


def show_question(question: PendingQuestion, prompt: str) -> None:
    click.secho(f"{safe_line(question.agent)} asks:", fg="yellow", bold=True)
    for line in question.text.splitlines()[-QUESTION_LINES_MAX:]:
        click.echo(f"  {safe_line(line)}")
    click.echo(prompt, nl=False)
