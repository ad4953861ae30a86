"""`interlock runs`: what ran, how it stands, and why it went as it did."""

import sys
from datetime import UTC, datetime

import click
import msgspec

from interlock.cli.columns import cost
from interlock.cli.crews import shown
from interlock.cli.keeping import delete, export, fork, import_, prune, script
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, json_option, with_box
from interlock.cli.usage import tell_of_run, usage
from interlock.compose.box import Interlock, Result
from interlock.engine.in_full import in_full
from interlock.engine.reasons import reason
from interlock.engine.state import RunState
from interlock.engine.step import OVER


@click.group()
def runs() -> None:
    """What ran, how it stands, and why."""


for command in (delete, export, fork, import_, prune, script, usage):
    runs.add_command(command)


@runs.command("list")
@click.option("--status", type=click.Choice(("running", "paused", *OVER)), help="Only runs that stand so.")
@click.option("--crew", help="Only runs of this crew.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@data_option
@json_option
def list_runs(status: str | None, crew: str | None, limit: int, data: str, as_json: bool) -> None:
    """The newest runs first, with what each has cost."""
    rows = with_look(data, lambda box: box.journal.rows(status=status, crew=crew, limit=limit))
    if as_json:
        for row in rows:
            click.echo(msgspec.json.encode(in_full(row)).decode())
        return
    for row in rows:
        when = datetime.fromtimestamp(row.updated_at / 1000, UTC)
        origin = f"  from {row.continues}" if row.continues else ""
        what = f"{row.status:<9}  {cost(row.usage):>8}  {shown(row.crew)}  {shown(row.reason)}{shown(origin)}"
        click.echo(f"{row.run}  {when:%Y-%m-%d %H:%M:%S}  {what}".rstrip())
    if not rows:
        click.echo("no runs yet; 'interlock run CREW INPUT' makes one")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
@json_option
def show(run_id: str, data: str, as_json: bool) -> None:
    """How RUN stands, what was said, and what each agent has cost."""

    async def told(box: Interlock) -> tuple[Result, RunState | None]:
        return await box.result(run_id), None if as_json else await box.state(run_id)

    result, state = with_look(data, told)
    if state is None:
        click.echo(msgspec.json.encode(in_full(result)).decode())
        return
    click.secho(f"{run_id} {result.status}: {result.reason}", bold=True)
    if result.continues:
        click.echo(f"it goes on from {shown(result.continues)}")
    for entry in state.history:
        click.secho(f"{entry.author}:", bold=True)
        for line in entry.text.splitlines():
            click.echo(f"  {shown(line)}")
    for wait in state.waits:
        which = f" --token {wait.token}" if len(state.waits) > 1 else ""
        click.echo(f"{wait.agent} waits ({wait.reason}): interlock resume {run_id}{which} --input TEXT")
    if result.usage_by_agent:
        tell_of_run(result.usage, result.usage_by_agent)


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def explain(run_id: str, data: str) -> None:
    """Why RUN went as it did: every decision with its reasons."""
    for record in with_look(data, lambda box: box.journal.records(run_id)):
        for n, event in enumerate(record.events):
            line = reason(event)
            if line:
                click.echo(f"{record.seq + n:>5}  {shown(line)}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def replay(run_id: str, data: str) -> None:
    """Feed RUN's events to the engine again; what it concludes must be what the journal holds."""
    state = with_look(data, lambda box: box.state(run_id))
    click.echo(f"{state.seq} events replayed, the same conclusions; {state.status}: {state.reason}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def cancel(run_id: str, data: str) -> None:
    """End RUN now; what it has under way is given up."""

    async def ask(box: Interlock) -> str:
        return (await (await box.cancel(run_id)).result()).status

    status = with_box(data, ask)
    click.echo(f"{run_id} is {status}")
    sys.exit(0 if status == "cancelled" else 1)
