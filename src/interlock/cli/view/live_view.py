"""The live view of a run: graph, active agents, transcript and cost. Imports rich, so import it late.

Rule 1: a page is a function of the run's progress, the terminal's size and the time.
Rule 2: the view uses the alternate screen; when it closes, the transcript is printed for the scrollback.
Rule 3: while it is open nothing else writes to the terminal; `terminal.capture_output` ensures that.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from interlock.cli.view.answer_prompt import PROMPT, AnswerPrompt
from interlock.cli.view.columns import UNKNOWN_COST, cache_share, dollars
from interlock.cli.view.live_graph import GraphLayout, graph_rows
from interlock.cli.view.live_rows import FRAME_MS, duration_text, fit_width, row, rule, spinner, tail_of, wrap_words
from interlock.cli.view.progress import ActiveCall, Progress
from interlock.cli.view.transcript import Kind
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import Usage
from interlock.ports import Clock

# A terminal with fewer rows has no room for titles.
TITLED_ROWS_MIN = 14

# The size of a terminal that does not report one.
SIZE_UNKNOWN = (80, 24)

_STYLES: dict[Kind, str] = {"speaker": "bold", "said": "", "note": "dim", "printed": "", "log": "dim"}
_STATUS_STYLES = {"running": "cyan", "completed": "green", "paused": "yellow"}

# A character that the terminal counts wider than we do must not wrap the line.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


def page_rows(
    drawn: GraphLayout,
    crew: CrewDefinition,
    progress: Progress,
    size: tuple[int, int],
    now_ms: int,
    asker: AnswerPrompt | None = None,
) -> list[Text]:
    """The rows of a page, exactly as many as the terminal has, none wider."""
    width, height = size
    titled = height >= TITLED_ROWS_MIN
    asked = _question_rows(asker, width, max(2, height // 3)) if asker is not None else []
    left = max(0, height - (6 if titled else 3) - len(asked))
    work = _work_rows(progress, width, max(1, left // 3), now_ms)
    graph = graph_rows(drawn, progress, width, max(1, (left - len(work)) * 3 // 5), now_ms)
    said = _transcript_rows(progress, width, max(0, left - len(work) - len(graph)))
    parts = (("graph", graph), ("active", work), ("transcript", said))
    body = [text for title, rows in parts for text in ([rule(width, title)] if titled else []) + rows]
    foot = [*asked, _handoff_bar(crew, progress, width), _totals_row(progress, width, now_ms)]
    rows = [_title_row(crew, progress, width), *body, *foot]
    return rows[-height:] if asked else rows[:height]


def _title_row(crew: CrewDefinition, progress: Progress, width: int) -> Text:
    status = f"{progress.status} {progress.reason}".rstrip()
    style = _STATUS_STYLES.get(progress.status, "red")
    return row(width, (crew.name, "bold"), ("  ", ""), (status, style), (f"  run {progress.run}", "dim"))


def _work_rows(progress: Progress, width: int, most: int, now_ms: int) -> list[Text]:
    working = progress.active_calls()
    if not working:
        return [row(width, ("  no agent", "dim"))]
    kept = working if len(working) <= most else working[: most - 1]
    names = min(max(22, width // 3), max(len(work.name) for work in kept)) if kept else 0
    rows = [_work_row(work, names, width, now_ms) for work in kept]
    left = len(working) - len(kept)
    return rows + [row(width, (f"  … and {left} more", "dim"))] * bool(left)


def _work_row(work: ActiveCall, names: int, width: int, now_ms: int) -> Text:
    lead = f" {spinner(now_ms)} {fit_width(work.name, names)} {duration_text(now_ms - work.since_ms):>8}  "
    doing = f"{work.activity}  "
    tail = tail_of(work.tail, width - len(lead) - len(doing))
    style = "dim" if work.is_reasoning else ""
    return row(width, (lead, "bold cyan"), (doing, "yellow" if work.error else "cyan"), (tail, style))


def _question_rows(asker: AnswerPrompt, width: int, most: int) -> list[Text]:
    """The question and the answer typed so far, or a note about the last question."""
    question = asker.question
    note = [row(width, (asker.note, "yellow"))] if asker.note else []
    if question is None:
        return note
    waiting = len(asker.progress.questions) - 1
    more = f" ({waiting} more after this one)" if waiting else ""
    head = row(width, (f"{question.agent} asks{more}:", "bold yellow"))
    words = [piece for line in question.text.splitlines() for piece in wrap_words(f"  {line}", width)]
    typed = row(width, (PROMPT, "dim"), (tail_of(asker.line_input.text, width - len(PROMPT) - 1), ""), ("▏", "bold"))
    return [*note, head, *(row(width, (piece, "")) for piece in words[-max(1, most - 2) :]), typed]


def _transcript_rows(progress: Progress, width: int, most: int) -> list[Text]:
    """The last lines of the transcript, padded with empty ones so that nothing below moves."""
    rows: list[Text] = []
    for line in reversed(progress.lines):
        if len(rows) >= most:
            break
        pieces = list(wrap_words(line.text, width))
        rows[:0] = [row(width, (piece, _STYLES[line.kind])) for piece in pieces]
    return [*rows[max(0, len(rows) - most) :], *[Text()] * (most - len(rows))]


def _handoff_bar(crew: CrewDefinition, progress: Progress, width: int) -> Text:
    most = max(1, crew.settings.max_handoffs)
    words, hint = f" {progress.handoffs} of {most} handoffs", "  Ctrl-C parks the run"
    columns = max(0, min(40, width - len(words) - len(hint)))
    done = min(columns, -(-columns * progress.handoffs // most))
    return row(width, ("━" * done, "cyan"), ("─" * (columns - done), "dim"), (words, ""), (hint, "dim"))


def _cost_text(usage: Usage) -> str:
    return f"cost {UNKNOWN_COST}" if usage.unpriced_calls else dollars(usage.cost_micros)


def _totals_row(progress: Progress, width: int, now_ms: int) -> Text:
    usage = progress.usage
    tokens = f"{usage.tokens:,} tokens"
    if width >= 100:
        cached = f", {cache_share(usage)} cached" if usage.cache_read_tokens else ""
        tokens += f" ({usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out)"
    calls = f"{usage.calls:,} model {'call' if usage.calls == 1 else 'calls'}"
    parts = (duration_text(progress.working_ms(now_ms)), calls, tokens, _cost_text(usage))
    return row(width, (" · ".join(parts), "bold"))


# On the terminal


class _Screen:
    """The alternate screen of the terminal; repainted when its content changes."""

    def __init__(self, out: TextIO, paint: Callable[[tuple[int, int]], list[Text]]) -> None:
        self._out, self._paint = out, paint
        self._painted: tuple[tuple[int, int], list[Text]] = (SIZE_UNKNOWN, [])
        self._console = Console(file=out, force_terminal=True, force_interactive=True, markup=False, highlight=False)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=lambda: Group(*self._painted[1]),
        )

    def __enter__(self) -> "_Screen":
        self._live.start()
        self._write(_NO_WRAP)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_WRAP)
        self._live.stop()

    def suspend_job(self) -> None:
        """Ctrl-Z: give the shell its screen back, and repaint when the job continues."""
        self.__exit__()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.__enter__()
        self._painted = (SIZE_UNKNOWN, [])

    def refresh(self) -> None:
        size = _size_of(self._out)
        painted = (size, self._paint(size))
        if painted != self._painted:
            self._painted, self._console.size = painted, size
            self._live.refresh()

    def _write(self, code: str) -> None:
        self._out.write(code)
        self._out.flush()


def _size_of(out: TextIO) -> tuple[int, int]:
    """Read each time: a terminal may be resized, and the environment may hold another one's size."""
    columns, lines = os.get_terminal_size(out.fileno())
    return (columns, lines) if columns and lines else SIZE_UNKNOWN


@asynccontextmanager
async def live_view(
    crew: CrewDefinition, progress: Progress, clock: Clock, asker: AnswerPrompt | None = None
) -> AsyncIterator[None]:
    """Show a run until the block ends. Other output must be captured meanwhile."""
    drawn = GraphLayout(crew)
    with _Screen(sys.stdout, lambda size: page_rows(drawn, crew, progress, size, clock.now_ms(), asker)) as screen:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, screen.suspend_job)
        painting = asyncio.create_task(_repaint_until_cancelled(screen, clock))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            painting.cancel()
            with suppress(asyncio.CancelledError):
                await painting


async def _repaint_until_cancelled(screen: _Screen, clock: Clock) -> None:
    while True:
        screen.refresh()
        await clock.sleep_until(clock.monotonic_ms() + FRAME_MS)
