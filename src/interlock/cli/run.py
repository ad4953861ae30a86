"""`interlock run` and `interlock resume`: a crew at work, in the terminal or as one JSON object a line."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from interlock.adapters.host_file import HostSettings
from interlock.adapters.host_secrets import host_secrets
from interlock.adapters.log_settings import LogSettings
from interlock.adapters.logging_setup import NOTHING, LogChoice, LogDefaults, logging_to
from interlock.adapters.run_log import RunLog
from interlock.cli.answering import Asker, HandIn
from interlock.cli.crews import config_option, crew_argument, open_sound_crew, shown
from interlock.cli.hints import answer_lines
from interlock.cli.log_options import log_options
from interlock.cli.looking import with_look
from interlock.cli.narration import Narrator
from interlock.cli.progress import Progress, Question
from interlock.cli.terminal import asked, can_ask, can_show_live, held_back, quiet_keys, read_input
from interlock.cli.transcript import Line, lines_of
from interlock.cli.user import system_user
from interlock.compose.box import DATA_FOLDER, Interlock, Result, RunHandle
from interlock.compose.crews import HOST_FILE, host_settings
from interlock.compose.models import with_model
from interlock.compose.run_ids import whole_id
from interlock.engine.approving import APPROVAL
from interlock.engine.parking import PARKED
from interlock.engine.questions import QUESTION
from interlock.errors import InterlockError, TooLate, UsageError
from interlock.ids import root_of
from interlock.signals.registry import SignalRegistry

Show = Callable[[dict[str, Any]], None]
Ask = Callable[[Interlock], Awaitable[RunHandle]]

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
@click.argument("text", metavar="[INPUT|-]", required=False)
@script_option
@click.option(
    "--model",
    metavar="M",
    help="Who answers for every agent instead of its own model: openai:NAME, ollama:NAME, scripted:FILE, …",
)
@click.option("--continue", "continues", metavar="RUN", help="Start from the history of a finished run.")
@data_option
@json_option
@plain_option
@log_options
def run(
    crew: str,
    config: str | None,
    text: str | None,
    script: str | None,
    model: str | None,
    continues: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Run CREW on INPUT, which is asked for on a terminal. Exit code 0: completed, 3: paused, 1: anything else."""
    answers = script_of(script, model)
    host = host_settings(config)
    definition = open_sound_crew(crew, config)
    if model is not None and answers is None:
        definition = with_model(definition, model, host.provider_settings)
    given = given_text(text) if text is not None else ask_for_input(crew)

    async def begin(box: Interlock) -> RunHandle:
        by = system_user()
        if continues:
            return await box.continue_run(definition, given, await whole_id(box.journal, continues), by=by)
        return await box.start(definition, given, by=by)

    drive(logged_box(data, host, answers), begin, for_people(as_json, plain), host.log, log)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--token", metavar="T", help="Which wait to answer, if there are several.")
@click.option("--input", "text", metavar="TEXT|-", default="", help="The answer; - reads standard input.")
@config_option
@script_option
@data_option
@json_option
@plain_option
@log_options
def resume(
    run_id: str,
    token: str | None,
    text: str,
    config: str | None,
    script: str | None,
    data: str,
    as_json: bool,
    plain: bool,
    log: LogChoice,
) -> None:
    """Answer what RUN waits for, or continue it if it is parked or the process that ran it is gone."""
    given = given_text(text)

    async def again(box: Interlock) -> RunHandle:
        whole = await whole_id(box.journal, run_id)
        which = await whole_id(box.journal, token) if token is not None else None
        await box.resume(whole, given, token=which, by=system_user())
        return RunHandle(box, root_of(whole))  # a child goes on with whoever called it

    host = host_settings(config)
    drive(logged_box(data, host, script), again, for_people(as_json, plain), host.log, log, only_new=True)


def logged_box(data: str, host: HostSettings, script: str | None, *, recover: bool = False) -> Interlock:
    """A host whose runs are logged."""

    def registry_of(run: str) -> SignalRegistry | None:
        return box.registry_of_run(run)

    box = Interlock(data, host=host, script=script, recover=recover, observers=[RunLog(registry_of)])
    return box


