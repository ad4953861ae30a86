"""A run and its row from its journal. Pure: the same records give the same run."""

from collections.abc import Sequence

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import pause_reason
from interlock.engine.kinds import RunStatus
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.run import OVER, Run
from interlock.errors import JournalDiverged
from interlock.ports import Record, RunRow


def replay_run(crew: CrewDefinition, run_id: str, records: Sequence[Record], table: RoutingTable | None = None) -> Run:
    """The run at the end of its journal; `JournalDiverged` unless the engine concludes what it concluded then."""
    run = Run(crew, run_id, table=table)
    for record in records:
        incoming, *derived = record.events
        step = run.apply(incoming)  # type: ignore[arg-type]
        if list(step.facts) != derived:
            raise JournalDiverged(run_id, record.seq)
    return run


def row_of(run: Run, row: RunRow, now: int) -> RunRow:
    """The row of a run in its present state; the reason of a paused run is what it waits for."""
    state = run.state
    waits_for = ""
    if state.status is RunStatus.PAUSED:
        waits_for = pause_reason(state) if state.parked else state.waits[0].reason
    return msgspec.structs.replace(
        row,
        status=str(state.status),
        reason=state.reason or waits_for,
        agent=state.agent,
        seq=state.seq,
        usage=state.usage,
        updated_at=now,
    )


def is_over(status: str) -> bool:
    return status in OVER
