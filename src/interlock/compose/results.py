"""How a run stands, read from its journal."""

from collections.abc import Sequence

import msgspec

from interlock.engine.accounting import usage_by_agent
from interlock.engine.events import InputRequested, ModelReplied, RunFinished, RunPaused, Usage
from interlock.ids import run_of
from interlock.ports import Journal, Record, RunRow


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands: over, or paused with the token of its oldest wait. `continues` is the run it goes on from.

    `usage_by_agent` says what the calls of each agent have cost, in the order of their first. `detail` is the reason in
    a sentence, where a budget stopped the run.
    """

    run: str
    status: str
    reason: str
    detail: str = ""
    agent: str = ""
    output: str = ""
    text: str = ""
    token: str = ""
    continues: str = ""
    usage: Usage = Usage()
    usage_by_agent: dict[str, Usage] = {}


async def result_of(journal: Journal, run: str) -> Result:
    return await result_from(journal, *await journal.whole(run))


async def result_from(journal: Journal, row: RunRow, records: Sequence[Record]) -> Result:
    """The same, for whoever has read the run already."""
    result = Result(
        run=row.run,
        status=row.status,
        reason=row.reason,
        agent=row.agent,
        continues=row.continues,
        usage=row.usage,
        usage_by_agent=usage_by_agent(record.events for record in records),
    )
    for record in reversed(records):
        for event in reversed(record.events):
            if isinstance(event, RunFinished):
                return msgspec.structs.replace(result, output=event.output, text=event.text, detail=event.detail)
            if isinstance(event, RunPaused) and row.status == "paused":
                asking = run_of(event.token)  # perhaps a run of a crew that was called
                return _paused(result, event, records if asking == row.run else await journal.records(asking))
    return result


def _paused(result: Result, pause: RunPaused, records: Sequence[Record]) -> Result:
    """With what was said last, and the question that is open."""
    events = [event for record in records for event in record.events]
    said = next(
        (e.text for e in reversed(events) if isinstance(e, ModelReplied) and not e.tool_calls and not e.purpose), ""
    )
    asked = next((e.question for e in events if isinstance(e, InputRequested) and e.token == pause.token), "")
    return msgspec.structs.replace(result, token=pause.token, reason=pause.reason, output=said, text=asked)
