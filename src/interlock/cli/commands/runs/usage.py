"""`interlock runs usage`: the cost of runs, by crew and agent."""

import click
import msgspec

from interlock.cli.crew_argument import safe_line
from interlock.cli.options import json_option, read_option
from interlock.cli.read_only import StoreToRead, with_read_only
from interlock.cli.view.columns import USAGE_HEADS, align_columns, savings_text, usage_cells
from interlock.compose.interlock import Interlock
from interlock.compose.usage import DAY_MS, CostReport
from interlock.engine.events import Usage
from interlock.engine.to_plain import to_plain

NAME_COLUMNS = 2  # columns that hold names


@click.command()
@click.option("--crew", help="Only runs of this crew.")
@click.option("--days", type=click.FloatRange(min=0), metavar="DAYS", help="Only runs started in the last DAYS.")
@read_option
@json_option
def usage(crew: str | None, days: float | None, data: StoreToRead, as_json: bool) -> None:
    """Show model calls, tokens and cost by crew and agent, highest cost first.

    Every model call counts once, also failed ones; a fork counts from its first new event. "cached" is the part of the
    tokens in that providers read from their caches, "saved" what caching saved at the prices of the time.
    """

    async def read_usage(box: Interlock) -> CostReport:
        since = box.clock.now_ms() - int(days * DAY_MS) if days is not None else 0
        return await box.usage(crew=crew, since_ms=since)

    spent = with_read_only(data, read_usage)
    if as_json:
        click.echo(msgspec.json.encode(to_plain(spent)).decode())
    elif not spent.crews:
        click.echo("no matching runs")
    else:
        _print_usage(spent)
    for run in spent.unread:
        click.echo(f"interlock: run {safe_line(run)} is damaged and not counted; see 'interlock doctor'", err=True)


def _print_usage(spent: CostReport) -> None:
    rows = [("crew", "agent", "runs", *USAGE_HEADS, "saved")]
    for crew in spent.crews:
        whole = crew.savings if crew.savings_by_agent else None
        rows.append((safe_line(crew.crew), "", f"{crew.runs:,}", *usage_cells(crew.usage), savings_text(whole)))
        for agent, used in crew.agents.items():
            of_agent = savings_text(crew.savings_by_agent.get(agent))
            rows.append(("", safe_line(agent), "", *usage_cells(used), of_agent))
    if len(spent.crews) > 1:
        whole = spent.savings if any(crew.savings_by_agent for crew in spent.crews) else None
        rows.append(("all", "", f"{spent.runs:,}", *usage_cells(spent.usage), savings_text(whole)))
    for n, line in enumerate(align_columns(rows, NAME_COLUMNS)):
        click.secho(line, dim=n == 0)


def print_run_usage(whole: Usage, agents: dict[str, Usage]) -> None:
    """Print the usage of one run, by agent."""
    rows = [("agent", *USAGE_HEADS), *((safe_line(agent), *usage_cells(used)) for agent, used in agents.items())]
    if len(agents) > 1:
        rows.append(("all", *usage_cells(whole)))
    for n, line in enumerate(align_columns(rows, 1)):
        click.secho(line, dim=n == 0)
