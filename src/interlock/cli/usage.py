"""`interlock runs usage`: what runs have cost, by crew and agent."""

import click
import msgspec

from interlock.cli.columns import USAGE_HEADS, aligned, usage_cells
from interlock.cli.crews import shown
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, json_option
from interlock.compose.box import Interlock
from interlock.compose.usage import DAY_MS, Spent
from interlock.engine.events import Usage
from interlock.engine.in_full import in_full

WORDS = 2  # columns that hold names


@click.command()
@click.option("--crew", help="Only runs of this crew.")
@click.option("--days", type=click.FloatRange(min=0), metavar="DAYS", help="Only runs started in the last DAYS.")
@data_option
@json_option
def usage(crew: str | None, days: float | None, data: str, as_json: bool) -> None:
    """What runs have cost by crew and agent, the dearest first: model calls, tokens, dollars.

    Every model call counts once, also those that failed; forks count from where they went on.
    """

    async def asked(box: Interlock) -> Spent:
        since = box.clock.now_ms() - int(days * DAY_MS) if days is not None else 0
        return await box.usage(crew=crew, since_ms=since)

    spent = with_look(data, asked)
    if as_json:
        click.echo(msgspec.json.encode(in_full(spent)).decode())
    elif not spent.crews:
        click.echo("no such runs")
    else:
        _tell(spent)
    for run in spent.unread:
        click.echo(f"interlock: run {shown(run)} is damaged and not counted; see 'interlock doctor'", err=True)


def _tell(spent: Spent) -> None:
    rows = [("crew", "agent", "runs", *USAGE_HEADS)]
    for crew in spent.crews:
        rows.append((shown(crew.crew), "", f"{crew.runs:,}", *usage_cells(crew.usage)))
        rows += [("", shown(agent), "", *usage_cells(used)) for agent, used in crew.agents.items()]
    if len(spent.crews) > 1:
        rows.append(("all", "", f"{spent.runs:,}", *usage_cells(spent.usage)))
    for n, line in enumerate(aligned(rows, WORDS)):
        click.secho(line, dim=n == 0)


def tell_of_run(whole: Usage, agents: dict[str, Usage]) -> None:
    """What one run has cost, agent by agent."""
    rows = [("agent", *USAGE_HEADS), *((shown(agent), *usage_cells(used)) for agent, used in agents.items())]
    if len(agents) > 1:
        rows.append(("all", *usage_cells(whole)))
    for n, line in enumerate(aligned(rows, 1)):
        click.secho(line, dim=n == 0)
