"""Results of runs, read from their journals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from interlock.engine.budgets.usage import add_usage
from interlock.engine.events import (
    Event,
    InputGiven,
    InputRequested,
    ModelReplied,
    ParkRequested,
    RunFinished,
    RunPaused,
    Usage,
)
from interlock.engine.flow.parking import SET_ASIDE
from interlock.ids import run_of
from interlock.ports import Journal, Record, RunRow

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

# Records of a journal per read.
PAGE = 1_000


class Result(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a run: over, or paused with the token of its oldest wait. `continues` is the run it continues.

    `text` of a paused run is the question to a person, and `context` the reason why an agent asks it.

    `value` is the typed result of a run that completed with one: plain JSON, or a value of the crew's type where the
    crew is known.

    `usage_by_agent` is the cost of the calls of each agent, in the order of their first calls. `detail` is the reason
    in a sentence, if a budget stopped the run or a process could not drive it.
    """

    run: str
    status: str
    reason: str
    detail: str = ""
    agent: str = ""
    output: str = ""
    text: str = ""
    value: T | None = None
    context: str = ""
    token: str = ""
    continues: str = ""
    usage: Usage = Usage()
    usage_by_agent: dict[str, Usage] = {}


class SetAsideRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that this process cannot drive, and the reason."""

    run: str
    reason: str


class _JournalDigest:
    """The parts of a journal that make a result; the rest is not kept."""

    def __init__(self) -> None:
        self.spent: dict[str, Usage] = {}
        self.last: RunFinished | RunPaused | None = None
        self.said = self.hindrance = ""
        self._questions: dict[str, InputRequested] = {}

    def note(self, record: Record) -> None:
        add_usage(self.spent, record.events)
        for event in record.events:
            self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, RunFinished | RunPaused):
            self.last = event
        elif isinstance(event, ModelReplied) and not event.tool_calls and not event.purpose:
            self.said = event.text
        elif isinstance(event, InputRequested):
            self._questions.setdefault(event.token, event)
        elif isinstance(event, InputGiven):
            self._questions.pop(event.token, None)
        elif isinstance(event, ParkRequested):
            self.hindrance = event.hindrance

    def question(self, token: str) -> tuple[str, str]:
        """The question of a token, and its context; both empty if there is none."""
        asked = self._questions.get(token)
        return ("", "") if asked is None else (asked.question, asked.context)


async def result_of(journal: Journal, run: str) -> Result:
    return await result_from(journal, await journal.row(run))


async def result_from(journal: Journal, row: RunRow, first: Sequence[Record] = ()) -> Result:
    """The result of a run whose row, and perhaps first records, are already read. The journal is read page by page."""
    seen = await _read_journal(journal, row, first)
    result = Result(
        run=row.run,
        status=row.status,
        reason=row.reason,
        agent=row.agent,
        continues=row.continues,
        usage=row.usage,
        usage_by_agent=seen.spent,
    )
    if isinstance(seen.last, RunFinished):
        value = None if seen.last.value is msgspec.UNSET else seen.last.value
        return msgspec.structs.replace(
            result, output=seen.last.output, text=seen.last.text, detail=seen.last.detail, value=value
        )
    if seen.last is None or row.status != "paused":
        return result
    pause = seen.last
    asking = run_of(pause.token)  # may be the run of a sub-crew
    there = seen if asking == row.run else await _read_journal(journal, await journal.row(asking))
    question, context = there.question(pause.token)
    return msgspec.structs.replace(
        result,
        token=pause.token,
        reason=pause.reason,
        detail=seen.hindrance if pause.reason == SET_ASIDE else "",
        output=there.said,
        text=question,
        context=context,
    )


async def _read_journal(journal: Journal, row: RunRow, first: Sequence[Record] = ()) -> _JournalDigest:
    """The digest of a journal, up to the seq of the row."""
    seen, after, page = _JournalDigest(), 0, first
    while after < row.seq:
        for record in page or await journal.records(row.run, after, PAGE):
            if record.seq <= row.seq:
                seen.note(record)
            after = record.last_seq
        page = ()
    return seen
