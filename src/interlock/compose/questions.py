"""Open questions of all runs of a folder, and the waits within one run.

Rule 1: the store keeps a list of open questions, written with the record that changed it; listing reads no journal.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from interlock.compose.results import SetAsideRun
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import MessageSent
from interlock.engine.kinds import TimerKind
from interlock.engine.state import RunState
from interlock.errors import InterlockError, NotWaiting
from interlock.messages.wire import USER
from interlock.ports import Journal, OpenQuestion, Questions, Record, RunQuestions, RunRow
from interlock.runtime.calls.question_log import QuestionLog
from interlock.runtime.runner import replay_run

T = TypeVar("T")

# The crew of a run as it was when the run started.
CrewOf = Callable[[RunRow], Awaitable[CrewDefinition]]

# Questions per read.
PAGE = 1_000


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A wait of an agent for an answer. `left_ms` is working time, and None if only wall-clock time counts."""

    agent: str
    of: str
    what: str
    id: str
    since: int
    left_ms: int | None = None
    until: int = 0


class QuestionStore(Journal, Questions, Protocol):
    """A store of runs and of their open questions."""


async def open_questions(store: QuestionStore, crew_of: CrewOf) -> tuple[list[OpenQuestion], tuple[SetAsideRun, ...]]:
    """Open questions of all runs, the oldest first; and the runs that cannot be read, with the reason."""
    found = {each.token: each for each in await list_open_questions(store)}
    aside: list[SetAsideRun] = []
    for run in await store.runs_without_question_list():
        try:
            asking = await questions_of_run(store, crew_of, await store.row(run))
            found |= {each.token: each for each in asking.questions}
        except InterlockError as error:
            aside.append(SetAsideRun(run=run, reason=str(error)))
    return sorted(found.values(), key=lambda question: (question.since, question.id)), tuple(aside)


async def list_open_questions(store: Questions, run: str | None = None) -> list[OpenQuestion]:
    """Open questions in the store's list, the newest first: all, or those of a run and the runs below it."""
    found: list[OpenQuestion] = []
    before: tuple[int, str] | None = None
    while page := await store.open_questions(PAGE, before=before, run=run):
        last = (page[-1].since, page[-1].token)
        if before is not None and last >= before:  # the sort key is damaged: the list would not end
            break
        found += page
        before = last
    return found


async def store_missing_questions(store: QuestionStore, crew_of: CrewOf) -> None:
    """Adds missing lists of questions: of folders of an older Interlock, and of imported runs.

    A run that cannot be read stays as it is: listing questions and `interlock doctor` report it.
    """
    for run in await store.runs_without_question_list():
        with suppress(Exception):  # a journal that cannot be replayed must not keep the folder from being opened
            row = await store.row(run)
            await store.store_questions(await questions_of_run(store, crew_of, row), row.seq)


async def read_with_complete_lists(store: QuestionStore, crew_of: CrewOf, read: Callable[[], Awaitable[T]]) -> T:
    """Reads the store's lists; if some are missing, adds them and reads again."""
    found = await read()
    if not await store.runs_without_question_list():
        return found
    await store_missing_questions(store, crew_of)
    return await read()


async def questions_of_run(store: QuestionStore, crew_of: CrewOf, row: RunRow) -> RunQuestions:
    """The open questions of a run, from its journal."""
    records = await store.records(row.run)
    state = replay_run(await crew_of(row), row.run, records).state
    return RunQuestions(run=row.run, questions=QuestionLog(records).open_questions(state, row.crew))


def _first_sent_at(records: Sequence[Record]) -> dict[str, int]:
    """The time of the first try of each message."""
    sent: dict[str, int] = {}
    for record in records:
        for event in record.events:
            if isinstance(event, MessageSent):
                sent.setdefault(event.message["message_id"], record.at)
    return sent


def waits_of(state: RunState, records: Sequence[Record], crew: str) -> list[Waiting]:
    """All waits of a run, the oldest first: for agents, then for people."""
    since = _first_sent_at(records)
    people = [
        Waiting(agent=q.agent, of=USER, what=q.reason, id=q.id, since=q.since, until=q.until)
        for q in QuestionLog(records).open_questions(state, crew)
    ]
    agents = [
        Waiting(
            agent=sent.message.sender,
            of=sent.message.addressee,
            what=sent.message.type if sent.acknowledged else f"{sent.message.type}, not acknowledged",
            id=id_,
            since=since[id_],
            left_ms=_remaining_ms(state, (TimerKind.ANSWER if sent.acknowledged else TimerKind.ACK).of(id_).key),
        )
        for box in state.mailboxes.values()
        for id_, sent in box.sent.items()
        if sent.message.addressee != USER
    ]
    return sorted(agents, key=lambda wait: wait.since) + people


def _remaining_ms(state: RunState, purpose: str) -> int | None:
    timer = state.timers.get(purpose)
    if timer is None:
        return None
    return max(0, timer.left_ms - (state.worked_ms - timer.since_ms)) if timer.key else timer.left_ms


def token_of(state: RunState, question: str) -> str:
    """The token that answers a question now, or that answered it; raises `NotWaiting` if there is neither."""
    for wait in state.waits:
        if question in (wait.id, wait.token):
            return wait.token
    if question in state.asked:
        return state.asked[question]
    if question in state.answered:
        return question
    raise NotWaiting(state.run, question, [wait.id for wait in state.waits])
