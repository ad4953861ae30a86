"""`interlock runs questions` and `interlock runs answer`: what people are asked, and what they say."""

import click
import msgspec

from interlock.adapters.logging_setup import LogChoice
from interlock.cli.crews import config_option, shown
from interlock.cli.hints import accepted_answer
from interlock.cli.letters import moment
from interlock.cli.log_options import log_options
from interlock.cli.looking import with_look
from interlock.cli.run import (
    data_option,
    drive,
    for_people,
    given_text,
    json_option,
    logged_box,
    plain_option,
    script_option,
)
from interlock.cli.user import system_user
from interlock.compose.box import Interlock, RunHandle
from interlock.compose.crews import host_settings
from interlock.compose.questions import open_questions
from interlock.compose.run_ids import whole_id
from interlock.engine.in_full import in_full
from interlock.ports import OpenQuestion


@click.command()
@data_option
@json_option
def questions(data: str, as_json: bool) -> None:
    """Everything that a person is asked, in all runs, the oldest first."""
    found, unreadable = with_look(data, lambda box: open_questions(box.store, box.crew_of))
    for aside in unreadable:
        click.echo(f"interlock: run {shown(aside.run)} is left out: {shown(aside.reason)}", err=True)
    if as_json:
        for question in found:
            click.echo(msgspec.json.encode(in_full(question)).decode())
        return
    for question in found:
        _show(question)
    if not found:
        click.echo("nobody is asked anything")


def _show(question: OpenQuestion) -> None:
    until = f", until {moment(question.until)}" if question.until else ""
    head = f"{question.id}  {question.agent} of {question.crew} asks ({question.reason}) since {moment(question.since)}"
    click.secho(shown(f"{head}{until}"), bold=True)
    for line in question.question.splitlines():
        click.echo(f"  {shown(line)}")
    if question.context:
        click.echo(f"  context: {shown(' '.join(question.context.split()))}")
    if question.expects:
        click.echo(f"  answer with {shown(question.expects)}")
    else:
        click.echo(f"  answer with {shown(accepted_answer(question.reason, question.agent))}")


@click.command()
@click.argument("question", metavar="QUESTION")
@click.argument("text", metavar="ANSWER|-")
@config_option
@script_option
@data_option
@json_option
@plain_option
@log_options
def answer(
    question: str,
    text: str,
    config: str | None,
    script: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Answer QUESTION, as 'runs questions' names it, and go on with its run. One answer counts."""
    given = given_text(text)

    async def answered(box: Interlock) -> RunHandle:
        whole = await whole_id(box.journal, question) if ":" in question else question
        return await box.answer(whole, given, by=system_user())

    host = host_settings(config)
    drive(logged_box(data, host, script), answered, for_people(as_json, plain), host.log, log)
