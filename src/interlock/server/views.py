"""Runs and questions as they are answered."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from interlock.compose.box import Interlock
from interlock.compose.questions import listed_questions
from interlock.compose.results import result_from
from interlock.engine.in_full import in_full
from interlock.engine.reasons import reason
from interlock.errors import DamagedRun
from interlock.ids import parent_of
from interlock.ports import Journal, OpenQuestion, RunRow, StoredRecord
from interlock.runtime.runner import is_over
from interlock.runtime.watching import public_events


def run_view(row: RunRow) -> dict[str, Any]:
    return {
        "id": row.run,
        "run": row.run,
        "crew": row.crew,
        "status": row.status,
        "reason": row.reason,
        "agent": row.agent,
        "seq": row.seq,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "parent": parent_of(row.run),
        "continues": row.continues,
        "usage": in_full(row.usage),
    }


async def run_detail(box: Interlock, run: str) -> dict[str, Any]:
    row = await box.journal.row(run)
    result = await result_from(box.journal, row)
    open_: list[OpenQuestion] = []
    if not is_over(row.status):
        await box.list_missing_questions()
        open_ = await listed_questions(box.store, run)
    asked = sorted(open_, key=lambda each: (each.run != run, each.since, each.token))
    questions = [question_view(each) for each in asked]
    said = {
        "detail": result.detail,
        "output": result.output,
        "text": result.text,
        "token": result.token,
        "questions": questions,
    }
    used = {"usage_by_agent": {agent: in_full(usage) for agent, usage in result.usage_by_agent.items()}}
    return {**run_view(row), **said, **used}


def question_view(question: OpenQuestion) -> dict[str, Any]:
    """Its id stays when it is asked again, because an answer did not fit; its token does not."""
    return {
        "id": question.id,
        "run": question.run,
        "crew": question.crew,
        "agent": question.agent,
        "question": question.question,
        "context": question.context,
        "expects": question.expects,
        "choices": list(question.choices),
        "reason": question.reason,
        "token": question.token,
        "asked_at": question.since,
    }


async def events_after(journal: Journal, run: str, after: int, limit: int) -> dict[str, Any]:
    """Of as many records as can be needed, as each has an event at least; large ones end a page early."""
    last = (await journal.row(run)).seq
    records = await journal.records(run, after, limit)
    found = [event for record in records for event in public_events(run, record) if event["seq"] > after]
    page = found[:limit]
    return {"events": page, "next": page[-1]["seq"] if page and page[-1]["seq"] < last else None}


async def reason_pages(box: Interlock, run: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Of a run and all below it, in the order in which the store took them in; `DamagedRun` where one is missing."""
    last, position = (await box.journal.row(run)).seq, 0
    seen: dict[str, int] = {}
    while page := await box.store.of_run(run, position):
        position = page[-1].position
        for stored in page:
            if stored.record.seq != seen.get(stored.run, 0) + 1:
                raise DamagedRun(stored.run, f"there is no sound record at seq {seen.get(stored.run, 0) + 1}")
            seen[stored.run] = stored.record.last_seq
        yield reasons_of(page)
    if seen.get(run, 0) < last:
        raise DamagedRun(run, f"there is no sound record at seq {seen.get(run, 0) + 1}")


def reasons_of(tree: Sequence[StoredRecord]) -> list[dict[str, Any]]:
    pairs = [
        (event, told)
        for stored in tree
        for event, told in zip(stored.record.events, public_events(stored.run, stored.record), strict=True)
    ]
    return [
        {"run": told["run"], "seq": told["seq"], "type": told["type"], "text": text, "event": told}
        for event, told in pairs
        if (text := reason(event))
    ]
