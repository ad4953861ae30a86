"""Runs and questions as response bodies."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import asdict

from interlock.compose.interlock import Interlock, RunHandle
from interlock.compose.questions import list_open_questions, read_with_complete_lists
from interlock.compose.results import PAGE, Result, result_from
from interlock.crew.definition import CrewDefinition
from interlock.engine.explain import explain_events
from interlock.errors import DamagedRun, InterlockError
from interlock.ids import parent_of
from interlock.ports import CrewRef, Journal, OpenQuestion, RunRow, StoredRecord, Toolbox
from interlock.runtime.following import json_or_text, public_events
from interlock.runtime.replay import is_over


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
        "usage": asdict(row.usage),
    }


class RunDetailView(NamedTuple):
    """The body, and whether it stays true while no record is stored: what tools and files say may change before."""

    body: dict[str, Any]
    is_lasting: bool


async def run_detail(box: Interlock, run: str) -> dict[str, Any]:
    return (await read_run_detail(box, run)).body


async def read_run_detail(box: Interlock, run: str) -> RunDetailView:
    found = await box.store.run_snapshot(run, PAGE)
    row = found.row
    result = await result_from(box.journal, row, found.records)
    open_: list[OpenQuestion] = []
    if not found.asks_nothing and not is_over(row.status):
        open_ = await read_with_complete_lists(box.store, box.crew_of, partial(list_open_questions, box.store, run))
    return await _detail_of(box, row, result, open_)


async def detail_after_start(box: Interlock, run: RunHandle) -> dict[str, Any]:
    """The same for a run that this request may have started: nothing is read back if its first agent is at work."""
    row = run.first_row
    if row is None or row.status != "running":
        return await run_detail(box, run.id)
    nothing_said = Result(run=row.run, status=row.status, reason=row.reason)
    return (await _detail_of(box, row, nothing_said, ())).body


async def _detail_of(box: Interlock, row: RunRow, result: Result, open_: Sequence[OpenQuestion]) -> RunDetailView:
    asked = sorted(open_, key=lambda each: (each.run != row.run, each.since, each.token))
    questions = [question_view(each, box.toolbox) for each in asked]
    said = {
        "detail": result.detail,
        "output": result.output,
        "text": result.text,
        "value": result.value,
        "token": result.token,
        "questions": questions,
    }
    used = {"usage_by_agent": {agent: asdict(usage) for agent, usage in result.usage_by_agent.items()}}
    models = await _models_of(box, row)
    body = {**run_view(row), **said, **used, "models": models or []}  # the run can be shown without them
    return RunDetailView(body, is_lasting=not questions and models is not None)


async def _models_of(box: Interlock, row: RunRow) -> list[dict[str, Any]] | None:
    """The model of each agent when the run started; events name a model only if it differs. None if unreadable."""
    try:
        crew = await box.crew_of(row)
    except InterlockError:
        return None
    return [
        {"path": list(path), "agent": agent.id, "model": agent.primary.name}
        for path, each in _crews_below(crew, ())
        for agent in each.agents
        if agent.primary is not None
    ]


def _crews_below(crew: CrewDefinition, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], CrewDefinition]]:
    yield path, crew
    for name, sub in crew.sub_crews.items():
        if sub.crew is not None and name not in path:
            yield from _crews_below(sub.crew, (*path, name))


def question_view(question: OpenQuestion, tools: Toolbox) -> dict[str, Any]:
    """The body of a question. If it is asked again after a refused answer, its id stays and its token changes."""
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
        "parameters": _parameters_of(question, tools) if question.arguments else {},
        "holds_for": question.holds_for,
    }


def _parameters_of(question: OpenQuestion, tools: Toolbox) -> dict[str, Any]:
    """The schema of a tool's arguments on this host; empty if the tool is gone."""
    tool, crew = question.tool, CrewRef(question.crew)
    return next((each.parameters for each in tools.schemas([tool], crew) if each.name == tool), {})


async def event_page_after(journal: Journal, run: str, after: int, limit: int) -> dict[str, Any]:
    """Events of a page: enough records, as each has at least one event; large records end a page early."""
    last = (await journal.row(run)).seq
    records = await journal.records(run, after, limit)
    found = [event for record in records for event in public_events(run, record) if event["seq"] > after]
    page = found[:limit]
    return {"events": page, "next": page[-1]["seq"] if page and page[-1]["seq"] < last else None}


async def reason_pages(box: Interlock, run: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Records of a run and of all below it, in the order of the store; raises `DamagedRun` if one is missing."""
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
        (text, public)
        for stored in tree
        for text, public in zip(
            explain_events(stored.record.events), public_events(stored.run, stored.record), strict=True
        )
    ]
    return [
        {"run": public["run"], "seq": public["seq"], "type": public["type"], "text": text, "event": public}
        for text, public in pairs
        if text
    ]
