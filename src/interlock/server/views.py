"""Runs and questions as they are answered."""

from collections.abc import Sequence
from typing import Any

from interlock.compose.box import Interlock
from interlock.compose.questions import listed_questions
from interlock.compose.results import result_from
from interlock.engine.in_full import in_full
from interlock.engine.reasons import reason
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
    row, records = await box.journal.whole(run)
    result = await result_from(box.journal, row, records)
    open_ = [] if is_over(row.status) else await listed_questions(box.store, run)
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
    """Its id is the token here, which every wait has; an answer may name the message too."""
    return {
        "id": question.token,
        "run": question.run,
        "crew": question.crew,
        "agent": question.agent,
        "question": question.question,
        "expects": question.expects,
        "choices": list(question.choices),
        "reason": question.reason,
        "token": question.token,
        "asked_at": question.since,
    }


async def events_after(journal: Journal, run: str, after: int, limit: int) -> dict[str, Any]:
    """Of as many records as can be needed: each has an event at least, and one more tells whether there is more."""
    records = await journal.records(run, after, limit + 1)
    found = [event for record in records for event in public_events(run, record) if event["seq"] > after]
    page = found[:limit]
    return {"events": page, "next": page[-1]["seq"] if len(found) > limit else None}


def reasons_of(tree: Sequence[StoredRecord]) -> list[dict[str, Any]]:
    """Of a run and all below it, in the order in which the store took them in."""
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
