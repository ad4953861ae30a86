"""`interlock runs`: what ran, how it stands, and why it went as it did."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from interlock.cli.asking import answer, questions
from interlock.cli.columns import cost
from interlock.cli.crews import shown
from interlock.cli.following import follow
from interlock.cli.keeping import delete, export, fork, import_, prune, script
from interlock.cli.letters import mermaid, transcript, waiting, ways_of, wires
from interlock.cli.looking import with_look
from interlock.cli.reasons import reason_lines
from interlock.cli.run import data_option, json_option, print_lines, with_box
from interlock.cli.run_tree import in_values, open_waits, run_lines, said_lines, tell_usage
from interlock.cli.transcript import STEP
from interlock.cli.usage import tell_of_run, usage
from interlock.cli.user import system_user
from interlock.compose.box import Interlock, Result
from interlock.compose.questions import waits_of
from interlock.compose.run_ids import whole_id
from interlock.compose.trees import Tree, in_order, tree_of
from interlock.engine.events import Usage
from interlock.engine.in_full import in_full
from interlock.engine.parking import PARKED, SET_ASIDE
from interlock.engine.state import RunState
from interlock.engine.step import OVER
from interlock.errors import UsageError
from interlock.ids import CHILD_MARK, parent_of, root_of
from interlock.ports import RunRow, StoredRecord


@click.group()
def runs() -> None:
    """What ran, how it stands, and why."""


for command in (answer, delete, export, follow, fork, import_, prune, questions, script, usage):
    runs.add_command(command)


@runs.command("list")
@click.option("--status", type=click.Choice(("running", "paused", *OVER)), help="Only runs that stand so.")
@click.option("--crew", help="Only runs of this crew.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--all", "with_children", is_flag=True, help="Also runs of crews that were called, below their callers.")
@data_option
@json_option
def list_runs(status: str | None, crew: str | None, limit: int, with_children: bool, data: str, as_json: bool) -> None:
    """The newest runs first, with what each has cost; those of crews that were called are part of their callers'."""

    async def asked(box: Interlock) -> list[RunRow]:
        rows = await box.journal.rows(status=status, crew=crew, limit=limit, nested=False)
        return await _with_children(box, rows) if with_children else list(rows)

    rows = with_look(data, asked)
    if as_json:
        for row in rows:
            click.echo(msgspec.json.encode(in_full(row)).decode())
        return
    for row in rows:
        when = datetime.fromtimestamp(row.updated_at / 1000, UTC)
        origin = f"  from {row.continues}" if row.continues else ""
        what = f"{row.status:<9}  {cost(row.usage):>8}  {shown(row.crew)}  {shown(row.reason)}{shown(origin)}"
        click.echo(f"{STEP * row.run.count(CHILD_MARK)}{row.run}  {when:%Y-%m-%d %H:%M:%S}  {what}".rstrip())
    if not rows:
        click.echo(_why_no_runs(status, crew))


def _why_no_runs(status: str | None, crew: str | None) -> str:
    filters = {"--status": status, "--crew": crew}
    given = [f"{option} {shown(value)}" for option, value in filters.items() if value is not None]
    if not given:
        return "no runs yet; 'interlock run CREW INPUT' makes one"
    return f"no runs match {' '.join(given)}; 'interlock runs list' shows all"


async def _with_children(box: Interlock, rows: Sequence[RunRow]) -> list[RunRow]:
    return [each for row in rows for each in in_order([row, *await box.journal.below(row.run)])]


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--messages", is_flag=True, help="What its agents and people said to each other, message by message.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="The messages as a sequence diagram.")
@data_option
@json_option
def show(run_id: str, messages: bool, as_mermaid: bool, data: str, as_json: bool) -> None:
    """How RUN stands, what was said, and what each agent has cost; with the runs of crews that it called."""
    if messages or as_mermaid:
        _show_messages(run_id, data, as_mermaid, as_json)
        return

    async def told(box: Interlock) -> tuple[Result, Tree]:
        whole = await whole_id(box.journal, run_id)
        return await box.result(whole), await tree_of(box, whole)

    result, tree = with_look(data, told)
    if as_json:
        click.echo(msgspec.json.encode(in_full(result) | in_values(tree)).decode())
        return
    _tell_how_it_stands(result.run, result)
    for line in tree.members[0].people:
        click.echo(f"  {shown(line)}")
    called = len(tree.members) > 1
    for line in run_lines(tree) if called else ():
        click.echo(line)
    print_lines(said_lines(tree))
    for line in (*(wait.line for wait in open_waits(tree)), *_ways_on(result)):
        click.echo(line)
    if called or tree.members[0].elsewhere != Usage():
        tell_usage(tree)
    elif result.usage_by_agent:
        tell_of_run(result.usage, result.usage_by_agent)


