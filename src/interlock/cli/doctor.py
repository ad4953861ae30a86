"""`interlock doctor` and `interlock backup`: whether a data folder is well, and a copy of it."""

import asyncio
import sys
from pathlib import Path

import click

from interlock.adapters.store_sqlite import DATABASE
from interlock.cli.crews import config_option, shown
from interlock.cli.looking import say_read_only, with_look
from interlock.cli.run import data_option, with_box
from interlock.compose.checkup import check_up
from interlock.compose.crews import host_settings
from interlock.errors import UsageError


@click.command()
@click.option("--accept-loss", is_flag=True, help="Give up acknowledged records that are missing, and write again.")
@config_option
@data_option
def doctor(accept_loss: bool, config: str | None, data: str) -> None:
    """Check the data folder: the database, its schema, every row, the chain of every run and its replay, owner files.

    Runs that are due by [retention] in interlock.toml are named, and a log that has grown too large.
    Exit code 1, and a list, if something is wrong.
    """
    found = asyncio.run(check_up(Path(data), host_settings(config), accept_loss=accept_loss))
    if found.read_only:
        say_read_only(data)
    for note in found.notes:
        click.echo(f"note: {shown(note)}")
    for problem in found.problems:
        click.echo(f"{click.style('problem', fg='red', bold=True)}: {shown(problem)}")
    looked_at = f"{found.runs} runs, {found.events} events, {found.deleted} tombstones"
    if found.problems:
        count = len(found.problems)
        click.echo(f"{data} is not well: {count} {'problem' if count == 1 else 'problems'} ({looked_at})")
        sys.exit(1)
    click.echo(f"{data} is well: {looked_at}")


@click.command()
@config_option
@data_option
def compact(config: str | None, data: str) -> None:
    """Give the space of deleted runs and broadcasts back to the disk.

    Runs of other processes wait while it works. It needs as much free space as the database has.
    """
    if not (Path(data) / DATABASE).exists():
        raise UsageError(f"there is no {DATABASE} in '{data}'; name the data folder with --data")
    before, after = with_box(data, lambda box: box.store.compact(), config)
    click.echo(f"{data} was {_size(before)}, is {_size(after)}")


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MB"


@click.command()
@click.argument("file")
@data_option
def backup(file: str, data: str) -> None:
    """Write a copy of the data folder's database to FILE, while runs go on."""
    if not (Path(data) / DATABASE).exists():
        raise UsageError(f"there is no {DATABASE} in '{data}'; name the data folder with --data")
    with_look(data, lambda box: box.store.backup(Path(file)))
    click.echo(f"wrote {file}; to restore it, put it into an empty folder as {DATABASE}")
