"""A run from its journal. Pure: the same records give the same run."""

from collections.abc import Sequence

from interlock.crew.definition import CrewDefinition
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.run import OVER, Run
from interlock.errors import JournalDiverged
from interlock.ports import Record


def replay_run(crew: CrewDefinition, run_id: str, records: Sequence[Record], table: RoutingTable | None = None) -> Run:
    """The run at the end of its journal; `JournalDiverged` unless the engine concludes what it concluded then."""
    run = Run(crew, run_id, table=table)
    for record in records:
        incoming, *derived = record.events
        step = run.apply(incoming)  # type: ignore[arg-type]
        if list(step.facts) != derived:
            raise JournalDiverged(run_id, record.seq)
    return run


def is_over(status: str) -> bool:
    return status in OVER
