"""Drive or follow a run, show it, and let a person answer it."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import click

from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.log.log_setup import NOTHING, LogChoice, LogDefaults, send_logs_to
from interlock.cli.crew_argument import safe_line
from interlock.cli.read_only import with_read_only
from interlock.cli.system_user import system_user
from interlock.cli.view.answer_prompt import AnswerPrompt
from interlock.cli.view.narration import EventAnnotator
from interlock.cli.view.progress import PendingQuestion, Progress
from interlock.cli.view.run_display import Display, open_display, open_live_view
from interlock.cli.view.run_result import options_of, print_result
from interlock.cli.view.terminal import can_ask, prompt_answer
from interlock.compose.interlock import Interlock, Result, RunHandle
from interlock.engine.flow.parking import PARKED
from interlock.errors import InterlockError, TooLate
from interlock.ids import root_of

RunAction = Callable[[Interlock], Awaitable[RunHandle]]
EXIT_CODES = {"completed": 0, "paused": 3}


def drive_run(
    box: Interlock,
    ask: RunAction,
    display: Display,
    settings: LogSettings,
    log: LogChoice,
    *,
    only_new: bool = False,
    python_crew: str | None = None,
) -> None:
    """Show a run while it works, let a person answer it, print its result, and exit with its code.

    `only_new` hides earlier events in human-readable output. `python_crew` is named in the commands that continue it.
    """
    defaults = LogDefaults("warning", "brief", "warning" if display is Display.JSON else NOTHING)
    progress = Progress(box.clock.now_ms(), python_crew or "")
    with send_logs_to(box.home.folder, box.redactor(), settings, log, defaults):
        result = _watch_and_answer(box, ask, display, progress, only_new)
    sys.stdout.flush()
    sys.exit(EXIT_CODES.get(result.status, 1))


def _watch_and_answer(box: Interlock, ask: RunAction, display: Display, progress: Progress, only_new: bool) -> Result:
    progress.shows_from_ms = progress.watched_ms if only_new and display is not Display.JSON else 0
    asker = AnswerPrompt(progress) if display is not Display.JSON and can_ask() else None
    result = asyncio.run(watch_run(box, ask, display, progress, asker))
    while asker is not None and _is_waiting_for_person(result) and (question := asker.next_question()) is not None:
        is_shown = display is Display.PLAIN and asker.question is not None and asker.question.token == question.token
        text = prompt_answer(question, lambda: _has_newer_events(box, progress), is_shown=is_shown)
        if text == "":
            break
        if text is None:
            click.echo(
                f"the question of {safe_line(question.agent)} was answered elsewhere, or its deadline has passed"
            )
        action = _follow_action(progress.run) if text is None else _answer_action(question, progress.run, text)
        result = asyncio.run(watch_run(box, action, display, progress, asker))
    if display is not Display.JSON:
        print_result(box, result, progress, display)
    elif result.reason == PARKED:
        again = f"'interlock resume {result.run}{options_of(box, progress)}' continues it"
        click.echo(f"interlock: run {result.run} is parked; its progress is saved, and {again}", err=True)
    return result


def _is_waiting_for_person(result: Result) -> bool:
    """Whether an answer continues the run. A parked run was stopped by a person, who is not asked now."""
    return result.status == "paused" and result.reason != PARKED


def _has_newer_events(box: Interlock, progress: Progress) -> bool:
    """Whether the journal holds more events than were shown: another process has answered."""
    return with_read_only(box.named, lambda look: look.journal.row(progress.run)).seq > progress.seq


def _follow_action(run: str) -> RunAction:
    async def follow(box: Interlock) -> RunHandle:
        return RunHandle(box, run)

    return follow


def _answer_action(question: PendingQuestion, run: str, text: str) -> RunAction:
    async def answer(box: Interlock) -> RunHandle:
        return await box.resume(run, text, token=question.token, by=system_user())

    return answer


async def watch_run(
    box: Interlock, ask: RunAction, display: Display, progress: Progress, asker: AnswerPrompt | None = None
) -> Result:
    """Show a run while it works, and return its result. The first signal parks it, the second exits."""
    stop = _StopSignals(box)
    work = asyncio.ensure_future(_open_and_watch(box, ask, display, progress, asker, stop))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.on_signal, work)
    try:
        return await work
    except asyncio.CancelledError:
        again = f"'interlock resume {progress.run or 'RUN'}{options_of(box, progress)}' continues it"
        open_ = [f"'interlock runs answer {token}{options_of(box, progress)} TEXT'" for token in progress.questions]
        how = f", {' and '.join(open_)} answers its questions" if open_ else ""
        raise RunParked(f"stopped; the progress is saved{how}, and {again}") from None


class RunParked(InterlockError):
    """The process was stopped while a run was in progress."""

    code = "parked"


class _StopSignals:
    """Handles signals: the first parks the run, the second exits at once."""

    def __init__(self, box: Interlock) -> None:
        self._box = box
        self.run = ""  # set when the run has started
        self._parking: asyncio.Task[None] | None = None

    def on_signal(self, work: "asyncio.Future[Result]") -> None:
        if self.run and self._parking is None:
            self._parking = asyncio.ensure_future(self._park_run(work))
        else:
            if self.is_stopping:
                self._box.stop_without_waiting()
            work.cancel()

    @property
    def is_stopping(self) -> bool:
        return self._parking is not None

    async def _park_run(self, work: "asyncio.Future[Result]") -> None:
        """Park the run. A run that is already at rest needs no parking, so the command ends."""
        if not await self._box.park(self.run):
            work.cancel()


async def _open_and_watch(
    box: Interlock, ask: RunAction, display: Display, progress: Progress, asker: AnswerPrompt | None, stop: _StopSignals
) -> Result:
    async with box:
        handle = await _start_run(box, ask)
        stop.run = handle.id
        annotator = await _annotator_of(box, handle.id, progress)
        async with open_display(box, handle.id, display, progress, asker) as show:
            is_active = True
            while is_active:
                async for event in box.runner.follow(handle.id, progress.seq):
                    annotated = annotator.annotate_event(event)
                    progress.apply_event(annotated)
                    if display is Display.JSON or progress.is_new(event):
                        show(event if display is Display.JSON else annotated)
                may_type = display is Display.LIVE and asker is not None and not stop.is_stopping
                is_active = may_type and asker is not None and await asker.wait_for_typing(box.clock)
        return await handle.result()


async def _annotator_of(box: Interlock, run: str, progress: Progress) -> EventAnnotator:
    return EventAnnotator(await box.crew_of(await box.journal.row(run)), box.model_name, progress.open_calls)


async def follow_run(box: Interlock, run: str, display: Display) -> str:
    """Show a run of any process until it ends or pauses; return its status."""
    progress = Progress(box.clock.now_ms())
    annotator = await _annotator_of(box, run, progress)
    view = (
        open_live_view(box, run, progress)
        if display is Display.LIVE
        else open_display(box, run, display, progress, None)
    )
    async with view as show:
        async for event in box.runner.follow(run):
            annotated = annotator.annotate_event(event)
            progress.apply_event(annotated)
            show(event if display is Display.JSON else annotated)
    result = await box.result(run)
    if display is not Display.JSON:
        print_result(box, result, progress, display)
    return result.status


async def _start_run(box: Interlock, ask: RunAction) -> RunHandle:
    try:
        return await ask(box)
    except TooLate as late:
        click.echo(f"interlock: {safe_line(str(late))}", err=True)
        return RunHandle(box, root_of(late.run))
    except asyncio.CancelledError:
        await box.park_all()  # the run may have started
        raise
