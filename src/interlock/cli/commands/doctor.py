"""`interlock doctor`, `interlock compact` and `interlock backup`: check, shrink and copy a data folder."""

import asyncio
import sys
from pathlib import Path

import click

from interlock.cli.crew_argument import config_option, safe_line
from interlock.cli.options import data_option
from interlock.cli.read_only import warn_read_only, with_read_only
from interlock.compose.crews import host_settings
from interlock.compose.stores.homes import home_of
from interlock.compose.upkeep.doctor import RunChoice, check_store
from interlock.compose.upkeep.logical_backup import write_backup


@click.command()
@click.option(
    "--accept-loss", is_flag=True, help="Accept that acknowledged records are missing, and allow writes again."
)
@click.option(
    "--since", type=click.FloatRange(min=0), metavar="DAYS", help="Replay only runs that changed in the last DAYS."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Replay only N runs, others each time.")
@config_option
@data_option
def doctor(accept_loss: bool, since: float | None, sample: int | None, config: str | None, data: str) -> None:
    """Check the store: database, schema, every row, chain and replay of every run, questions and sums.

    Of a data folder also owner files and the size of the log; of a server its settings, indexes, partitions, clock, and
    processes that ended without their session. Also reports runs that [retention] in interlock.toml would delete.
    Exit code 1 and a list if there are problems.
    """
    name, choice = home_of(data).name, RunChoice(since_days=since, sample=sample)
    found = asyncio.run(check_store(data, host_settings(config), accept_loss=accept_loss, choice=choice))
    if found.read_only:
        warn_read_only(name)
    for note in found.notes:
        click.echo(f"note: {safe_line(note)}")
    for problem in found.problems:
        click.echo(f"{click.style('problem', fg='red', bold=True)}: {safe_line(problem)}")
    runs = (
        f"{found.runs} of {_count(found.runs + found.left_out, 'run')}" if found.left_out else _count(found.runs, "run")
    )
    checked = f"{runs}, {_count(found.events, 'event')}, {found.deleted} deleted"
    if found.problems:
        click.echo(f"{name} has {_count(len(found.problems), 'problem')} ({checked})")
        sys.exit(1)
    click.echo(f"{name} is healthy: {checked}")


@click.command()
@config_option
@data_option
def compact(config: str | None, data: str) -> None:
    """Free the disk space of deleted runs and broadcasts.

    Runs of other processes wait meanwhile. Needs as much free space as the database has.
    """
    home = home_of(data)
    before, after = asyncio.run(home.compact(host_settings(config).durability))
    click.echo(f"{home.name}: {_size(before)} before, {_size(after)} now")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MB"


@click.command()
@click.argument("file")
@click.option(
    "--logical", is_flag=True, help="Write every run as 'runs export' does; repeat it to add what is new since."
)
@data_option
def backup(file: str, logical: bool, data: str) -> None:
    """Copy the database of the data folder to FILE. Runs may continue meanwhile.

    A PostgreSQL store is copied by pg_dump, a base backup or point-in-time recovery; with --logical its runs are
    written to FILE all the same.
    """
    if logical:
        home_of(data).require_exists()
        found = with_read_only(data, lambda box: write_backup(box, Path(file)))
        there = f", {found.there} were there already" if found.there else ""
        click.echo(f"wrote {_count(found.done, 'run')} to {file}{there}; to restore: interlock runs import {file}")
        return
    restore = asyncio.run(home_of(data).backup(Path(file), host_settings(None).durability))
    click.echo(f"wrote {file}; to restore: {restore}")
