"""`interlock worker`: drives the runs of a store, without an API."""

import asyncio
import os
from importlib import import_module
from types import ModuleType

import click

from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.config.host_secrets import short_secret_warnings
from interlock.adapters.log.log_setup import LogChoice
from interlock.cli.crew_argument import choose_config, code_of, config_option, open_runnable_crew
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log
from interlock.cli.options import data_option, script_option
from interlock.compose.crews import host_settings
from interlock.compose.stores.homes import home_of
from interlock.errors import UsageError
from interlock.runtime.claiming.work import CALLS_MAX, WorkSettings

# Runs that one worker drives, unless it is told otherwise: enough for its calls, few enough to move quickly.
WORKER_RUNS_MAX = 500


@click.command()
@click.argument("crews", metavar="[CREW]...", nargs=-1)
@click.option(
    "--runs-max", type=click.IntRange(1), default=WORKER_RUNS_MAX, show_default=True, help="Runs driven at a time."
)
@click.option(
    "--calls-max", type=click.IntRange(1), default=CALLS_MAX, show_default=True, help="Model calls at a time."
)
@click.option("--only-crews", is_flag=True, help="Claim only runs of the CREWs.")
@click.option(
    "--only-organizations", "organizations", metavar="NAME", multiple=True, help="Claim only its runs; may be repeated."
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Where /healthz, /readyz and /metrics are answered; port 0 chooses a free one.",
)
@config_option
@script_option
@data_option
@log_options
def worker(
    crews: tuple[str, ...],
    runs_max: int,
    calls_max: int,
    only_crews: bool,
    organizations: tuple[str, ...],
    listen: str,
    config: str | None,
    script: str | None,
    data: str,
    log: LogChoice,
) -> None:
    """Drive runs of a store that wait for a worker, until stopped (Ctrl-C or SIGTERM).

    A CREW gives its functions, and its agents get broadcasts; runs of other crews are driven too, unless --only-crews
    is given. When it is stopped, other workers continue its runs.

    Exit code 0: stopped, 3: it was cut off from the store, and others drive its runs.
    """
    if only_crews and not crews:
        raise UsageError("--only-crews needs at least one CREW")
    host, port = _address_of(listen)
    working = _worker_module()
    config = choose_config(config, *crews)
    settings = host_settings(config)
    home_of(data).require_exists()
    opened = [open_runnable_crew(crew, config) for crew in crews]
    limits = WorkSettings(
        takes_private=False,
        runs_max=runs_max,
        calls_max=calls_max,
        crews=tuple(each.definition.name for each in opened) if only_crews else None,
        organizations=organizations or None,
    )
    order = working.WorkerOptions(
        box=interlock_with_log(data, settings, script, recover=True, code=code_of(opened), work=limits),
        crews=[each.definition for each in opened],
        settings=settings.server,
        host=host,
        port=port,
        say=click.echo,
        log_settings=settings.log,
        log=log,
        warnings=short_secret_warnings(settings, os.environ),
    )
    asyncio.run(working.work(order))


def _address_of(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen is {listen!r}; write an address and a port, such as 127.0.0.1:9100")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _worker_module() -> ModuleType:
    """Import the server, which needs the extra `server`, only when it is used."""
    try:
        return import_module("interlock.server.worker")
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra_message("interlock worker", "server", error.name or "")) from error