def _tell_how_it_stands(run_id: str, result: Result) -> None:
    click.secho(f"{run_id} {result.status}: {result.reason}", bold=True)
    if result.detail:
        click.echo(f"  {shown(result.detail)}")
    if result.continues:
        click.echo(f"it goes on from {shown(result.continues)}")
    if parent_of(run_id):
        click.echo(f"it was called by {parent_of(run_id)}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def explain(run_id: str, data: str) -> None:
    """Why RUN went as it did: every decision with its reasons, those of crews that it called with their path."""

    async def told(box: Interlock) -> tuple[Sequence[StoredRecord], list[str]]:
        tree = await box.journal.tree(await whole_id(box.journal, run_id))
        return tree, [line for run, way in ways_of(tree).items() for line in await _waits(box, run, way)]

    tree, waits = with_look(data, told)
    for line in (*reason_lines(tree), *(f"  now  {line}" for line in waits)):
        click.echo(shown(line))


async def _waits(box: Interlock, run_id: str, way: tuple[str, ...]) -> list[str]:
    """Who waits for whom in a run, now."""
    records, row = await box.journal.records(run_id), await box.journal.row(run_id)
    if row.status in OVER:
        return []
    waits = [waiting(wait, way) for wait in waits_of(await box.state(run_id), records, row.crew)]
    return [*waits, how_to_continue(run_id, row.reason)] if row.reason in (PARKED, SET_ASIDE) else waits


def _ways_on(result: Result) -> list[str]:
    return [how_to_continue(result.run, result.reason)] if result.reason in (PARKED, SET_ASIDE) else []


def how_to_continue(run_id: str, reason: str) -> str:
    """A child continues with its root."""
    return f"{run_id} is {reason.replace('_', ' ')}: 'interlock resume {root_of(run_id)}' continues it"


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def replay(run_id: str, data: str) -> None:
    """Feed RUN's events to the engine again; what it concludes must be what the journal holds."""

    async def state_of(box: Interlock) -> RunState:
        return await box.state(await whole_id(box.journal, run_id))

    state = with_look(data, state_of)
    click.echo(f"{state.seq} events replayed, the same conclusions; {state.status}: {state.reason}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@data_option
def cancel(run_id: str, data: str) -> None:
    """End RUN now; what it has under way is given up. Whoever called it goes on as after any other failure."""

    async def ask(box: Interlock) -> tuple[str, str, str]:
        whole = await whole_id(box.journal, run_id)
        status = (await (await box.cancel(whole, by=system_user() or "host")).result()).status
        return whole, status, (await box.journal.row(root_of(whole))).status

    whole, status, outermost = with_box(data, ask)
    click.echo(f"{whole} is {status}")
    if parent_of(whole) and outermost == "running":
        click.echo(f"whoever called it goes on with: interlock resume {root_of(whole)}")
    sys.exit(0 if status == "cancelled" else 1)


def _show_messages(run_id: str, data: str, as_mermaid: bool, as_json: bool) -> None:
    if as_json and as_mermaid:
        raise UsageError("--mermaid prints a diagram; take --json or --mermaid away")

    async def tree_of_run(box: Interlock) -> Sequence[StoredRecord]:
        return await box.journal.tree(await whole_id(box.journal, run_id))

    tree = with_look(data, tree_of_run)
    for line in wires(tree) if as_json else mermaid(tree) if as_mermaid else transcript(tree):
        click.echo(line)
