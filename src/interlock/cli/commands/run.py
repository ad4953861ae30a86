"""`interlock run` and `interlock resume`."""

import asyncio
import shlex

import click

from interlock.adapters.log.log_setup import LogChoice
from interlock.cli.crew_argument import (
    code_of_python_crew,
    config_option,
    crew_argument,
    open_runnable_crew,
    python_crew_option,
)
from interlock.cli.drive_run import RunAction, drive_run
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log
from interlock.cli.options import (
    data_option,
    json_option,
    model_option,
    plain_option,
    script_of,
    script_option,
    text_or_stdin,
)
from interlock.cli.system_user import system_user
from interlock.cli.view.run_display import display_of
from interlock.cli.view.terminal import can_ask, read_input
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock, RunHandle
from interlock.compose.models import with_model
from interlock.compose.run_ids import resolve_run_id
from interlock.errors import UsageError
from interlock.ids import root_of
from interlock.runtime.claiming.work import WorkSettings


class _OneInput(click.Command):
    """Explains the quotes where a shell has split an input into several arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not error.message.startswith("Got unexpected extra argument"):
                raise
            more = error.message.partition("(")[2].removesuffix(")")
            how = "put the whole input in quotes: interlock run CREW 'INPUT'"
            raise click.UsageError(f"'{more}' follows the input; {how}", ctx) from error


@click.command(cls=_OneInput)
@crew_argument
@click.argument("text", metavar="[INPUT|-]", required=False)
@script_option
@click.option(
    "--model",
    metavar="M",
    help="Model for every agent, instead of its own: openai:NAME, ollama:NAME, scripted:FILE, …",
)
@click.option("--detach", is_flag=True, help="Leave the run to a worker, and print its id.")
@click.option("--continue", "continues", metavar="RUN", help="Start with the history of a finished run.")
@data_option
@json_option
@plain_option
@log_options
def run(
    crew: str,
    config: str | None,
    text: str | None,
    script: str | None,
    model: str | None,
    detach: bool,
    continues: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Run CREW on INPUT. On a terminal, a missing INPUT is prompted for.

    Exit code 0: completed, 3: paused, 1: anything else.
    """
    answers = script_of(script, model)
    host = host_settings(config)
    opened = open_runnable_crew(crew, config)
    if model is not None and answers is None:
        opened = opened._replace(definition=with_model(opened.definition, model, host.provider_settings))
    given = require_input(crew, text_or_stdin(text) if text is not None else None)

    async def start_or_continue(box: Interlock) -> RunHandle:
        by = system_user()
        if continues:
            return await box.continue_run(opened, given, await resolve_run_id(box.journal, continues), by=by)
        return await box.start(opened, given, by=by)

    is_private = script is not None or model is not None
    if detach and is_private:
        raise UsageError("--detach leaves the run to a worker, which has its own models; remove --script or --model")
    box = interlock_with_log(data, host, script, model, work=WorkSettings(drives=not detach, private=is_private))
    if detach:
        click.echo(asyncio.run(_start_detached(box, start_or_continue)))
        return
    python_crew = crew if opened.has_code else None
    drive_run(box, start_or_continue, display_of(as_json, plain), host.log, log, python_crew=python_crew)


async def _start_detached(box: Interlock, start: RunAction) -> str:
    async with box:
        return (await start(box)).id


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--token", metavar="T", help="The question to answer, if there are several.")
@click.option("--input", "text", metavar="TEXT|-", default="", help="The answer; - reads standard input.")
@python_crew_option
@config_option
@script_option
@model_option
@data_option
@json_option
@plain_option
@log_options
def resume(
    run_id: str,
    token: str | None,
    text: str,
    crew: str | None,
    config: str | None,
    script: str | None,
    model: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Answer the question of RUN, or continue it if it is parked or its process has died."""
    given = text_or_stdin(text)

    async def resume_by_id(box: Interlock) -> RunHandle:
        whole = await resolve_run_id(box.journal, run_id)
        which = await resolve_run_id(box.journal, token) if token is not None else None
        await box.resume(whole, given, token=which, by=system_user())
        return RunHandle(box, root_of(whole))  # a child run continues with its root

    host = host_settings(config)
    box = interlock_with_log(data, host, script, model, code=code_of_python_crew(crew, config))
    drive_run(box, resume_by_id, display_of(as_json, plain), host.log, log, only_new=True, python_crew=crew)


def require_input(crew: str, text: str | None) -> str:
    """The given input, or one typed at the terminal; `UsageError` if it is blank or there is no terminal."""
    if text is None:
        text = read_input() if can_ask() else ""
    if not text.strip():
        raise UsageError(f"INPUT is missing; write: interlock run {shlex.quote(crew)} 'INPUT', or - for standard input")
    return text
