"""What people are asked, over all runs of a folder, and who waits for whom within one.

Rule 1: what is open is kept by the store with the record that changed it; no journal is read to list it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from interlock.compose.recovery import SetAside
from interlock.crew.definition import Crew
from interlock.engine.events import MessageSent
from interlock.engine.state import RunState
from interlock.engine.timing import ACK, ANSWER
from interlock.errors import InterlockError, NotWaiting
from interlock.messages.wire import USER
from interlock.ports import Asking, Journal, OpenQuestion, Questions, Record, RunRow
from interlock.runtime.asking import Asked
from interlock.runtime.runner import replayed

T = TypeVar("T")

# The crew of a run as it was when the run started.
CrewOf = Callable[[RunRow], Awaitable[Crew]]

# Questions read in one go.
PAGE = 1_000


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for whom, with what. `left_ms` is working time, and None where only a person's clock counts."""

    agent: str
    of: str
    what: str
    id: str
    since: int
    left_ms: int | None = None
    until: int = 0


class Store(Journal, Questions, Protocol):
    """Runs, and what they ask."""


async def open_questions(store: Store, crew_of: CrewOf) -> tuple[list[OpenQuestion], tuple[SetAside, ...]]:
    """Those of every run that is not over, the oldest first; and the runs that cannot be read, with the reason."""
    found = {each.token: each for each in await listed_questions(store)}
    aside: list[SetAside] = []
    for run in await store.unlisted():
        try:
            asking = await asking_of(store, crew_of, await store.row(run))
            found |= {each.token: each for each in asking.questions}
        except InterlockError as error:
            aside.append(SetAside(run=run, reason=str(error)))
    return sorted(found.values(), key=lambda question: (question.since, question.id)), tuple(aside)


async def listed_questions(store: Questions, run: str | None = None) -> list[OpenQuestion]:
    """As the store has them, the newest first: all, or those of a run and the ones below it."""
    found: list[OpenQuestion] = []
    before: tuple[int, str] | None = None
    while page := await store.open_questions(PAGE, before=before, run=run):
        last = (page[-1].since, page[-1].token)
        if before is not None and last >= before:  # a list that is damaged in what it is sorted by has no end
            break
        found += page
        before = last
    return found


async def list_unlisted(store: Store, crew_of: CrewOf) -> None:
    """What a folder of an older Interlock, and runs that came in whole, ask is found out once.

    A run that cannot be read stays as it is: whoever lists questions, and `interlock doctor`, says so.
    """
    for run in await store.unlisted():
        with suppress(Exception):  # a journal that the engine cannot take must not keep the folder closed
            row = await store.row(run)
            await store.list_questions(await asking_of(store, crew_of, row), row.seq)


async def read_listed(store: Store, crew_of: CrewOf, read: Callable[[], Awaitable[T]]) -> T:
    """What `read` finds in the store's lists; if something is missing from them, it reads again once that is listed."""
    found = await read()
    if not await store.unlisted():
        return found
    await list_unlisted(store, crew_of)
    return await read()


async def asking_of(store: Store, crew_of: CrewOf, row: RunRow) -> Asking:
    """What a run asks, as its journal tells it."""
    records = await store.records(row.run)
    state = replayed(await crew_of(row), row.run, records).state
    return Asking(run=row.run, questions=Asked(records).open(state, row.crew))


async def runs_with_deadlines(store: Store, crew_of: CrewOf) -> list[str]:
    """The runs that rest, and have a question to a person that will not be open for ever."""
    asking = dict.fromkeys(question.run for question in await listed_questions(store) if question.until)
    found = []
    for run in asking:
        with suppress(InterlockError):  # whoever takes it up says what is wrong with it
            row = await store.row(run)
            if row.status == "paused" and (await asking_of(store, crew_of, row)).questions:
                found.append(run)
    return found


def _asked_at(records: Sequence[Record]) -> dict[str, int]:
    """When each message was first sent."""
    sent: dict[str, int] = {}
    for record in records:
        for event in record.events:
            if isinstance(event, MessageSent):
                sent.setdefault(event.message["message_id"], record.at)
    return sent


def waits_of(state: RunState, records: Sequence[Record], crew: str) -> list[Waiting]:
    """Everything that is waited for, the oldest first: answers of agents, then of people."""
    since = _asked_at(records)
    people = [
        Waiting(agent=q.agent, of=USER, what=q.reason, id=q.id, since=q.since, until=q.until)
        for q in Asked(records).open(state, crew)
    ]
    agents = [
        Waiting(
            agent=sent.message.sender,
            of=sent.message.addressee,
            what=sent.message.type if sent.acknowledged else f"{sent.message.type}, not taken up",
            id=id_,
            since=since[id_],
            left_ms=_left(state, f"{ANSWER}{id_}" if sent.acknowledged else f"{ACK}{id_}"),
        )
        for box in state.mailboxes.values()
        for id_, sent in box.sent.items()
        if sent.message.addressee != USER
    ]
    return sorted(agents, key=lambda wait: wait.since) + people


def _left(state: RunState, purpose: str) -> int | None:
    timer = state.timers.get(purpose)
    if timer is None:
        return None
    return max(0, timer.left_ms - (state.worked_ms - timer.since_ms)) if timer.key else timer.left_ms


def token_of(state: RunState, question: str) -> str:
    """The token that answers a question now, or that answered it; `NotWaiting` if there is neither."""
    for wait in state.waits:
        if question in (wait.message, wait.again_of, wait.token):
            return wait.token
    if question in state.asked:
        return state.asked[question]
    if question in state.answered:
        return question
    raise NotWaiting(state.run, question, [wait.message or wait.again_of or wait.token for wait in state.waits])
