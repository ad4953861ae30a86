"""Display of a run while it works: live view, lines, or JSON."""

import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import click
import msgspec

from interlock.cli.system_user import system_user
from interlock.cli.view.answer_prompt import AnswerPrompt, SubmitAnswer
from interlock.cli.view.progress import Progress
from interlock.cli.view.terminal import can_show_live, capture_output, without_echo
from interlock.cli.view.transcript import TranscriptLine, lines_of
from interlock.compose.interlock import Interlock

Show = Callable[[dict[str, Any]], None]


class Display(StrEnum):
    """The kinds of output."""

    JSON = "json"
    PLAIN = "plain"
    LIVE = "live"


def display_of(as_json: bool, plain: bool) -> Display:
    """The live view or lines on a terminal, else JSON; `plain` forces lines."""
    if plain or (not as_json and sys.stdout is not None and sys.stdout.isatty()):
        return Display.LIVE if not plain and can_show_live() else Display.PLAIN
    return Display.JSON


@asynccontextmanager
async def open_display(
    box: Interlock, run: str, display: Display, progress: Progress, asker: AnswerPrompt | None
) -> AsyncIterator[Show]:
    if asker is None:
        yield print_event_json if display is Display.JSON else print_event_lines
        return
    submit = _answer_submitter(box, run)
    if display is Display.LIVE:
        async with open_live_view(box, run, progress, asker) as show, asker.open_prompt(submit, in_view=True):
            yield _show_and_update(show, asker.update_question)
    else:
        held: list[dict[str, Any]] = []
        async with asker.open_prompt(submit, in_view=False):
            yield _show_and_update(lambda event: _show_unless_typing(asker, held, event), asker.update_question)
        for event in held:
            print_event_lines(event)


@asynccontextmanager
async def open_live_view(
    box: Interlock, run: str, progress: Progress, asker: AnswerPrompt | None = None
) -> AsyncIterator[Show]:
    """Open the live view; when it closes, print the transcript and the log of that time."""
    from interlock.cli.view.live_view import live_view

    crew = await box.crew_of(await box.journal.row(run))
    lines: list[TranscriptLine] = []
    try:
        async with live_view(crew, progress, box.clock, asker):
            with without_echo(), capture_output(lines):
                yield lambda event: lines.extend(lines_of(event))
    finally:
        print_lines(lines)


def _answer_submitter(box: Interlock, run: str) -> SubmitAnswer:
    async def submit_answer(token: str, text: str) -> None:
        await box.resume(run, text, token=token, by=system_user())

    return submit_answer


def _show_and_update(show: Show, look: Callable[[], None]) -> Show:
    def show_and_update(event: dict[str, Any]) -> None:
        show(event)
        look()

    return show_and_update


def _show_unless_typing(asker: AnswerPrompt, held: list[dict[str, Any]], event: dict[str, Any]) -> None:
    """Print events, or hold them while a person types: lines would break into the input."""
    held.append(event)
    while held and asker.question is None:
        print_event_lines(held.pop(0))


def print_event_json(event: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(event).decode())


def print_event_lines(event: dict[str, Any]) -> None:
    print_lines(lines_of(event))


def print_lines(lines: Iterable[TranscriptLine]) -> None:
    for line in lines:
        bold, dim = line.kind == "speaker" or None, line.kind == "note" or None
        click.secho(line.text, err=line.kind == "log", bold=bold, dim=dim)
