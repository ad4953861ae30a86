"""`interlock runs fork|script|delete|prune|export|import`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from interlock.adapters.files.private_files import open_private
from interlock.adapters.files.run_scripts import crew_test_yaml, script_yaml
from interlock.adapters.log.log_setup import LogChoice
from interlock.cli.crew_argument import code_of_python_crew, config_option, python_crew_option
from interlock.cli.drive_run import drive_run
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log, with_interlock
from interlock.cli.options import (
    data_option,
    json_option,
    model_option,
    plain_option,
    read_option,
    script_option,
)
from interlock.cli.read_only import StoreToRead, with_read_only
from interlock.cli.view.run_display import display_of
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock, RunHandle
from interlock.compose.run_ids import resolve_run_id
from interlock.compose.upkeep.archive import delete_run, export_run, import_run, prune_runs
from interlock.compose.upkeep.logical_backup import has_many_runs, import_backup
from interlock.errors import UsageError
from interlock.ports import StoredRecord, Tombstone


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", type=int, required=True, metavar="SEQ", help="The last event to keep.")
@python_crew_option
@script_option
@model_option
@config_option
@data_option
@json_option
@plain_option
@log_options
def fork(
    run_id: str,
    after: int,
    crew: str | None,
    script: str | None,
    model: str | None,
    config: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Start a new run from RUN as it was after event SEQ. Recorded replies up to SEQ are reused.

    A fork is possible where no branch, sub-crew or question is open; otherwise the nearest events are printed.
    Results of sub-crews before SEQ are kept; their runs stay with RUN. Exit codes as for run.
    """

    async def fork_by_id(box: Interlock) -> RunHandle:
        return await box.fork(await resolve_run_id(box.journal, run_id), after)

    host = host_settings(config)
    box = interlock_with_log(data, host, script, model, code=code_of_python_crew(crew, config))
    drive_run(box, fork_by_id, display_of(as_json, plain), host.log, log, python_crew=crew)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--as-test", is_flag=True, help="Print a crew test that expects the result of this run.")
@data_option
def script(run_id: str, as_test: bool, data: str) -> None:
    """Print RUN and its sub-crews as a script for 'interlock run --script'."""

    async def tree_of_run(box: Interlock) -> Sequence[StoredRecord]:
        return await box.journal.tree(await resolve_run_id(box.journal, run_id))

    tree = with_read_only(data, tree_of_run)
    click.echo((crew_test_yaml if as_test else script_yaml)(tree), nl=False)


@click.command()
@click.argument("run_id", metavar="RUN")
@data_option
def delete(run_id: str, data: str) -> None:
    """Delete RUN and the runs of its sub-crews. A tombstone keeps each id from being used again."""

    async def delete_by_id(box: Interlock) -> Sequence[Tombstone]:
        return await delete_run(box, await resolve_run_id(box.journal, run_id))

    left, *below = with_interlock(data, delete_by_id)
    click.echo(f"deleted {left.run}; its chain ended at event {left.seq} with {left.link.hex()[:16]}")
    if below:
        click.echo(f"deleted {len(below)} {'run' if len(below) == 1 else 'runs'} of its sub-crews")


@click.command()
@click.option(
    "--older-than", "days", type=click.FloatRange(min=0), metavar="DAYS", help="Minimum age; fractions are allowed."
)
@config_option
@data_option
def prune(days: float | None, config: str | None, data: str) -> None:
    """Delete finished runs without an event in the last DAYS, with their sub-crews. Paused runs stay.

    The default of --older-than is 'days' under [retention] in interlock.toml.
    """
    kept = host_settings(config).retention_days if days is None else days
    if kept is None:
        raise UsageError("give --older-than DAYS, or 'days' under [retention] in interlock.toml")
    gone = with_interlock(data, lambda box: prune_runs(box, kept), config)
    click.echo(f"{len(gone)} {'run' if len(gone) == 1 else 'runs'} deleted")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("file", metavar="[FILE]", default="-")
@read_option
def export(run_id: str, file: str, data: StoreToRead) -> None:
    """Write RUN, the runs of its sub-crews, and the crews to FILE or standard output, as JSON lines."""

    async def export_by_id(box: Interlock) -> bytes:
        return await export_run(box, await resolve_run_id(box.journal, run_id))

    body = with_read_only(data, export_by_id)
    if file == "-":
        sys.stdout.buffer.write(body)
        return
    try:
        with os.fdopen(open_private(Path(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as target:
            target.write(body)
    except FileExistsError as error:
        raise UsageError(f"{file} already exists; an export does not overwrite files") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {file}")


@click.command("import")
@click.argument("file")
@data_option
def import_(file: str, data: str) -> None:
    """Import a run and the runs of its sub-crews from FILE (- is standard input).

    The import is refused if an id exists or the file is damaged. Of a file of 'backup --logical' every run is imported
    that the store does not have.
    """
    try:
        if file != "-" and has_many_runs(Path(file)):
            _import_all(Path(file), data)
            return
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    row = with_interlock(data, lambda box: import_run(box, body, file))
    click.echo(f"imported {row.run}, {row.status}")


def _import_all(file: Path, data: str) -> None:
    found = with_interlock(data, lambda box: import_backup(box, file))
    there = f", {found.there} were there already" if found.there else ""
    click.echo(f"imported {found.done} {'run' if found.done == 1 else 'runs'}{there}")