def given_text(text: str) -> str:
    """The text itself, or what standard input holds if it is '-'."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise UsageError("standard input is closed; give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error}") from error


def ask_for_input(crew: str) -> str:
    """What the person at the terminal types; `UsageError` where nobody sits, or nothing is typed."""
    text = read_input() if can_ask() else ""
    if not text.strip():
        raise UsageError(f"what shall {crew} work on? Write: interlock run {shlex.quote(crew)} 'INPUT', or - for stdin")
    return text


class Display(StrEnum):
    """How a run is shown."""

    JSON = "json"
    PLAIN = "plain"
    LIVE = "live"


def for_people(as_json: bool, plain: bool) -> Display:
    """A view where one can be shown, lines where people read and it cannot, objects where programs do."""
    if plain or (not as_json and sys.stdout is not None and sys.stdout.isatty()):
        return Display.LIVE if not plain and can_show_live() else Display.PLAIN
    return Display.JSON


def script_of(script: str | None, model: str | None) -> str | None:
    """The file that answers for every agent, however it was named; None where models do."""
    if model is None:
        return script
    if script is not None:
        raise UsageError("--script and --model both say who answers; give one of them")
    provider, _, file = model.partition(":")
    return file if provider == "scripted" and file else None


def drive(
    box: Interlock, ask: Ask, display: Display, settings: LogSettings, log: LogChoice, *, only_new: bool = False
) -> None:
    """Shows a run while it goes on, lets a person answer it, says how it stands, and exits with its code.

    `only_new` leaves out what happened before, where people read.
    """
    defaults = LogDefaults("warning", "brief", "warning" if display is Display.JSON else NOTHING)
    with logging_to(box.data, box.known_keys(), settings, log, defaults):
        result = _driven(box, ask, display, only_new)
    sys.stdout.flush()
    sys.exit(EXIT_CODES.get(result.status, 1))


def _driven(box: Interlock, ask: Ask, display: Display, only_new: bool) -> Result:
    progress = Progress(box.clock.now_ms())
    progress.shows_from_ms = progress.watched_ms if only_new and display is not Display.JSON else 0
    asker = Asker(progress) if display is not Display.JSON and can_ask() else None
    result = asyncio.run(watched(box, ask, display, progress, asker))
    while asker is not None and _rests_for_a_person(result) and (question := asker.next()) is not None:
        is_shown = display is Display.PLAIN and asker.question is not None and asker.question.token == question.token
        text = asked(question, lambda: _goes_on_elsewhere(box, progress), is_shown=is_shown)
        if text == "":
            break
        if text is None:
            click.echo(f"what {shown(question.agent)} asked was answered elsewhere, or too late")
        go_on = _following(progress.run) if text is None else _answering(question, progress.run, text)
        result = asyncio.run(watched(box, go_on, display, progress, asker))
    if display is not Display.JSON:
        _say_how_it_stands(box, result, progress, display)
    elif result.reason == PARKED:
        again = f"'interlock resume {result.run}{_options_of(box)}' continues it"
        click.echo(f"interlock: run {result.run} is parked: what was done is kept, and {again}", err=True)
    return result


def _rests_for_a_person(result: Result) -> bool:
    """Whether an answer continues the run: who stopped it does not want to be asked now."""
    return result.status == "paused" and result.reason != PARKED


def _goes_on_elsewhere(box: Interlock, progress: Progress) -> bool:
    """Whether more is in the journal than was seen here: somebody else has answered."""
    return with_look(str(box.data), lambda look: look.journal.row(progress.run)).seq > progress.seq


def _following(run: str) -> Ask:
    async def follow(box: Interlock) -> RunHandle:
        return RunHandle(box, run)

    return follow


def _answering(question: Question, run: str, text: str) -> Ask:
    async def answer(box: Interlock) -> RunHandle:
        return await box.resume(run, text, token=question.token, by=system_user())

    return answer


def _say_how_it_stands(box: Interlock, result: Result, progress: Progress, display: Display) -> None:
    color = "green" if result.status == "completed" else "yellow"
    click.secho(f"run {result.run} {result.status}: {result.reason}", fg=color, bold=True)
    if result.detail and display is not Display.PLAIN:  # there the line of the limit has said it
        click.echo(f"  {shown(result.detail)}")
    if result.reason == PARKED:
        _say_how_to_continue(box, result, progress)
    elif result.status == "paused":
        if result.reason in (QUESTION, APPROVAL):
            first, *more = result.text.splitlines() or [""]
            context = [f"context: {' '.join(result.context.split())}"] if result.context else []
            for line in (f"asked: {first}", *(f"       {line}" for line in more), *context):
                click.echo(shown(line))
        if result.reason.startswith("held:") and result.token in progress.questions:
            for line in progress.questions[result.token].text.splitlines():
                click.echo(f"  {shown(line)}")
        _say_how_to_answer(box, result, progress)


def _say_how_to_answer(box: Interlock, result: Result, progress: Progress) -> None:
    token = f" --token {result.token}" if len(progress.questions) > 1 else ""
    command = f"interlock resume {result.run}{token}{_options_of(box)} --input"
    asked_by = progress.questions.get(result.token)
    agent, expects = (asked_by.agent, asked_by.expects) if asked_by is not None else ("the agent", "")
    for line in answer_lines(command, result.reason, agent, expects):
        click.echo(shown(line))


def _say_how_to_continue(box: Interlock, result: Result, progress: Progress) -> None:
    click.echo(f"continue with: interlock resume {result.run}{_options_of(box)}")
    for token in progress.questions:
        click.echo(f"answer with: interlock runs answer {token}{_options_of(box)} TEXT")


def _options_of(box: Interlock) -> str:
    """The options that a command needs to find these runs and their host's file again."""
    data = f" --data {shlex.quote(str(box.data))}" if box.data != Path(DATA_FOLDER) else ""
    file = box.host_file
    return data + (f" --config {shlex.quote(str(file))}" if file is not None and file != Path(HOST_FILE) else "")


