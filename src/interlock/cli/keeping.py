"""`interlock runs fork|script|delete|prune|export|import`: runs as things to go on from, to test with, to keep."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from interlock.adapters.logging_setup import LogChoice
from interlock.adapters.private_files import open_private
from interlock.adapters.run_scripts import written_script, written_test
from interlock.cli.crews import config_option
from interlock.cli.log_options import log_options
from interlock.cli.looking import with_look
from interlock.cli.run import (
    data_option,
    drive,
    for_people,
    json_option,
    logged_box,
    plain_option,
    script_option,
    with_box,
)
from interlock.compose.box import Interlock, RunHandle
from interlock.compose.crews import host_settings
from interlock.compose.keeping import delete_run, export_run, import_run, prune_runs
from interlock.compose.run_ids import whole_id
from interlock.errors import UsageError
from interlock.ports import StoredRecord, Tombstone


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", type=int, required=True, metavar="SEQ", help="The last event to keep.")
@script_option
@config_option
@data_option
@json_option
@plain_option
@log_options
def fork(
    run_id: str,
    after: int,
    script: str | None,
    config: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Go on from the middle of RUN, as a new run: what was recorded up to SEQ is kept, and asked for no more.

    Possible where no branch, no crew that was called and no question is open; elsewhere the nearest places are named.
    What crews have said that were called before SEQ is kept; their runs stay with RUN. Exit codes as of run.
    """

    async def forked(box: Interlock) -> RunHandle:
        return await box.fork(await whole_id(box.journal, run_id), after)

    host = host_settings(config)
    drive(logged_box(data, host, script), forked, for_people(as_json, plain), host.log, log)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--as-test", is_flag=True, help="As one of a crew's own tests, with what came of it as expected.")
@data_option
def script(run_id: str, as_test: bool, data: str) -> None:
    """Print RUN, with all that it called, as a script that 'interlock run --script' plays again."""

    async def tree_of_run(box: Interlock) -> Sequence[StoredRecord]:
        return await box.journal.tree(await whole_id(box.journal, run_id))

    tree = with_look(data, tree_of_run)
    click.echo((written_test if as_test else written_script)(tree), nl=False)


@click.command()
@click.argument("run_id", metavar="RUN")
@data_option
def delete(run_id: str, data: str) -> None:
    """Delete RUN and all that it called. Tombstones stay in place of their chains, and no id is given again."""

    async def deleted(box: Interlock) -> Sequence[Tombstone]:
        return await delete_run(box, await whole_id(box.journal, run_id))

    left, *below = with_box(data, deleted)
    click.echo(f"{left.run} is deleted; its chain ended at seq {left.seq} with {left.link.hex()[:16]}")
    if below:
        click.echo(f"with it {len(below)} {'run' if len(below) == 1 else 'runs'} of crews that it called")


@click.command()
@click.option("--older-than", "days", type=click.FloatRange(min=0), metavar="DAYS")
@config_option
@data_option
def prune(days: float | None, config: str | None, data: str) -> None:
    """Delete every finished run in which nothing has happened for DAYS, with all that it called; paused runs stay.

    Without --older-than what counts is 'days' under [retention] in interlock.toml.
    """
    kept = host_settings(config).retention_days if days is None else days
    if kept is None:
        raise UsageError("say how old: --older-than DAYS, or 'days' under [retention] in interlock.toml")
    gone = with_box(data, lambda box: prune_runs(box, kept), config)
    click.echo(f"{len(gone)} {'run' if len(gone) == 1 else 'runs'} deleted")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("file", metavar="[FILE]", default="-")
@data_option
def export(run_id: str, file: str, data: str) -> None:
    """Write RUN, all that it called, and the crews to FILE, or to standard output, as JSON lines."""

    async def exported(box: Interlock) -> bytes:
        return await export_run(box, await whole_id(box.journal, run_id))

    body = with_look(data, exported)
    if file == "-":
        sys.stdout.buffer.write(body)
        return
    try:
        with os.fdopen(open_private(Path(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as target:
            target.write(body)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already; an export overwrites nothing") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {file}")


@click.command("import")
@click.argument("file")
@data_option
def import_(file: str, data: str) -> None:
    """Take in a run and all that it called from FILE (- is standard input).

    Not if an id is taken or anything in it is damaged.
    """
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    row = with_box(data, lambda box: import_run(box, body, file))
    click.echo(f"{row.run} is here, {row.status}")
