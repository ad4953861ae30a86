"""`interlock demo`: a tour with no key, no account, no network."""

from importlib import resources
from pathlib import Path

import click

from interlock.cli.main import interlock


@click.command()
def demo() -> None:
    """A tour with no key, no account and no network."""
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
    click.echo("Your turn: interlock init my-crew && interlock check my-crew")


def _show(title: str, templates: Path, command: str, crew: str, *options: str) -> None:
    """Runs one command of the tour as a person would, and goes on whatever its exit code."""
    shown = " ".join(repr(option) if " " in option or "\n" in option else option for option in options)
    click.secho(f"\n{title}", bold=True)
    click.secho(f"$ interlock {command} {crew} {shown}".rstrip(), fg="blue")
    try:
        interlock.main([command, str(templates / crew), *options], standalone_mode=False)
    except SystemExit as exit_:
        if exit_.code:
            click.secho(f"(exit code {exit_.code})", dim=True)
