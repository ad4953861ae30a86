"""What people are asked, over all runs of a folder, and who waits for whom within one.

Rule 1: a run's state says what is open; its journal says since when.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from interlock.compose.recovery import SetAside, pages
from interlock.crew.definition import Crew
from interlock.engine.events import InputRequested, MessageSent
from interlock.engine.standing import ASK_USER
from interlock.engine.state import RunState
from interlock.engine.timing import ACK, ANSWER
from interlock.errors import InterlockError, NotWaiting
from interlock.messages.wire import USER
from interlock.ports import Journal, Record, RunRow
from interlock.runtime.runner import replayed

# The crew of a run as it was when the run started.
CrewOf = Callable[[RunRow], Awaitable[Crew]]

# Runs looked at together.
PAGE = 200


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a person. `id` answers it: the message's where an agent asked, else the token.

    `since` and `until` are in milliseconds since 1970; `until` is 0 where there is no deadline.
    """

    id: str
    run: str
    crew: str
    agent: str
    reason: str
    question: str
    expects: str = ""
    token: str
    since: int
    until: int = 0


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for whom, with what. `left_ms` is working time, and None where only a person's clock counts."""

    agent: str
    of: str
    what: str
    id: str
    since: int
    left_ms: int | None = None
    until: int = 0


async def open_questions(journal: Journal, crew_of: CrewOf) -> tuple[list[OpenQuestion], tuple[SetAside, ...]]:
    """Those of every run that is not over, the oldest first; and the runs that cannot be read, with the reason."""
    found: list[OpenQuestion] = []
    aside: list[SetAside] = []
    for status in ("paused", "running"):
        async for page in pages(journal, PAGE, status=status):
            for row in page:
                try:
                    found += await _questions_of(journal, crew_of, row)
                except InterlockError as error:
                    aside.append(SetAside(run=row.run, reason=str(error)))
    return sorted(found, key=lambda question: (question.since, question.id)), tuple(aside)


async def _questions_of(journal: Journal, crew_of: CrewOf, row: RunRow) -> list[OpenQuestion]:
    records = await journal.records(row.run)
    state = replayed(await crew_of(row), row.run, records).state
    return questions_of(state, records, row.crew)


async def runs_with_deadlines(journal: Journal, crew_of: CrewOf) -> list[str]:
    """The runs that rest, and have a question to a person that will not be open for ever.

    Only crews whose agents may ask have any; the journals of the others are not read.
    """
    found = []
    async for page in pages(journal, PAGE, status="paused"):
        for row in page:
            with suppress(InterlockError):  # whoever takes it up says what is wrong with it
                crew = await crew_of(row)
                may_ask = any(ASK_USER in agent.tools for agent in crew.agents)
                if may_ask and any(question.until for question in await _questions_of(journal, crew_of, row)):
                    found.append(row.run)
    return found


def questions_of(state: RunState, records: Sequence[Record], crew: str) -> list[OpenQuestion]:
    asked = {
        event.token: (event, record.at)
        for record in records
        for event in record.events
        if isinstance(event, InputRequested)
    }
    since = _asked_at(records)
    return [
        OpenQuestion(
            id=wait.message or wait.token,
            run=state.run,
            crew=crew,
            agent=wait.agent,
            reason=wait.reason,
            question=asked[wait.token][0].question,
            expects=asked[wait.token][0].expects,
            token=wait.token,
            since=since.get(wait.message, asked[wait.token][1]),
            until=since[wait.message] + wait.deadline_ms if wait.deadline_ms else 0,
        )
        for wait in state.waits
        if not wait.child  # that is asked in the child, and listed there
    ]


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
        for q in questions_of(state, records, crew)
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
        if question in (wait.message, wait.token):
            return wait.token
    if question in state.asked:
        return state.asked[question]
    if question in state.answered:
        return question
    raise NotWaiting(state.run, question, [wait.message or wait.token for wait in state.waits])
