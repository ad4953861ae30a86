"""The entry point of the command line. A command's module is loaded when the command is used.

Exit codes: 0 success, 1 the crew has errors or the run did not complete, 2 wrong use or unreadable file,
3 the run is paused, or others drive the runs of this process because it has lost its lease.
"""

import os
from importlib import import_module
from typing import IO, Any

import click

from interlock import __version__
from interlock.errors import InterlockError, LeaseLost, RunNotFound, nearest

_COMMANDS = {
    "backup": ("interlock.cli.commands.doctor", "backup"),
    "broadcast": ("interlock.cli.commands.broadcast", "broadcast"),
    "check": ("interlock.cli.commands.check", "check"),
    "compact": ("interlock.cli.commands.doctor", "compact"),
    "demo": ("interlock.cli.commands.demo", "demo"),
    "doctor": ("interlock.cli.commands.doctor", "doctor"),
    "explain": ("interlock.cli.commands.explain", "explain"),
    "graph": ("interlock.cli.commands.graph", "graph"),
    "init": ("interlock.cli.commands.init", "init"),
    "key": ("interlock.cli.commands.serve", "key"),
    "mcp": ("interlock.cli.commands.mcp", "mcp"),
    "migrate": ("interlock.cli.commands.migrate", "migrate"),
    "model": ("interlock.cli.commands.model", "model"),
    "resume": ("interlock.cli.commands.run", "resume"),
    "run": ("interlock.cli.commands.run", "run"),
    "runs": ("interlock.cli.commands.runs.runs", "runs"),
    "schedule": ("interlock.cli.commands.schedule", "schedule"),
    "schema": ("interlock.cli.commands.schema", "schema"),
    "serve": ("interlock.cli.commands.serve", "serve"),
    "signals": ("interlock.cli.commands.signals", "signals"),
    "store": ("interlock.cli.commands.store", "store"),
    "test": ("interlock.cli.commands.test", "test"),
    "worker": ("interlock.cli.commands.worker", "worker"),
}


# Errors that are not wrong use: the run exists, but the action failed.
NOT_DONE = (
    "already-resumed",
    "damaged-run",
    "journal-diverged",
    "not-waiting",
    "parked",
    "records-missing",
    "too-many-queued",
)


class _CommandError(click.ClickException):
    """An Interlock error, printed as one message."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"interlock: {self.message}", err=True, file=file)


class _NotDoneError(_CommandError):
    exit_code = 1


class _LeaseLostError(_CommandError):
    exit_code = 3


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
            raise _CommandError(f"unknown command '{args[0]}'; {advice}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InterlockError as error:
            refusal = _NotDoneError if error.code in NOT_DONE else _CommandError
            if isinstance(error, LeaseLost):
                refusal = _LeaseLostError
            elsewhere = "; use --data DIR or --store URL for another store" if isinstance(error, RunNotFound) else ""
            raise refusal(_redact(f"{error}{elsewhere}")) from error
        except click.ClickException as error:
            vars(error)["message"] = _redact(error.message)  # keeps the kind, and with it the exit code
            raise
        except BrokenPipeError:
            raise  # click handles a closed pipe
        except OSError as error:
            raise _CommandError(_redact(_write_error_text(error))) from error


def _redact(message: str) -> str:
    """Remove this host's secrets from an error: it may quote what was typed and end up in a build log."""
    from interlock.adapters.config.host_file import HostSettings
    from interlock.adapters.config.host_secrets import host_secrets
    from interlock.adapters.config.known_secrets import KnownSecrets
    from interlock.compose.crews import host_settings

    try:
        settings = host_settings(None)
    except InterlockError:  # the settings may be the cause of the message
        settings = HostSettings()
    return KnownSecrets(secret.value for secret in host_secrets(settings, os.environ)).redact(message)


def _write_error_text(error: OSError) -> str:
    """The text of a write error. Commands report read errors themselves, so the rest are writes."""
    where = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
    return f"cannot write{where}: {error.strerror or error}"


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="interlock")
@click.pass_context
def interlock(ctx: click.Context) -> None:
    """Run crews of language-model agents that are checked before they start."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
