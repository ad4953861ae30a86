"""How a run stands, read from its journal."""

import msgspec

from interlock.engine.events import RunFinished, RunPaused, Usage
from interlock.ports import Journal


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands: over, or paused with the token of its oldest wait. `continues` is the run it goes on from."""

    run: str
    status: str
    reason: str
    agent: str = ""
    output: str = ""
    text: str = ""
    token: str = ""
    continues: str = ""
    usage: Usage = Usage()


async def result_of(journal: Journal, run: str) -> Result:
    row = await journal.row(run)
    result = Result(
        run=run, status=row.status, reason=row.reason, agent=row.agent, continues=row.continues, usage=row.usage
    )
    for record in reversed(await journal.records(run)):
        for event in reversed(record.events):
            if isinstance(event, RunFinished):
                return msgspec.structs.replace(result, output=event.output, text=event.text)
            if isinstance(event, RunPaused) and row.status == "paused":
                return msgspec.structs.replace(result, token=event.token, reason=event.reason)
    return result
