"""The entrance of the command line. A command's module loads when the command is used.

Exit codes: 0 fine, 1 the crew has problems or the run did not complete, 2 wrong use or unreadable file,
3 the run is paused.
"""

import os
from importlib import import_module
from typing import IO, Any

import click

from interlock import __version__
from interlock.errors import InterlockError, RunNotFound, nearest

_COMMANDS = {
    "backup": ("interlock.cli.doctor", "backup"),
    "broadcast": ("interlock.cli.broadcast", "broadcast"),
    "check": ("interlock.cli.check", "check"),
    "compact": ("interlock.cli.doctor", "compact"),
    "demo": ("interlock.cli.demo", "demo"),
    "doctor": ("interlock.cli.doctor", "doctor"),
    "explain": ("interlock.cli.explain", "explain"),
    "graph": ("interlock.cli.graph", "graph"),
    "init": ("interlock.cli.init", "init"),
    "key": ("interlock.cli.serve", "key"),
    "mcp": ("interlock.cli.mcp", "mcp"),
    "migrate": ("interlock.cli.migrate", "migrate"),
    "model": ("interlock.cli.models", "model"),
    "resume": ("interlock.cli.run", "resume"),
    "run": ("interlock.cli.run", "run"),
    "runs": ("interlock.cli.runs", "runs"),
    "schedule": ("interlock.cli.schedule", "schedule"),
    "schema": ("interlock.cli.schema", "schema"),
    "serve": ("interlock.cli.serve", "serve"),
    "signals": ("interlock.cli.signals", "signals"),
    "test": ("interlock.cli.crew_tests", "test"),
}


# Refusals that are not wrong use: the run is there, and did not do what was asked.
NOT_DONE = ("already-resumed", "damaged-run", "journal-diverged", "not-waiting", "parked", "records-missing")


class _Refused(click.ClickException):
    """What Interlock raises on purpose, as one clear message."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"interlock: {self.message}", err=True, file=file)


class _NotDone(_Refused):
    exit_code = 1


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            advice = nearest(args[0], sorted(_COMMANDS), "'interlock --help' lists them")
            raise _Refused(f"there is no command '{args[0]}'; {advice}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InterlockError as error:
            refusal = _NotDone if error.code in NOT_DONE else _Refused
            elsewhere = "; --data DIR looks in another folder" if isinstance(error, RunNotFound) else ""
            raise refusal(_redact(f"{error}{elsewhere}")) from error
        except click.ClickException as error:
            vars(error)["message"] = _redact(error.message)  # of whatever kind it is, it is shown as that
            raise
        except BrokenPipeError:
            raise  # click knows what to do when nobody reads on
        except OSError as error:
            raise _Refused(_redact(_told(error))) from error


def _redact(message: str) -> str:
    """An error may repeat what was typed, and be kept in the log of a build: without the secrets of this host."""
    from interlock.adapters.host_file import HostSettings
    from interlock.adapters.host_secrets import host_secrets
    from interlock.adapters.models.known_keys import KnownKeys
    from interlock.compose.crews import host_settings

    try:
        settings = host_settings(None)
    except InterlockError:  # it may be what the message is about
        settings = HostSettings()
    return KnownKeys(secret.value for secret in host_secrets(settings, os.environ)).hidden(message)


def _told(error: OSError) -> str:
    """Commands say themselves what they cannot read; what is left over is a place that they cannot write to."""
    where = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
    return f"cannot write{where}: {error.strerror or error}"


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="interlock")
@click.pass_context
def interlock(ctx: click.Context) -> None:
    """Crews of language-model agents, proven sound before they run."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
