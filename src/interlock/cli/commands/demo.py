"""`interlock demo`: a tour with no key, no account, no network."""

import sys
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from interlock.adapters.crews.script_files import read_script
from interlock.adapters.models.scripted_model import ScriptedAnswer
from interlock.cli.commands.demo_server import run_server_demo
from interlock.cli.main import interlock
from interlock.cli.open_host import with_interlock
from interlock.cli.view.terminal import can_show_live

ANSWER_DELAY_SECONDS = 1.2


@click.command()
@click.option(
    "--headless", is_flag=True, help="Answer the question in the tour and exit; the default without a terminal."
)
def demo(headless: bool) -> None:
    """Show a tour that needs no key, account or network. It ends with the dashboard in your browser.

    The server runs until Ctrl-C. Without a terminal, or with --headless, the tour answers its own question and ends.
    """
    headless = headless or not (sys.stdin.isatty() and sys.stdout.isatty())
    with resources.as_file(resources.files("interlock") / "templates") as templates:
        _show_command("A sound crew: two agents, and every reply leads somewhere.", templates, "check", "hello")
        _show_command("Its graph.", templates, "graph", "hello")
        _show_command(
            "A broken crew: every problem at once, each with its line and a fix.", templates, "check", "broken"
        )
        _show_command(
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
            _show_command(
                "The crew at work, with scripted replies; every step is stored before it takes effect.",
                templates,
                *("run", "hello", "a harbour at night", "--data", data),
                *_script_options(templates / "hello" / "script.yaml", Path(data)),
            )
            _show_command("Why did it go like this?", None, *("runs", "explain", _newest_run(data), "--data", data))
        with TemporaryDirectory() as data:
            went_well = run_server_demo(templates, Path(data), headless=headless)
    click.echo("Your turn: interlock init my-crew && interlock check my-crew")
    if not went_well:
        raise SystemExit(1)


def _script_options(script: Path, data: Path) -> tuple[str, ...]:
    """In the live view the scripted replies are slowed down, to give people time to look."""
    if not can_show_live():
        return "--plain", "--script", str(script)
    replies = {agent: [_with_delay(answer) for answer in answers] for agent, answers in read_script(script).items()}
    slow = data / "script.yaml"
    slow.write_bytes(msgspec.json.encode({"replies": replies}))
    return "--script", str(slow)


def _with_delay(answer: ScriptedAnswer | str) -> ScriptedAnswer:
    given = ScriptedAnswer(text=answer) if isinstance(answer, str) else answer
    return msgspec.structs.replace(given, delay_seconds=ANSWER_DELAY_SECONDS)


def _newest_run(data: str) -> str:
    return with_interlock(data, lambda box: box.journal.rows(limit=1))[0].run


def _show_command(title: str, templates: Path | None, command: str, crew: str, *options: str) -> None:
    """Print and run one command of the tour, whatever its exit code."""
    shown = " ".join(repr(option) if " " in option or "\n" in option else option for option in options)
    click.secho(f"\n{title}", bold=True)
    click.secho(f"$ interlock {command} {crew} {shown}".rstrip(), fg="blue")
    where = str(templates / crew) if templates else crew
    try:
        interlock.main([command, where, *options], standalone_mode=False)
    except SystemExit as exit_:
        if exit_.code:
            click.secho(f"(exit code {exit_.code})", dim=True)
