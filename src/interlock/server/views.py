"""Runs and questions as they are answered."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

from interlock.compose.box import Interlock
from interlock.compose.questions import listed_questions, read_listed
from interlock.compose.results import result_from
from interlock.crew.definition import Crew
from interlock.engine.in_full import in_full
from interlock.engine.reasons import reason
from interlock.errors import DamagedRun, InterlockError
from interlock.ids import parent_of
from interlock.ports import Journal, OpenQuestion, RunRow, StoredRecord, Toolbox
from interlock.runtime.runner import is_over
from interlock.runtime.watching import json_or_text, public_events


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
        open_ = await read_listed(box.store, box.crew_of, partial(listed_questions, box.store, run))
    asked = sorted(open_, key=lambda each: (each.run != run, each.since, each.token))
    questions = [question_view(each, box.toolbox) for each in asked]
    said = {
        "detail": result.detail,
        "output": result.output,
        "text": result.text,
        "token": result.token,
        "questions": questions,
    }
    used = {"usage_by_agent": {agent: in_full(usage) for agent, usage in result.usage_by_agent.items()}}
    return {**run_view(row), **said, **used, "models": await _models(box, row)}


async def _models(box: Interlock, row: RunRow) -> list[dict[str, Any]]:
    """The model of each agent when the run started: an event names a model only where it is another one."""
    try:
        crew = await box.crew_of(row)
    except InterlockError:
        return []  # the run can be shown without them
    return [
        {"path": list(path), "agent": agent.id, "model": agent.primary.name}
        for path, each in _tree(crew, ())
        for agent in each.agents
        if agent.primary is not None
    ]


def _tree(crew: Crew, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Crew]]:
    yield path, crew
    for name, sub in crew.sub_crews.items():
        if sub.crew is not None and name not in path:
            yield from _tree(sub.crew, (*path, name))


def question_view(question: OpenQuestion, tools: Toolbox) -> dict[str, Any]:
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
        "deadline_at": question.until or None,
        "default": question.default,
        "pattern": question.pattern,
        "answer_schema": question.schema,
        "fault": question.fault,
        "key": f"{question.run}:{question.call}" if question.call else question.id,
        "tool": question.tool,
        "arguments": json_or_text(question.arguments) if question.arguments else None,
        "parameters": _parameters(question.tool, tools) if question.arguments else {},
    }


def _parameters(tool: str, tools: Toolbox) -> dict[str, Any]:
    """What a tool takes, as this host has it; empty where the tool is gone."""
    return next((each.parameters for each in tools.schemas([tool]) if each.name == tool), {})


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
