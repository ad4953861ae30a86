"""`interlock mcp`: crews as tools for programs that speak MCP over standard input and output."""

import asyncio
import signal
from collections.abc import Sequence

import click

from interlock.adapters.installing import needs_extra
from interlock.adapters.logging_setup import LogChoice, LogDefaults, logging_to
from interlock.cli.crews import choose_config, config_option, open_sound_crew
from interlock.cli.log_options import log_options
from interlock.cli.run import data_option, logged_box, script_option
from interlock.compose.box import Interlock
from interlock.compose.crews import host_settings
from interlock.crew.definition import Crew
from interlock.errors import UsageError


@click.command()
@click.argument("crews", metavar="CREW...", nargs=-1, required=True)
@config_option
@script_option
@data_option
@log_options
def mcp(crews: tuple[str, ...], config: str | None, script: str | None, data: str, log: LogChoice) -> None:
    """Serve each CREW as a tool over MCP, on standard input and output, until the input ends.

    A tool takes the crew's input; a run that is paused returns its question, and the tool 'resume' answers it.
    """
    config = choose_config(config, *crews)
    definitions = [open_sound_crew(crew, config) for crew in crews]
    host = host_settings(config)
    box = logged_box(data, host, script)
    for number in (signal.SIGINT, signal.SIGTERM):  # nobody can interrupt a read of standard input but by ending it
        signal.signal(number, signal.SIG_DFL)
    with logging_to(box.data, box.known_keys(), host.log, log, LogDefaults("warning", "brief", "warning")):
        asyncio.run(_served(box, definitions))


async def _served(box: Interlock, crews: Sequence[Crew]) -> None:
    try:
        from interlock.server.mcp_crews import by_tool_name, crew_server
    except ModuleNotFoundError as error:
        raise UsageError(needs_extra("interlock mcp", "mcp", error.name or "")) from error
    named = by_tool_name(crews)
    async with box:
        try:
            await crew_server(box, named).run_stdio_async()
        except* BrokenPipeError:
            pass  # whoever asked listens no more, which ends it like the end of the input