def with_box(data: str, ask: Callable[[Interlock], Awaitable[T]], config: str | None = None) -> T:
    """What a command asks of the data folder, and no more; of the host's file durability and secrets count."""
    settings = host_settings(config)

    async def asked_of() -> T:
        async with Interlock(data, durability=settings.durability) as box:
            box.known_keys().add(*(secret.value for secret in host_secrets(settings, os.environ)))
            return await ask(box)

    return asyncio.run(asked_of())


async def watched(box: Interlock, ask: Ask, display: Display, progress: Progress, asker: Asker | None = None) -> Result:
    """Shows a run while it goes on, and gives how it stands afterwards. A signal parks it, a second one ends."""
    stop = _Stop(box)
    work = asyncio.ensure_future(_watched(box, ask, display, progress, asker, stop))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask, work)
    try:
        return await work
    except asyncio.CancelledError:
        again = f"'interlock resume {progress.run or 'RUN'}{_options_of(box)}' goes on"
        open_ = [f"'interlock runs answer {token}{_options_of(box)} TEXT'" for token in progress.questions]
        how = f"; {' and '.join(open_)} answers what is asked" if open_ else ""
        raise Parked(f"stopped; what was done is kept{how}, and {again}") from None


class Parked(InterlockError):
    """The process was asked to stop while a run was under way."""

    code = "parked"


class _Stop:
    """Signals that end a command: the first parks its run, the second ends at once."""

    def __init__(self, box: Interlock) -> None:
        self._box = box
        self.run = ""  # once there is one
        self._parking: asyncio.Task[None] | None = None

    def ask(self, work: "asyncio.Future[Result]") -> None:
        if self.run and self._parking is None:
            self._parking = asyncio.ensure_future(self._park(work))
        else:
            if self.is_asked:
                self._box.leave_at_once()
            work.cancel()

    @property
    def is_asked(self) -> bool:
        return self._parking is not None

    async def _park(self, work: "asyncio.Future[Result]") -> None:
        """What rests already is left as it is, and nobody waits for it."""
        if not await self._box.park(self.run):
            work.cancel()


