"""The terminal that a command runs in: what it can show, who else writes to it, what a person types into it."""

import io
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

import click

from interlock.cli.crews import shown
from interlock.cli.progress import Question
from interlock.cli.transcript import Kind, Line

# Of a question that a person is asked; all of it stands in the transcript above.
QUESTION_LINES_MAX = 12

# Where nothing else goes on.
PROMPT = "answer (an empty line leaves the run paused): "

# How long a Ctrl-C may wait at worst while a person is asked.
CTRL_C_SECONDS = 0.5


def can_show_live() -> bool:
    """Whether standard output is a terminal that can be painted on, and ours to paint on."""
    named = os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return sys.stdout.isatty() and named and not os.environ.get("NO_COLOR") and _speaks_utf8() and in_foreground()


def _speaks_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def in_foreground() -> bool:
    """A job in the background prints its lines, and leaves the screen to whoever works there."""
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:  # a terminal that is not the one we belong to has no foreground of ours
        return True


def are_one_terminal(one: TextIO, other: TextIO) -> bool:
    return one.isatty() and other.isatty() and os.path.sameopenfile(one.fileno(), other.fileno())


# While a view is open


@contextmanager
def held_back(lines: list[Line]) -> Iterator[None]:
    """Keeps what anybody prints away from the terminal and adds it to the lines; what goes elsewhere goes there."""
    printed, log = _Holding(lines, "printed"), _Holding(lines, "log")
    shared = are_one_terminal(sys.stdout, sys.stderr)
    try:
        with redirect_stdout(printed), redirect_stderr(log if shared else sys.stderr):
            yield
    finally:
        printed.close()
        log.close()


class _Holding(io.TextIOBase):
    """A stream that makes whole lines of what is written."""

    def __init__(self, lines: list[Line], kind: Kind) -> None:
        self._lines, self._kind, self._begun = lines, kind, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        self._lines.extend(Line(self._kind, shown(line)) for line in whole)
        return len(text)

    def close(self) -> None:
        if self._begun:
            self.write("\n")
        super().close()


@contextmanager
def quiet_keys() -> Iterator[None]:
    """What is typed is shown by nobody but the view, key by key, and not taken for an answer later."""
    if not sys.stdin.isatty() or not in_foreground():
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
    return sys.stdin.isatty() and sys.stdout.isatty() and in_foreground()


def read_input() -> str:
    """The line that a person types as the input of a run; nothing at the end of input or a Ctrl-C."""
    click.echo("input: ", nl=False)
    try:
        return sys.stdin.readline().rstrip("\n")
    except KeyboardInterrupt:
        click.echo()
        return ""


def asked(question: Question, is_gone: Callable[[], bool], *, is_shown: bool) -> str | None:
    """What the person typed; nothing if they would rather not answer now, None if it is asked no more."""
    try:  # from before the question can be read: a Ctrl-C may come as soon as it is
        if not is_shown:
            show_question(question, PROMPT)
        typed = _typed_line(is_gone)
    except KeyboardInterrupt:
        typed = ""
    if typed is None or not typed.endswith("\n"):
        click.echo()
    return typed.removesuffix("\n") if typed is not None else None


def _typed_line(is_gone: Callable[[], bool]) -> str | None:
    """Waits in short spells: a Ctrl-C that comes just before a read begins would be noticed only after it."""
    while not select.select([sys.stdin], [], [], CTRL_C_SECONDS)[0]:
        if is_gone():
            return None
    return sys.stdin.readline()


def show_question(question: Question, prompt: str) -> None:
    click.secho(f"{shown(question.agent)} asks:", fg="yellow", bold=True)
    for line in question.text.splitlines()[-QUESTION_LINES_MAX:]:
        click.echo(f"  {shown(line)}")
    click.echo(prompt, nl=False)
