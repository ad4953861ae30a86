"""`interlock serve` and `interlock key`: the HTTP server and its API keys."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import click
import msgspec

from interlock.adapters.clock import SystemClock
from interlock.adapters.config.extras import missing_extra_message
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.host_secrets import short_secret_warnings
from interlock.adapters.config.server_settings import SCOPES, ServerSettings, require_public_url
from interlock.adapters.config.webhook_settings import IncomingHook, OutgoingHook, secret_of
from interlock.adapters.files.served_folder import new_key
from interlock.adapters.log.log_setup import LogChoice
from interlock.cli.crew_argument import (
    NamedCrew,
    choose_config,
    config_option,
    open_named_crew,
    show_problems,
)
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log
from interlock.cli.options import data_option, script_option
from interlock.cli.python_reload import CrewReader, restart_process
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock
from interlock.crew.definition import CrewDefinition
from interlock.crew.problem import Severity
from interlock.errors import UsageError
from interlock.runtime.claiming.work import WorkSettings

PORT = 8321

if TYPE_CHECKING:
    from interlock.server.serve import ServeOptions


@click.command()
@click.argument("crews", metavar="CREW...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 chooses a free port.")
@click.option("--public-url", metavar="URL", help="Public address behind a proxy: https://host or https://host/prefix.")
@click.option("--reload", is_flag=True, help="Reload crews when their files change; SIGHUP always reloads.")
@click.option("--print-code", is_flag=True, help="Print a one-time code for the dashboard even without a terminal.")
@click.option("--no-auth", is_flag=True, help="Turn authentication off; only on the loopback.")
@click.option("--no-drive", is_flag=True, help="Only serve: runs are driven by workers ('interlock worker').")
@click.option("--resume-parked", is_flag=True, help="Also continue runs that Ctrl-C or SIGTERM has parked.")
@config_option
@script_option
@data_option
@log_options
def serve(
    crews: tuple[str, ...],
    host: str,
    port: int,
    public_url: str | None,
    reload: bool,
    print_code: bool,
    no_auth: bool,
    no_drive: bool,
    resume_parked: bool,
    config: str | None,
    script: str | None,
    data: str,
    log: LogChoice,
) -> None:
    """Serve the HTTP API and dashboard for one or more crews, until stopped (Ctrl-C or SIGTERM).

    Runs of a process that has died are continued; parked runs only with --resume-parked. A crew with errors is shown
    on the dashboard and cannot be run.
    """
    serving = _server_module()
    _require_loopback(serving, host, no_auth)
    _require_driven(resume_parked, drives=not no_drive)
    settings = host_settings(config := choose_config(config, *crews))
    outgoing = {name: hook for name, hook in settings.webhooks.items() if isinstance(hook, OutgoingHook)}
    reader = CrewReader(crews, config, _load_crews(crews, config, drives_with_models=script is None and not no_drive))
    order = serving.ServeOptions(
        box=_box_to_serve(data, settings, script, reader, drives=not no_drive),
        crews=serving.ServedCrews(reader.loaded, SystemClock().now_ms(), is_watched=reload),
        settings=_server_settings(settings, public_url),
        log_settings=settings.log,
        log=log,
        host=host,
        port=port,
        with_keys=not no_auth,
        hooks=outgoing,
        incoming=serving.incoming_webhooks(_incoming_hooks(settings), os.environ),
        secrets={name: secret_of(name, hook.secret_env, os.environ) for name, hook in outgoing.items()},
        say=click.echo,
        prints_code=print_code or (sys.stdout is not None and sys.stdout.isatty()),
        reader=reader,
        reload=reload,
        resume_parked=resume_parked,
        warnings=short_secret_warnings(settings, os.environ),
    )
    _serve_until_stopped(serving, order)


def _box_to_serve(
    data: str, settings: HostSettings, script: str | None, reader: CrewReader, *, drives: bool
) -> Interlock:
    work = WorkSettings(drives=drives)
    return interlock_with_log(data, settings, script, recover=drives, code=reader.code, work=work)


def _require_driven(resume_parked: bool, *, drives: bool) -> None:
    if resume_parked and not drives:
        raise UsageError("--no-drive leaves all runs to workers; remove it, or --resume-parked")


def _require_loopback(serving: ModuleType, host: str, no_auth: bool) -> None:
    if no_auth and not serving.is_loopback(host):
        raise UsageError(f"--no-auth works only on the loopback, and '{host}' is not; remove it, or use 127.0.0.1")


def _serve_until_stopped(serving: ModuleType, order: "ServeOptions") -> None:
    restart_port = asyncio.run(serving.serve(order))
    if restart_port is not None:  # new code of a crew in Python needs a new process
        restart_process(*(() if order.port else ("--port", str(restart_port))))


def _server_settings(settings: HostSettings, public_url: str | None) -> ServerSettings:
    if public_url is None:
        return settings.server
    require_public_url("--public-url", public_url)
    return msgspec.structs.replace(settings.server, public_url=public_url)


def _server_module() -> ModuleType:
    """Import the server, which needs the extra `server`, only when it is used."""
    try:
        return import_module("interlock.server.serve")
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra_message("interlock serve", "server", error.name or "")) from error


def _load_crews(crews: Sequence[str], config: str | None, *, drives_with_models: bool) -> list[NamedCrew]:
    opened = [open_named_crew(crew, config) for crew in crews]
    for path, (each, *_) in zip(crews, opened, strict=True):
        show_problems((p for p in each.problems if p.severity is Severity.ERROR), err=True)
        if each.crew is None:
            raise UsageError(f"no crew could be read from {path}; fix the errors above")
        if drives_with_models:
            _warn_missing_models(each.crew)
    return opened


def _warn_missing_models(crew: CrewDefinition) -> None:
    silent = [agent.id for each in crew.whole_tree() for agent in each.agents if agent.primary is None]
    if silent:
        agents = ", ".join(f"'{agent}'" for agent in silent)
        advice = "write 'model: PROVIDER:NAME' in each file, or serve with --script FILE"
        click.echo(
            f"interlock: no run of crew '{crew.name}' can start: no model is set for {agents}; {advice}", err=True
        )


def _incoming_hooks(settings: HostSettings) -> dict[str, IncomingHook]:
    """The incoming webhooks. Prints a warning for one without a secret, which is refused."""
    hooks = {name: hook for name, hook in settings.webhooks.items() if isinstance(hook, IncomingHook)}
    for name, hook in hooks.items():
        if not any(os.environ.get(each, "").strip() for each in (hook.secret_env, hook.old_secret_env, hook.token_env)):
            click.echo(f"interlock: webhook '{name}' has no secret and is refused", err=True)
    return hooks


@click.command()
@click.argument("name", metavar="ID")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=("read",),
    show_default=True,
    help="May be repeated.",
)
@click.option("--crew", "crews", multiple=True, metavar="NAME", help="Limit the key to this crew; may be repeated.")
def key(name: str, scopes: tuple[str, ...], crews: tuple[str, ...]) -> None:
    """Create an API key named ID, and print its section for interlock.toml.

    The key itself is shown once and not stored: the file holds its SHA-256.
    """
    made = new_key()
    listed = ", ".join(f'"{scope}"' for scope in scopes)
    click.echo(f"key (shown once): {made}")
    click.echo("for interlock.toml:\n")
    click.echo(f"[server.keys.{name}]")
    click.echo(f'sha256 = "{hashlib.sha256(made.encode()).hexdigest()}"')
    click.echo(f"scopes = [{listed}]")
    if crews:
        click.echo(f"crews = {json.dumps(crews)}")
