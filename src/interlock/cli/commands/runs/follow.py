"""`interlock runs follow`: show a run of any process."""

import asyncio
import signal
import sys

import click

from interlock.cli.crew_argument import config_option
from interlock.cli.drive_run import EXIT_CODES, follow_run
from interlock.cli.options import data_option, json_option, plain_option
from interlock.cli.view.run_display import Display, display_of
from interlock.compose.crews import host_settings
from interlock.compose.run_ids import resolve_run_id
from interlock.compose.upkeep.read_only import Inspection


@click.command()
@click.argument("run_id", metavar="RUN")
@config_option
@data_option
@json_option
@plain_option
def follow(run_id: str, config: str | None, data: str, as_json: bool, plain: bool) -> None:
    """Show RUN from its start until it ends or pauses. Ctrl-C ends the view, not the run.

    The run may belong to another process, such as a server. Exit code 0: completed, 3: paused, 1: anything else.
    """
    box = Inspection(data, host=host_settings(config))
    try:
        status = asyncio.run(_follow_until_signal(box, run_id, display_of(as_json, plain)))
    except asyncio.CancelledError:
        click.echo("interlock: stopped following; the run continues", err=True)
        status = "running"
    sys.stdout.flush()
    sys.exit(EXIT_CODES.get(status, 1))


async def _follow_until_signal(box: Inspection, run_id: str, display: Display) -> str:
    work = asyncio.ensure_future(_open_and_follow(box, run_id, display))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await work


async def _open_and_follow(box: Inspection, run_id: str, display: Display) -> str:
    async with box:
        return await follow_run(box, await resolve_run_id(box.journal, run_id), display)
