"""`interlock runs questions` and `interlock runs answer`: what people are asked, and what they say."""

import click
import msgspec

from interlock.adapters.text_log import TextLog
from interlock.cli.crews import config_option, shown
from interlock.cli.hints import accepted_answer
from interlock.cli.letters import moment
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, drive, for_people, given_text, json_option, plain_option, script_option
from interlock.compose.box import Interlock, RunHandle
from interlock.compose.crews import host_settings
from interlock.compose.questions import open_questions
from interlock.compose.run_ids import whole_id
from interlock.crew.registry import registry_of_tree
from interlock.engine.in_full import in_full
from interlock.ids import root_of
from interlock.ports import OpenQuestion
from interlock.signals.builtin import load_default_signals


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
def answer(
    question: str, text: str, config: str | None, script: str | None, data: str, as_json: bool, plain: bool
) -> None:
    """Answer QUESTION, as 'runs questions' names it, and go on with its run. One answer counts."""
    given = given_text(text)
    log = TextLog(load_default_signals())

    async def answered(box: Interlock) -> RunHandle:
        handle = await box.answer(await whole_id(box.journal, question) if ":" in question else question, given)
        log.registry = registry_of_tree(await box.crew_of(await box.journal.row(root_of(handle.id))))
        return handle

    box = Interlock(data, host=host_settings(config), script=script, observers=[log])
    drive(box, answered, for_people(as_json, plain))
