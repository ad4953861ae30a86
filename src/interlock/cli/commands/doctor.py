"""`interlock doctor`, `interlock compact` and `interlock backup`: check, shrink and copy a data folder."""

import asyncio
import sys
from pathlib import Path

import click

from interlock.adapters.sqlite.store import DATABASE
from interlock.cli.crew_argument import config_option, safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option
from interlock.cli.read_only import warn_read_only, with_read_only
from interlock.compose.crews import host_settings
from interlock.compose.upkeep.doctor import check_folder
from interlock.errors import UsageError


@click.command()
@click.option(
    "--accept-loss", is_flag=True, help="Accept that acknowledged records are missing, and allow writes again."
)
@config_option
@data_option
def doctor(accept_loss: bool, config: str | None, data: str) -> None:
    """Check the data folder: database, schema, every row, chain and replay of every run, owner files.

    Also reports runs that [retention] in interlock.toml would delete, and a log that is too large.
    Exit code 1 and a list if there are problems.
    """
    found = asyncio.run(check_folder(Path(data), host_settings(config), accept_loss=accept_loss))
    if found.read_only:
        warn_read_only(data)
    for note in found.notes:
        click.echo(f"note: {safe_line(note)}")
    for problem in found.problems:
        click.echo(f"{click.style('problem', fg='red', bold=True)}: {safe_line(problem)}")
    checked = f"{_count(found.runs, 'run')}, {_count(found.events, 'event')}, {found.deleted} deleted"
    if found.problems:
        click.echo(f"{data} has {_count(len(found.problems), 'problem')} ({checked})")
        sys.exit(1)
    click.echo(f"{data} is healthy: {checked}")


@click.command()
@config_option
@data_option
def compact(config: str | None, data: str) -> None:
    """Free the disk space of deleted runs and broadcasts.

    Runs of other processes wait meanwhile. Needs as much free space as the database has.
    """
    if not (Path(data) / DATABASE).exists():
        raise UsageError(f"no {DATABASE} in '{data}'; give the data folder with --data")
    before, after = with_interlock(data, lambda box: box.store.compact(), config)
    click.echo(f"{data}: {_size(before)} before, {_size(after)} now")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MB"


@click.command()
@click.argument("file")
@data_option
def backup(file: str, data: str) -> None:
    """Copy the database of the data folder to FILE. Runs may continue meanwhile."""
    if not (Path(data) / DATABASE).exists():
        raise UsageError(f"no {DATABASE} in '{data}'; give the data folder with --data")
    with_read_only(data, lambda box: box.store.backup(Path(file)))
    click.echo(f"wrote {file}; to restore: copy it to an empty folder as {DATABASE}")
