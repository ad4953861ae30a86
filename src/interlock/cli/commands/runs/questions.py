"""`interlock runs questions` and `interlock runs answer`: questions to people."""

import click
import msgspec

from interlock.adapters.log.log_setup import LogChoice
from interlock.cli.crew_argument import config_option, python_crew_option, safe_line, tools_of_python_crew
from interlock.cli.drive_run import drive_run
from interlock.cli.log_options import log_options
from interlock.cli.open_host import interlock_with_log
from interlock.cli.options import data_option, json_option, model_option, plain_option, script_option, text_or_stdin
from interlock.cli.read_only import with_read_only
from interlock.cli.system_user import system_user
from interlock.cli.view.answer_hints import answer_hint, approval_text
from interlock.cli.view.message_transcript import utc_text
from interlock.cli.view.run_display import display_of
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock, RunHandle
from interlock.compose.questions import open_questions
from interlock.compose.run_ids import resolve_run_id
from interlock.engine.to_plain import to_plain
from interlock.ports import OpenQuestion


@click.command()
@data_option
@json_option
def questions(data: str, as_json: bool) -> None:
    """List the open questions of all runs, oldest first."""
    found, unreadable = with_read_only(data, lambda box: open_questions(box.store, box.crew_of))
    for aside in unreadable:
        click.echo(f"interlock: skipped run {safe_line(aside.run)}: {safe_line(aside.reason)}", err=True)
    if as_json:
        for question in found:
            click.echo(msgspec.json.encode(to_plain(question)).decode())
        return
    for question in found:
        _print_question(question)
    if not found:
        click.echo("no open questions")


def _print_question(question: OpenQuestion) -> None:
    until = f", until {utc_text(question.until)}" if question.until else ""
    head = (
        f"{question.id}  {question.agent} ({question.crew}) asks, since {utc_text(question.since)} ({question.reason})"
    )
    click.secho(safe_line(f"{head}{until}"), bold=True)
    for line in approval_text(question.question).splitlines():
        click.echo(f"  {safe_line(line)}")
    if question.context:
        click.echo(f"  context: {safe_line(' '.join(question.context.split()))}")
    if question.expects:
        click.echo(f"  answer with {safe_line(question.expects)}")
    else:
        click.echo(f"  answer with {safe_line(answer_hint(question.reason, question.agent))}")


@click.command()
@click.argument("question", metavar="QUESTION")
@click.argument("text", metavar="ANSWER|-")
@python_crew_option
@config_option
@script_option
@model_option
@data_option
@json_option
@plain_option
@log_options
def answer(
    question: str,
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
    """Answer QUESTION, an id from 'runs questions', and continue its run. Only the first answer counts."""
    given = text_or_stdin(text)

    async def answer_question(box: Interlock) -> RunHandle:
        whole = await resolve_run_id(box.journal, question) if ":" in question else question
        return await box.answer(whole, given, by=system_user())

    host = host_settings(config)
    box = interlock_with_log(data, host, script, model, tools=tools_of_python_crew(crew, config))
    drive_run(box, answer_question, display_of(as_json, plain), host.log, log, python_crew=crew)
