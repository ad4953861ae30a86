"""The result of a run, and the commands that continue it."""

import os
import shlex
from pathlib import Path

import click

from interlock.cli.crew_argument import safe_line
from interlock.cli.view.answer_hints import answer_lines, approval_text
from interlock.cli.view.progress import Progress
from interlock.cli.view.run_display import Display
from interlock.compose.crews import HOST_FILE
from interlock.compose.interlock import Interlock, Result
from interlock.engine.flow.parking import PARKED
from interlock.engine.turns.approvals import APPROVAL
from interlock.engine.turns.questions import QUESTION


def print_result(box: Interlock, result: Result, progress: Progress, display: Display) -> None:
    color = "green" if result.status == "completed" else "yellow"
    click.secho(f"run {result.run} {result.status}: {result.reason}", fg=color, bold=True)
    if result.detail and display is not Display.PLAIN:  # the line of the limit has said it
        click.echo(f"  {safe_line(result.detail)}")
    if result.reason == PARKED:
        _print_how_to_continue(box, result, progress)
    elif result.status == "paused":
        if result.reason in (QUESTION, APPROVAL):
            first, *more = approval_text(result.text).splitlines() or [""]
            context = [f"context: {' '.join(result.context.split())}"] if result.context else []
            for line in (f"asked: {first}", *(f"       {line}" for line in more), *context):
                click.echo(safe_line(line))
        if result.reason.startswith("held:") and result.token in progress.questions:
            for line in progress.questions[result.token].text.splitlines():
                click.echo(f"  {safe_line(line)}")
        _print_how_to_answer(box, result, progress)


def _print_how_to_answer(box: Interlock, result: Result, progress: Progress) -> None:
    token = f" --token {result.token}" if len(progress.questions) > 1 else ""
    command = f"interlock resume {result.run}{token}{options_of(box, progress)} --input"
    asked_by = progress.questions.get(result.token)
    agent, expects = (asked_by.agent, asked_by.expects) if asked_by is not None else ("the agent", "")
    for line in answer_lines(command, result.reason, agent, expects):
        click.echo(safe_line(line))


def _print_how_to_continue(box: Interlock, result: Result, progress: Progress) -> None:
    click.echo(f"continue with: interlock resume {result.run}{options_of(box, progress)}")
    for token in progress.questions:
        click.echo(f"answer with: interlock runs answer {token}{options_of(box, progress)} TEXT")


def options_of(box: Interlock, progress: Progress) -> str:
    """The options that a printed command needs to find the same store, settings, functions, script and model."""
    file = box.host_file
    config = f" --config {shlex.quote(str(file))}" if file is not None and file != Path(HOST_FILE) else ""
    script = f" --script {shlex.quote(os.fspath(box.script))}" if box.script is not None else ""
    model = f" --model {shlex.quote(box.model)}" if box.model is not None else ""
    crew = f" --crew {shlex.quote(progress.python_crew)}" if progress.python_crew else ""
    return f"{box.home.option}{config}{crew}{script}{model}"
