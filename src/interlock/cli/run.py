"""`interlock run` and `interlock resume`: a crew at work, in the terminal or as one JSON object a line."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from interlock.adapters.text_log import TextLog
from interlock.cli.crews import crew_argument, open_sound_crew, shown
from interlock.compose.box import DATA_FOLDER, Interlock, Result, RunHandle
from interlock.crew.registry import registry_of
from interlock.errors import InterlockError
from interlock.signals.builtin import load_default_signals

Show = Callable[[dict[str, Any]], None]

T = TypeVar("T")

EXIT_CODES = {"completed": 0, "paused": 3}

data_option = click.option(
    "--data",
    metavar="DIR",
    envvar="INTERLOCK_DATA",
    default=DATA_FOLDER,
    show_default=True,
    help="Where runs are kept.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
plain_option = click.option("--plain", is_flag=True, help="For people, also where nobody sits at a terminal.")
script_option = click.option("--script", metavar="FILE", help="Answers to use instead of calling a model.")


@click.command()
@crew_argument
@click.argument("text", metavar="[INPUT|-]", default="")
@script_option
@click.option("--continue", "continues", metavar="RUN", help="Start from the history of a finished run.")
@data_option
@json_option
@plain_option
def run(
    crew: str,
    config: str | None,
    text: str,
    script: str | None,
    continues: str | None,
    data: str,
    as_json: bool,
    plain: bool,
) -> None:
    """Run CREW on INPUT. Exit code 0: completed, 3: paused, 1: anything else."""
    definition = open_sound_crew(crew, config)
    given = sys.stdin.read() if text == "-" else text
    log = TextLog(registry_of(definition))

    async def begin(box: Interlock) -> RunHandle:
        return await (box.continue_run(definition, given, continues) if continues else box.start(definition, given))

    drive(Interlock(data, script=script, observers=[log]), begin, for_people(as_json, plain))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--token", metavar="T", help="Which wait to answer, if there are several.")
@click.option("--input", "text", metavar="TEXT|-", default="", help="The answer; - reads standard input.")
@script_option
@data_option
@json_option
@plain_option
def resume(
    run_id: str, token: str | None, text: str, script: str | None, data: str, as_json: bool, plain: bool
) -> None:
    """Answer what RUN waits for, or go on with it if the process that ran it is gone."""
    given = sys.stdin.read() if text == "-" else text
    log = TextLog(load_default_signals())

    async def again(box: Interlock) -> RunHandle:
        return await box.resume(run_id, given, token=token)

    drive(Interlock(data, script=script, observers=[log]), again, for_people(as_json, plain))


def for_people(as_json: bool, plain: bool) -> bool:
    return plain or (not as_json and sys.stdout.isatty())


def drive(box: Interlock, ask: Callable[[Interlock], Awaitable[RunHandle]], people: bool) -> None:
    """Shows a run while it goes on, says how it stands, and exits with its code."""
    result = asyncio.run(watched(box, ask, show_person if people else show_json))
    if people:
        color = "green" if result.status == "completed" else "yellow"
        click.secho(f"run {result.run} {result.status}: {result.reason}", fg=color, bold=True)
        if result.status == "paused":
            click.echo(f"answer with: interlock resume {result.run} --input TEXT")
    sys.stdout.flush()
    sys.exit(EXIT_CODES.get(result.status, 1))


def with_box(data: str, ask: Callable[[Interlock], Awaitable[T]]) -> T:
    """What a command asks of the data folder, and no more."""

    async def asked() -> T:
        async with Interlock(data) as box:
            return await ask(box)

    return asyncio.run(asked())


async def watched(box: Interlock, ask: Callable[[Interlock], Awaitable[RunHandle]], show: Show) -> Result:
    """Shows a run while it goes on, and gives how it stands afterwards. A signal to stop parks it."""
    work = asyncio.ensure_future(_watched(box, ask, show))
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        raise Parked("stopped; what was done is kept, 'interlock runs list' and 'interlock resume RUN' go on") from None


class Parked(InterlockError):
    """The process was asked to stop while a run was under way."""

    code = "parked"


async def _watched(box: Interlock, ask: Callable[[Interlock], Awaitable[RunHandle]], show: Show) -> Result:
    async with box:
        handle = await ask(box)
        async for event in handle.events():
            show(event)
        return await handle.result()


def show_json(event: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(event).decode())


def show_person(event: dict[str, Any]) -> None:
    match event["type"]:
        case "model.replied" if event["text"]:
            click.secho(f"{event['agent']}:", bold=True)
            for line in event["text"].splitlines():
                click.echo(f"  {shown(line)}")
        case "tool.called":
            click.secho(f"  {event['agent']} uses {shown(event['name'])} {shown(event['arguments'])}", dim=True)
        case "handoff" | "group.started" | "group.joined" | "nudged" | "limit.reached" | "warning":
            rest = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("run", "seq", "at", "type"))
            click.secho(f"  {event['type']} {shown(rest)}", dim=True)
        case _:
            return
