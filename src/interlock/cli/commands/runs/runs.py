"""`interlock runs`: list, inspect and manage runs."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from interlock.cli.commands.runs.approvals import approvals
from interlock.cli.commands.runs.archive import delete, export, fork, import_, prune, script
from interlock.cli.commands.runs.follow import follow
from interlock.cli.commands.runs.questions import answer, questions
from interlock.cli.commands.runs.usage import print_run_usage, usage
from interlock.cli.crew_argument import safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option, json_option, model_option, read_option, script_option
from interlock.cli.read_only import StoreToRead, with_read_only
from interlock.cli.system_user import system_user
from interlock.cli.view.columns import cost
from interlock.cli.view.explanation import reason_lines
from interlock.cli.view.message_transcript import mermaid_lines, message_transcript, paths_of, wait_line, wire_lines
from interlock.cli.view.run_display import print_lines
from interlock.cli.view.run_tree import as_values, open_waits, print_tree_usage, run_lines, transcript_lines
from interlock.cli.view.transcript import STEP
from interlock.compose.interlock import Interlock, Result
from interlock.compose.questions import waits_of
from interlock.compose.run_ids import resolve_run_id
from interlock.compose.upkeep.run_trees import Tree, in_order, tree_of
from interlock.engine.events import Usage
from interlock.engine.flow.parking import PARKED, SET_ASIDE
from interlock.engine.run import OVER
from interlock.engine.state import RunState
from interlock.engine.to_plain import to_plain
from interlock.errors import UsageError
from interlock.ids import CHILD_MARK, parent_of, root_of
from interlock.ports import RunRow, StoredRecord


@click.group()
def runs() -> None:
    """List, inspect and manage runs."""


for command in (answer, approvals, delete, export, follow, fork, import_, prune, questions, script, usage):
    runs.add_command(command)


@runs.command("list")
@click.option("--status", type=click.Choice(("running", "paused", *OVER)), help="Only runs with this status.")
@click.option("--crew", help="Only runs of this crew.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Most runs to list.")
@click.option("--all", "with_children", is_flag=True, help="Also list runs of sub-crews, below their callers.")
@read_option
@json_option
def list_runs(
    status: str | None, crew: str | None, limit: int, with_children: bool, data: StoreToRead, as_json: bool
) -> None:
    """List runs, newest first, with their cost. The cost of sub-crews counts for their caller."""

    async def read_rows(box: Interlock) -> list[RunRow]:
        rows = await box.journal.rows(status=status, crew=crew, limit=limit, nested=False)
        return await _with_children(box, rows) if with_children else list(rows)

    rows = with_read_only(data, read_rows)
    if as_json:
        for row in rows:
            click.echo(msgspec.json.encode(to_plain(row)).decode())
        return
    for row in rows:
        when = datetime.fromtimestamp(row.updated_at / 1000, UTC)
        origin = f"  from {row.continues}" if row.continues else ""
        what = (
            f"{row.status:<9}  {cost(row.usage):>8}  {safe_line(row.crew)}  {safe_line(row.reason)}{safe_line(origin)}"
        )
        click.echo(f"{STEP * row.run.count(CHILD_MARK)}{row.run}  {when:%Y-%m-%d %H:%M:%S}  {what}".rstrip())
    if not rows:
        click.echo(_why_no_runs(status, crew))


def _why_no_runs(status: str | None, crew: str | None) -> str:
    filters = {"--status": status, "--crew": crew}
    given = [f"{option} {safe_line(value)}" for option, value in filters.items() if value is not None]
    if not given:
        return "no runs yet; start one with 'interlock run CREW INPUT'"
    return f"no runs match {' '.join(given)}; 'interlock runs list' shows all"


async def _with_children(box: Interlock, rows: Sequence[RunRow]) -> list[RunRow]:
    return [each for row in rows for each in in_order([row, *await box.journal.rows_below(row.run)])]


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--messages", is_flag=True, help="Show the messages between agents and people.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print the messages as a Mermaid sequence diagram.")
@read_option
@json_option
def show(run_id: str, messages: bool, as_mermaid: bool, data: StoreToRead, as_json: bool) -> None:
    """Show the status, transcript and cost of RUN and its sub-crews."""
    if messages or as_mermaid:
        _show_messages(run_id, data, as_mermaid, as_json)
        return

    async def read_run(box: Interlock) -> tuple[Result, Tree, bool]:
        whole = await resolve_run_id(box.journal, run_id)
        return await box.result(whole), await tree_of(box, whole), await _lacks_its_process(box, root_of(whole))

    result, tree, is_left = with_read_only(data, read_run)
    if as_json:
        click.echo(msgspec.json.encode(to_plain(result) | as_values(tree)).decode())
        return
    _print_status(result.run, result)
    for line in tree.members[0].people:
        click.echo(f"  {safe_line(line)}")
    called = len(tree.members) > 1
    for line in run_lines(tree) if called else ():
        click.echo(line)
    print_lines(transcript_lines(tree))
    for line in (*(wait.line for wait in open_waits(tree)), *_continue_lines(result, is_left)):
        click.echo(line)
    if called or tree.members[0].elsewhere != Usage():
        print_tree_usage(tree)
    elif result.usage_by_agent:
        print_run_usage(result.usage, result.usage_by_agent)


def _print_status(run_id: str, result: Result) -> None:
    click.secho(f"{run_id} {result.status}: {result.reason}", bold=True)
    if result.detail:
        click.echo(f"  {safe_line(result.detail)}")
    if result.continues:
        click.echo(f"continues {safe_line(result.continues)}")
    if parent_of(run_id):
        click.echo(f"called by {parent_of(run_id)}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@read_option
def explain(run_id: str, data: StoreToRead) -> None:
    """Explain every decision of RUN and its sub-crews."""

    async def read_tree(box: Interlock) -> tuple[Sequence[StoredRecord], list[str]]:
        tree = await box.journal.tree(await resolve_run_id(box.journal, run_id))
        return tree, [line for run, path in paths_of(tree).items() for line in await _wait_lines(box, run, path)]

    tree, waits = with_read_only(data, read_tree)
    for line in (*reason_lines(tree), *(f"  now  {line}" for line in waits)):
        click.echo(safe_line(line))


async def _wait_lines(box: Interlock, run_id: str, path: tuple[str, ...]) -> list[str]:
    """The current waits of a run."""
    records, row = await box.journal.records(run_id), await box.journal.row(run_id)
    if row.status in OVER:
        return []
    waits = [wait_line(wait, path) for wait in waits_of(await box.state(run_id), records, row.crew)]
    return [*waits, continue_hint(run_id, row.reason)] if row.reason in (PARKED, SET_ASIDE) else waits


async def _lacks_its_process(box: Interlock, root: str) -> bool:
    """Whether a run waits for no worker, because it is private, and its process has ended."""
    row = await box.journal.row(root)
    return row.private and row.status == "running" and not await box.owners.is_owned(root)


def _continue_lines(result: Result, is_left: bool) -> list[str]:
    if is_left:
        only = f"only 'interlock resume {root_of(result.run)}' continues it"
        return [f"{result.run} is private, so no worker takes it, and its process has ended: {only}"]
    return [continue_hint(result.run, result.reason)] if result.reason in (PARKED, SET_ASIDE) else []


def continue_hint(run_id: str, reason: str) -> str:
    """A hint how to continue; a child run continues with its root."""
    return f"{run_id} is {reason.replace('_', ' ')}: 'interlock resume {root_of(run_id)}' continues it"


@runs.command()
@click.argument("run_id", metavar="RUN")
@read_option
def replay(run_id: str, data: StoreToRead) -> None:
    """Replay RUN's events through the engine, and check that it makes the same decisions."""

    async def read_state(box: Interlock) -> RunState:
        return await box.state(await resolve_run_id(box.journal, run_id))

    state = with_read_only(data, read_state)
    click.echo(f"{state.seq} events replayed, the same decisions; {state.status}: {state.reason}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@script_option
@model_option
@data_option
def cancel(run_id: str, script: str | None, model: str | None, data: str) -> None:
    """Cancel RUN now, and stop its calls in progress. Its caller handles this like any other failure.

    The caller of a sub-crew continues: give the --script or --model that its run began with.
    """

    async def cancel_by_id(box: Interlock) -> tuple[str, str, str]:
        whole = await resolve_run_id(box.journal, run_id)
        status = (await (await box.cancel(whole, by=system_user() or "host")).result()).status
        return whole, status, (await box.journal.row(root_of(whole))).status

    whole, status, outermost = with_interlock(data, cancel_by_id, script=script, model=model)
    click.echo(f"{whole} is {status}")
    if parent_of(whole) and outermost == "running":
        click.echo(f"continue its caller: interlock resume {root_of(whole)}")
    sys.exit(0 if status == "cancelled" else 1)


def _show_messages(run_id: str, data: StoreToRead, as_mermaid: bool, as_json: bool) -> None:
    if as_json and as_mermaid:
        raise UsageError("--mermaid and --json exclude each other; give one of them")

    async def tree_of_run(box: Interlock) -> Sequence[StoredRecord]:
        return await box.journal.tree(await resolve_run_id(box.journal, run_id))

    tree = with_read_only(data, tree_of_run)
    for line in wire_lines(tree) if as_json else mermaid_lines(tree) if as_mermaid else message_transcript(tree):
        click.echo(line)
