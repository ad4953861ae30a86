"""`interlock runs`: what ran, how it stands, and why it went as it did."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from interlock.cli.asking import answer, questions
from interlock.cli.columns import cost
from interlock.cli.crews import shown
from interlock.cli.keeping import delete, export, fork, import_, prune, script
from interlock.cli.letters import mermaid, transcript, waiting
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, json_option, with_box
from interlock.cli.usage import tell_of_run, usage
from interlock.compose.box import Interlock, Result
from interlock.compose.questions import Waiting, waits_of
from interlock.engine.events import (
    BranchFinished,
    ChildrenSelected,
    Decided,
    Event,
    GroupJoined,
    LimitReached,
    MessageSent,
    MessageSettled,
    ModelCalled,
    ModelFailed,
    Nudged,
    ReportChecked,
    RunFinished,
    RunPaused,
    SignalRejected,
)
from interlock.engine.in_full import in_full
from interlock.engine.state import RunState
from interlock.engine.step import OVER
from interlock.errors import UsageError
from interlock.ports import Record


@click.group()
def runs() -> None:
    """What ran, how it stands, and why."""


for command in (answer, delete, export, fork, import_, prune, questions, script, usage):
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
@click.option("--messages", is_flag=True, help="What its agents and people said to each other, message by message.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="The messages as a sequence diagram.")
@data_option
@json_option
def show(run_id: str, messages: bool, as_mermaid: bool, data: str, as_json: bool) -> None:
    """How RUN stands, what was said, and what each agent has cost."""
    if messages or as_mermaid:
        _show_messages(run_id, data, as_mermaid, as_json)
        return

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

    async def told(box: Interlock) -> tuple[Sequence[Record], list[Waiting]]:
        records, row = await box.journal.records(run_id), await box.journal.row(run_id)
        is_over = row.status in OVER
        return records, [] if is_over else waits_of(await box.state(run_id), records, row.crew)

    records, waits = with_look(data, told)
    for record in records:
        for n, event in enumerate(record.events):
            line = _reason(event)
            if line:
                click.echo(f"{record.seq + n:>5}  {shown(line)}")
    for wait in waits:
        click.echo(f"  now  {shown(waiting(wait))}")


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


def _show_messages(run_id: str, data: str, as_mermaid: bool, as_json: bool) -> None:
    if as_json and as_mermaid:
        raise UsageError("--mermaid prints a diagram; take --json or --mermaid away")
    records = with_look(data, lambda box: box.journal.records(run_id))
    if as_json:
        sent = [event for record in records for event in record.events if isinstance(event, MessageSent)]
        lines = [msgspec.json.encode(event.message).decode() for event in sent if not event.attempt]
    else:
        lines = list(mermaid(records) if as_mermaid else transcript(records))
    for line in lines or [f"{run_id} has no messages"]:
        click.echo(line)


def _reason(event: Event) -> str:
    match event:
        case Decided():
            return _decision(event)
        case SignalRejected():
            return f"{event.agent} said {event.mark}, which does not steer: {event.reason}"
        case ModelCalled() | ModelFailed():
            return _call(event)
        case Nudged():
            return f"{event.agent} is asked again, because of {event.because}"
        case ChildrenSelected() | ReportChecked() | MessageSettled():
            return _mail(event)
        case BranchFinished() | GroupJoined():
            return _group(event)
        case LimitReached():
            return f"bound reached: {event.limit}"
        case RunPaused():
            return f"paused at {event.agent}: {event.reason}"
        case RunFinished():
            return f"{event.status}: {event.reason}"
        case _:
            return ""


def _group(event: BranchFinished | GroupJoined) -> str:
    if isinstance(event, BranchFinished):
        return f"branch of {event.agent} is {event.status} {event.error}".rstrip()
    return f"group {event.group} joins, and goes on at {event.next or 'its end'}"


def _mail(event: ChildrenSelected | ReportChecked | MessageSettled) -> str:
    """What was decided about tasks and reports, and what went wrong with a message."""
    match event:
        case ChildrenSelected():
            return f"{event.agent} needs {', '.join(event.children) or 'nobody'}, because of {event.because}"
        case ReportChecked():
            verdict = "accepted" if event.ok else "not accepted"
            return f"report {event.message_id.rpartition(':')[2]} is {verdict} by {event.by}: {event.reason}"
        case MessageSettled(outcome="answered"):
            return ""
        case MessageSettled():
            what = f"message {event.message_id.rpartition(':')[2]} is {event.outcome}"
            return f"{what} ({event.code}): {event.because}" if event.code else f"{what}: {event.because}"


def _call(event: ModelCalled | ModelFailed) -> str:
    if isinstance(event, ModelFailed):
        return f"{event.agent} got no reply: {event.error}"
    return f"{event.agent} asks its backup {event.model}" if event.model else ""


def _decision(event: Decided) -> str:
    marks = ", ".join(f"{c.signal} ({c.method}, priority {c.priority}) {c.outcome}" for c in event.candidates)
    what = f"{event.verb} {event.target}".strip() if event.verb else "nothing moves"
    return f"{event.agent}: {what}, because of {event.signal or event.because}" + (f"; marks: {marks}" if marks else "")
