"""`interlock demo`: a tour with no key, no account, no network."""

import sys
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from interlock.adapters.models.scripted import Answer
from interlock.adapters.script_files import read_script
from interlock.cli.demo_served import show_served
from interlock.cli.main import interlock
from interlock.cli.run import with_box
from interlock.cli.terminal import can_show_live

SECONDS_TO_LOOK = 1.2


@click.command()
@click.option("--headless", is_flag=True, help="Play the browser's part too, and end; as without a terminal.")
def demo(headless: bool) -> None:
    """A tour with no key, no account and no network; it ends with a dashboard in your browser.

    The server stays until Ctrl-C. Without a terminal, or with --headless, the tour answers its own question and ends.
    """
    headless = headless or not (sys.stdin.isatty() and sys.stdout.isatty())
    with resources.as_file(resources.files("interlock") / "templates") as templates:
        _show("A sound crew: two agents, and every reply has somewhere to go.", templates, "check", "hello")
        _show("What it looks like.", templates, "graph", "hello")
        _show("A broken crew: every problem at once, each with its line and a fix.", templates, "check", "broken")
        _show(
            "What would this reply do, and why?",
            templates,
            "explain",
            "hello",
            "--agent",
            "editor",
            "--reply",
            "Nearly. `[DONE]` is for later, so:\n[REWRITE] [done]",
        )
        with TemporaryDirectory() as data:
            _show(
                "The crew at work, with scripted answers; every step is stored before it is acted upon.",
                templates,
                *("run", "hello", "a harbour at night", "--data", data),
                *_answered(templates / "hello" / "script.yaml", Path(data)),
            )
            _show("Why did it go like this?", None, *("runs", "explain", _newest_run(data), "--data", data))
        with TemporaryDirectory() as data:
            went_well = show_served(templates, Path(data), headless=headless)
    click.echo("Your turn: interlock init my-crew && interlock check my-crew")
    if not went_well:
        raise SystemExit(1)


def _answered(script: Path, data: Path) -> tuple[str, ...]:
    """Whoever watches a view needs time to look, so there the same answers take a while."""
    if not can_show_live():
        return "--plain", "--script", str(script)
    replies = {agent: [_slow(answer) for answer in answers] for agent, answers in read_script(script).items()}
    slow = data / "script.yaml"
    slow.write_bytes(msgspec.json.encode({"replies": replies}))
    return "--script", str(slow)


def _slow(answer: Answer | str) -> Answer:
    given = Answer(text=answer) if isinstance(answer, str) else answer
    return msgspec.structs.replace(given, delay_seconds=SECONDS_TO_LOOK)


def _newest_run(data: str) -> str:
    return with_box(data, lambda box: box.journal.rows(limit=1))[0].run


def _show(title: str, templates: Path | None, command: str, crew: str, *options: str) -> None:
    """Runs one command of the tour as a person would, and goes on whatever its exit code."""
    shown = " ".join(repr(option) if " " in option or "\n" in option else option for option in options)
    click.secho(f"\n{title}", bold=True)
    click.secho(f"$ interlock {command} {crew} {shown}".rstrip(), fg="blue")
    where = str(templates / crew) if templates else crew
    try:
        interlock.main([command, where, *options], standalone_mode=False)
    except SystemExit as exit_:
        if exit_.code:
            click.secho(f"(exit code {exit_.code})", dim=True)
