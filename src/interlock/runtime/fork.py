"""Forks of runs: the records up to a point are copied, and every key is new.

Rule 1: a run can be forked after a record if it is running there and no branch, child or question is open.
Rule 2: tokens begin with the run's id, so the copy is replayed with the new id and its facts are written again;
other keys get the id when they leave the run, so those of the copy are new as well.
"""

from collections.abc import Sequence

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import IncomingEvent, InputExpired, RunResumed
from interlock.engine.kinds import RunStatus
from interlock.engine.run import Run
from interlock.engine.state import RunState
from interlock.errors import CannotFork, JournalDiverged
from interlock.ports import Record


def fork_places(crew: CrewDefinition, run_id: str, records: Sequence[Record]) -> list[int]:
    """The seqs after which the run can be forked, in order."""
    run, places = Run(crew, run_id), []
    for record in records:
        incoming, *derived = record.events
        if list(run.apply(incoming).facts) != derived:  # type: ignore[arg-type]
            raise JournalDiverged(run_id, record.seq)
        if _is_quiet(run.state):
            places.append(record.last_seq)
    return places


def _is_quiet(state: RunState) -> bool:
    is_talking = state.tasks or state.advisory_turns or any(box.sent for box in state.mailboxes.values())
    is_alone = state.group is None and state.calling is None and not state.leaving
    return state.status is RunStatus.RUNNING and is_alone and not state.waits and not is_talking


def fork_run(
    crew: CrewDefinition, run_id: str, records: Sequence[Record], after: int, new_id: str
) -> tuple[Run, list[Record]]:
    """The new run and its records; `CannotFork`, with the nearest places, if something is open there."""
    places = fork_places(crew, run_id, records)
    if after not in places:
        raise CannotFork(run_id, after, _nearest(places, after))
    run, copied = Run(crew, new_id), []
    for record in records:
        if record.seq > after:
            break
        incoming = with_keys_of(record.events[0], run_id, new_id)  # type: ignore[arg-type]
        copied.append(Record(seq=record.seq, at=record.at, events=(incoming, *run.apply(incoming).facts)))
    assert run.state.seq == after, "the same events with another id give as many facts"
    return run, copied


def _nearest(places: Sequence[int], after: int) -> list[int]:
    before = [seq for seq in places if seq < after][-1:]
    return before + [seq for seq in places if seq > after][:1]


def with_keys_of(event: IncomingEvent, old: str, new: str) -> IncomingEvent:
    """The event with the token of the new run: of all keys only tokens hold the id of the run."""
    if not isinstance(event, RunResumed | InputExpired) or not event.token.startswith(f"{old}:"):
        return event
    return msgspec.structs.replace(event, token=f"{new}:{event.token.removeprefix(f'{old}:')}")
