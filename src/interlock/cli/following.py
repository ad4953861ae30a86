"""`interlock runs follow`: a run as it goes on, whichever process drives it."""

import asyncio
import signal
import sys

import click

from interlock.cli.crews import config_option
from interlock.cli.run import EXIT_CODES, Display, data_option, follow_run, for_people, json_option, plain_option
from interlock.compose.crews import host_settings
from interlock.compose.inspection import Inspection
from interlock.compose.run_ids import whole_id


@click.command()
@click.argument("run_id", metavar="RUN")
@config_option
@data_option
@json_option
@plain_option
def follow(run_id: str, config: str | None, data: str, as_json: bool, plain: bool) -> None:
    """Show RUN from its beginning and as it goes on, until it is over or paused. Ctrl-C ends the view, not the run.

    Also a run of another process, such as a server's. Exit code 0: completed, 3: paused, 1: anything else.
    """
    box = Inspection(data, host=host_settings(config))
    try:
        status = asyncio.run(_followed(box, run_id, for_people(as_json, plain)))
    except asyncio.CancelledError:
        click.echo("interlock: no longer followed; the run goes on", err=True)
        status = "running"
    sys.stdout.flush()
    sys.exit(EXIT_CODES.get(status, 1))


async def _followed(box: Inspection, run_id: str, display: Display) -> str:
    work = asyncio.ensure_future(_follow(box, run_id, display))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await work


async def _follow(box: Inspection, run_id: str, display: Display) -> str:
    async with box:
        return await follow_run(box, await whole_id(box.journal, run_id), display)
