"""`interlock serve` and `interlock key`: crews over HTTP, and who may ask."""

import asyncio
import hashlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import click
import msgspec

from interlock.adapters.clock import SystemClock
from interlock.adapters.crew_files import LoadedCrew, read_crew
from interlock.adapters.host_file import HostSettings
from interlock.adapters.host_secrets import too_short
from interlock.adapters.installing import needs_extra
from interlock.adapters.logging_setup import LogChoice
from interlock.adapters.served_folder import new_key
from interlock.adapters.server_settings import SCOPES, ServerSettings, require_public_url
from interlock.adapters.webhook_settings import IncomingHook, OutgoingHook, secret_of
from interlock.cli.crews import choose_config, config_option, open_crew, show_problems
from interlock.cli.log_options import log_options
from interlock.cli.run import data_option, logged_box, script_option
from interlock.compose.crews import host_settings, load_host
from interlock.crew.definition import Crew
from interlock.crew.problem import Severity
from interlock.errors import UsageError

PORT = 8321


@click.command()
@click.argument("crews", metavar="CREW...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one.")
@click.option("--public-url", metavar="URL", help="The address behind a proxy: https://host or https://host/prefix.")
@click.option("--reload", is_flag=True, help="Read crews again when their files change; SIGHUP always does.")
@click.option("--print-code", is_flag=True, help="Print a one-time code for the dashboard even without a terminal.")
@click.option("--no-auth", is_flag=True, help="Ask for no key; only on the loopback.")
@click.option("--resume-parked", is_flag=True, help="Continue runs that were parked by Ctrl-C or SIGTERM, too.")
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
    resume_parked: bool,
    config: str | None,
    script: str | None,
    data: str,
    log: LogChoice,
) -> None:
    """Serve each CREW over HTTP until a signal says otherwise.

    Runs that were left by a process that is gone go on; parked runs do not, unless asked for. A crew with problems can
    be looked at, and does not run.
    """
    serving = _server_parts()
    if no_auth and not serving.is_loopback(host):
        raise UsageError(f"--no-auth is for the loopback only, and '{host}' is not; leave it out, or use 127.0.0.1")
    config = choose_config(config, *crews)
    settings = host_settings(config)
    outgoing = {name: hook for name, hook in settings.webhooks.items() if isinstance(hook, OutgoingHook)}
    order = serving.Order(
        box=logged_box(data, settings, script, recover=True),
        crews=serving.ServedCrews(_loaded(crews, config, has_script=script is not None), SystemClock().now_ms()),
        settings=_server_settings(settings, public_url),
        log_settings=settings.log,
        log=log,
        host=host,
        port=port,
        with_keys=not no_auth,
        hooks=outgoing,
        incoming=serving.incoming_webhooks(_taken_in(settings), os.environ),
        secrets={name: secret_of(name, hook.secret_env, os.environ) for name, hook in outgoing.items()},
        say=click.echo,
        prints_code=print_code or (sys.stdout is not None and sys.stdout.isatty()),
        read_crews=lambda: [read_crew(crew, load_host(config, crew)) for crew in crews],
        reload=reload,
        resume_parked=resume_parked,
        warnings=too_short(settings, os.environ),
    )
    asyncio.run(serving.serve(order))


def _server_settings(settings: HostSettings, public_url: str | None) -> ServerSettings:
    if public_url is None:
        return settings.server
    require_public_url("--public-url", public_url)
    return msgspec.structs.replace(settings.server, public_url=public_url)


def _server_parts() -> ModuleType:
    """What needs the extra `server`, loaded now and not with the command line."""
    try:
        return import_module("interlock.server.serving")
    except ModuleNotFoundError as error:
        raise UsageError(needs_extra("interlock serve", "server", error.name or "")) from error


def _loaded(crews: Sequence[str], config: str | None, *, has_script: bool) -> list[LoadedCrew]:
    loaded = [open_crew(crew, config) for crew in crews]
    for path, each in zip(crews, loaded, strict=True):
        show_problems((p for p in each.problems if p.severity is Severity.ERROR), err=True)
        if each.crew is None:
            raise UsageError(f"there is no crew to show in {path}; mend what is said above")
        if not has_script:
            _say_who_has_no_model(each.crew)
    return loaded


def _say_who_has_no_model(crew: Crew) -> None:
    silent = [agent.id for each in crew.whole_tree() for agent in each.agents if agent.primary is None]
    if silent:
        agents = ", ".join(f"'{agent}'" for agent in silent)
        advice = "write 'model: PROVIDER:NAME' in each file, or serve with --script FILE"
        click.echo(
            f"interlock: no run of crew '{crew.name}' can start: no model answers for {agents}; {advice}", err=True
        )


def _taken_in(settings: HostSettings) -> dict[str, IncomingHook]:
    """Webhooks that may come in; one without a secret is said aloud, and not taken."""
    hooks = {name: hook for name, hook in settings.webhooks.items() if isinstance(hook, IncomingHook)}
    for name, hook in hooks.items():
        if not any(os.environ.get(each, "").strip() for each in (hook.secret_env, hook.old_secret_env, hook.token_env)):
            click.echo(f"interlock: webhook '{name}' has no secret and is not taken in", err=True)
    return hooks


@click.command()
@click.argument("name", metavar="ID")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=("read",), show_default=True)
def key(name: str, scopes: tuple[str, ...]) -> None:
    """Make a further key for a server, and print what to write into interlock.toml.

    The key itself is printed once and kept nowhere: the file holds its SHA-256.
    """
    made = new_key()
    listed = ", ".join(f'"{scope}"' for scope in scopes)
    click.echo(f"the key, for whoever is to use it: {made}")
    click.echo("for interlock.toml:\n")
    click.echo(f"[server.keys.{name}]")
    click.echo(f'sha256 = "{hashlib.sha256(made.encode()).hexdigest()}"')
    click.echo(f"scopes = [{listed}]")
