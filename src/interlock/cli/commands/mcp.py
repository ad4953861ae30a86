"""`interlock mcp`: crews as MCP tools over standard input and output."""

import asyncio
import signal
from collections.abc import Sequence

import click

from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.log.log_setup import LogChoice, LogDefaults, send_logs_to
from interlock.cli.crew_argument import choose_config, code_of, config_option, open_runnable_crew
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log
from interlock.cli.options import data_option, script_option
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock
from interlock.crew.definition import CrewDefinition
from interlock.errors import UsageError


@click.command()
@click.argument("crews", metavar="CREW...", nargs=-1, required=True)
@config_option
@script_option
@data_option
@log_options
def mcp(crews: tuple[str, ...], config: str | None, script: str | None, data: str, log: LogChoice) -> None:
    """Serve each CREW as an MCP tool on standard input and output, until the input ends.

    The tool takes the crew's input. A paused run returns its question; the tool 'resume' answers it.
    """
    config = choose_config(config, *crews)
    opened = [open_runnable_crew(crew, config) for crew in crews]
    definitions = [each.definition for each in opened]
    host = host_settings(config)
    box = interlock_with_log(data, host, script, code=code_of(opened))
    for number in (signal.SIGINT, signal.SIGTERM):  # a blocking read of standard input ends only with the process
        signal.signal(number, signal.SIG_DFL)
    with send_logs_to(box.home.folder, box.redactor(), host.log, log, LogDefaults("warning", "brief", "warning")):
        asyncio.run(_serve_stdio(box, definitions))


async def _serve_stdio(box: Interlock, crews: Sequence[CrewDefinition]) -> None:
    try:
        from interlock.server.mcp_crews import crew_server, crews_by_tool_name
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra_message("interlock mcp", "mcp", error.name or "")) from error
    named = crews_by_tool_name(crews)
    async with box:
        try:
            await crew_server(box, named).run_stdio_async()
        except* BrokenPipeError:
            pass  # the client has gone, as at the end of the input
