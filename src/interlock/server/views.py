"""Runs and questions as they are answered."""

from collections.abc import Sequence
from typing import Any

from interlock.compose.box import Interlock
from interlock.compose.results import result_from
from interlock.engine.events import InputRequested
from interlock.engine.in_full import in_full
from interlock.engine.reasons import reason
from interlock.engine.state import RunState
from interlock.ids import parent_of
from interlock.ports import Record, RunRow, StoredRecord
from interlock.runtime.runner import replayed
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
    row, records = await box.journal.row(run), await box.journal.records(run)
    result = await result_from(box.journal, row, records)
    questions = await _all_questions(box, row, records) if row.status in ("running", "paused") else []
    said = {"output": result.output, "text": result.text, "token": result.token, "questions": questions}
    used = {"usage_by_agent": {agent: in_full(usage) for agent, usage in result.usage_by_agent.items()}}
    return {**run_view(row), **said, **used}


async def _all_questions(box: Interlock, row: RunRow, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Those of the run, then those of the runs below it."""
    found = await questions_of(box, row, records)
    for each in await box.journal.below(row.run):
        if each.status in ("running", "paused"):
            found += await questions_of(box, each)
    return found


async def questions_of(box: Interlock, row: RunRow, records: Sequence[Record] | None = None) -> list[dict[str, Any]]:
    """The open waits of a run, the oldest first; those of a run below it are that one's."""
    live = box.runner.live.get(row.run)
    if live is not None and not live.run.state.waits:
        return []
    records = records if records is not None else await box.journal.records(row.run)
    return _questions(row, replayed(await box.crew_of(row), row.run, records).state, records)


def _questions(row: RunRow, state: RunState, records: Sequence[Record]) -> list[dict[str, Any]]:
    asked = {
        event.token: (event, record.at)
        for record in records
        for event in record.events
        if isinstance(event, InputRequested)
    }
    return [
        {
            "id": wait.token,
            "run": row.run,
            "crew": row.crew,
            "agent": wait.agent,
            "question": asked[wait.token][0].question,
            "expects": asked[wait.token][0].expects,
            "choices": list(wait.rules.choices),
            "reason": wait.reason,
            "token": wait.token,
            "asked_at": asked[wait.token][1],
        }
        for wait in state.waits
        if not wait.child
    ]


def events_after(run: str, records: Sequence[Record], after: int, limit: int) -> dict[str, Any]:
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
