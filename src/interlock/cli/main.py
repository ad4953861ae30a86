"""The entrance of the command line. A command's module loads when the command is used.

Exit codes: 0 fine, 1 the crew has problems or the run did not complete, 2 wrong use or unreadable file.
"""

import sys
from importlib import import_module

import click

from interlock import __version__
from interlock.errors import InterlockError

_COMMANDS = {
    "check": ("interlock.cli.check", "check"),
    "demo": ("interlock.cli.demo", "demo"),
    "explain": ("interlock.cli.explain", "explain"),
    "graph": ("interlock.cli.graph", "graph"),
    "init": ("interlock.cli.init", "init"),
    "schema": ("interlock.cli.schema", "schema"),
    "signals": ("interlock.cli.signals", "signals"),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command), "the table names commands"
        return command


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="interlock")
def interlock() -> None:
    """Crews of language-model agents, proven sound before they run."""


def main() -> None:
    """Runs a command; what Interlock raises on purpose ends in one clear message and its exit code."""
    try:
        interlock()
    except InterlockError as error:
        click.echo(f"interlock: {error}", err=True)
        sys.exit(2)