async def _watched(
    box: Interlock, ask: Ask, display: Display, progress: Progress, asker: Asker | None, stop: _Stop
) -> Result:
    async with box:
        handle = await _asked_for(box, ask)
        stop.run = handle.id
        narrator = await _narrator(box, handle.id)
        async with _shown(box, handle.id, display, progress, asker) as show:
            goes_on = True
            while goes_on:
                async for event in handle.events(progress.seq):
                    told = narrator.tell(event)
                    progress.take(told)
                    if display is Display.JSON or progress.is_new(event):
                        show(event if display is Display.JSON else told)
                may_type = display is Display.LIVE and asker is not None and not stop.is_asked
                goes_on = may_type and asker is not None and await asker.is_finished_typing(box.clock)
        return await handle.result()


async def _narrator(box: Interlock, run: str) -> Narrator:
    return Narrator(await box.crew_of(await box.journal.row(run)), box.model_name)


async def follow_run(box: Interlock, run: str, display: Display) -> str:
    """Shows a run that others may drive, until it is over or paused; gives how it stands then."""
    progress, narrator = Progress(box.clock.now_ms()), await _narrator(box, run)
    view = _live(box, run, progress) if display is Display.LIVE else _shown(box, run, display, progress, None)
    async with view as show:
        async for event in RunHandle(box, run).events():
            told = narrator.tell(event)
            progress.take(told)
            show(event if display is Display.JSON else told)
    result = await box.result(run)
    if display is not Display.JSON:
        _say_how_it_stands(box, result, progress, display)
    return result.status


async def _asked_for(box: Interlock, ask: Ask) -> RunHandle:
    try:
        return await ask(box)
    except TooLate as late:
        click.echo(f"interlock: {shown(str(late))}", err=True)
        return RunHandle(box, root_of(late.run))
    except asyncio.CancelledError:
        await box.park_all()  # it may have begun
        raise


@asynccontextmanager
async def _shown(
    box: Interlock, run: str, display: Display, progress: Progress, asker: Asker | None
) -> AsyncIterator[Show]:
    if asker is None:
        yield show_json if display is Display.JSON else show_person
        return
    hand_in = _hand_in(box, run)
    if display is Display.LIVE:
        async with _live(box, run, progress, asker) as show, asker.asking(hand_in, in_view=True):
            yield _followed_by(show, asker.look)
    else:
        held: list[dict[str, Any]] = []
        async with asker.asking(hand_in, in_view=False):
            yield _followed_by(lambda event: _show_around(asker, held, event), asker.look)
        for event in held:
            show_person(event)


def _hand_in(box: Interlock, run: str) -> HandIn:
    async def hand_in(token: str, text: str) -> None:
        await box.resume(run, text, token=token, by=system_user())

    return hand_in


def _followed_by(show: Show, look: Callable[[], None]) -> Show:
    def both(event: dict[str, Any]) -> None:
        show(event)
        look()

    return both


def _show_around(asker: Asker, held: list[dict[str, Any]], event: dict[str, Any]) -> None:
    """Lines would stand in the middle of what a person types, so they come when that is done."""
    held.append(event)
    while held and asker.question is None:
        show_person(held.pop(0))


@asynccontextmanager
async def _live(box: Interlock, run: str, progress: Progress, asker: Asker | None = None) -> AsyncIterator[Show]:
    """The view while the block lasts; then, whatever ended it, all that was said and logged meanwhile."""
    from interlock.cli.live_view import live_view

    crew = await box.crew_of(await box.journal.row(run))
    left: list[Line] = []
    try:
        async with live_view(crew, progress, box.clock, asker):
            with quiet_keys(), held_back(left):
                yield lambda event: left.extend(lines_of(event))
    finally:
        print_lines(left)


def show_json(event: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(event).decode())


def show_person(event: dict[str, Any]) -> None:
    print_lines(lines_of(event))


def print_lines(lines: Iterable[Line]) -> None:
    for line in lines:
        bold, dim = line.kind == "speaker" or None, line.kind == "note" or None
        click.secho(line.text, err=line.kind == "log", bold=bold, dim=dim)
