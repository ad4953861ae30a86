"""A run with all that it called: how each of them stands, what it has cost by itself, what was said where.

Rule 1: a run comes before those it called, and they stand in the order in which it called them.
Rule 2: what a run has cost by itself is what its journal holds besides the costs of those that came back to it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from interlock.compose.box import Interlock
from interlock.engine.accounting import usage_by_agent
from interlock.engine.events import ChildReturned, ChildStarted, Entry, Event, Usage, WentStale
from interlock.engine.reasons import person_line
from interlock.engine.state import Wait
from interlock.engine.step import Run
from interlock.errors import JournalDiverged
from interlock.ids import child_id, is_below, key_of, parent_of
from interlock.ports import Record, RunRow


class Member(msgspec.Struct, kw_only=True):
    """One run of a tree. `path` names the sub-crews from the outermost run down to it; `own` is its own cost.

    `elsewhere` is what children have cost that are not here: those of the run that this one was forked from.
    """

    row: RunRow
    path: tuple[str, ...] = ()
    own: Usage = Usage()
    by_agent: dict[str, Usage] = {}
    elsewhere: Usage = Usage()
    waits: tuple[Wait, ...] = ()
    people: tuple[str, ...] = ()  # who started, answered, continued and cancelled it, in order
    said: "tuple[Entry | str, ...]" = ()  # in order; a run that was called stands where it was called


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """`members` are in order, the run that was asked for first."""

    members: tuple[Member, ...]

    @property
    def total(self) -> Usage:
        return sum((member.own + member.elsewhere for member in self.members), Usage())


async def tree_of(box: Interlock, run: str) -> Tree:
    """The run and all below it, replayed; `JournalDiverged` if the engine would now conclude otherwise."""
    rows = [await box.journal.row(run), *await box.journal.below(run)]
    here = {row.run for row in rows}
    members = []
    for row in in_order(rows):
        records = await box.journal.records(row.run)
        members.append(_read(Run(await box.crew_of(row), row.run), row, records, here, is_first=row.run == run))
    return Tree(members=tuple(members))


def in_order(rows: Sequence[RunRow]) -> Iterator[RunRow]:
    """The first, and those below it, each after the one that called it."""
    children: dict[str, list[RunRow]] = {}
    for row in rows[1:]:
        children.setdefault(parent_of(row.run), []).append(row)
    ahead = [rows[0]]
    while ahead:
        row = ahead.pop()
        yield row
        ahead += sorted(children.get(row.run, []), key=_when_called, reverse=True)


def _when_called(row: RunRow) -> list[int]:
    return [int(part) for part in key_of(row.run).split(".")]


def _read(run: Run, row: RunRow, records: Sequence[Record], here: set[str], *, is_first: bool) -> Member:
    said: list[Entry | str] = []
    elsewhere = returned = Usage()
    for record in records:
        before = len(run.state.history)
        incoming, *derived = record.events
        if list(run.apply(incoming).facts) != derived:  # type: ignore[arg-type]
            raise JournalDiverged(row.run, record.seq)
        said += [entry for entry in run.state.history[before:] if _is_said_here(entry, row.run, is_first)]
        said += [fact.child for fact in derived if isinstance(fact, ChildStarted) and fact.child in here]
        returned += _returned(incoming, derived)
        if isinstance(incoming, ChildReturned) and child_id(row.run, incoming.call) not in here:
            elsewhere += _returned(incoming, derived)
    state = run.state
    waits = tuple(wait for wait in state.waits if not wait.child)
    return Member(
        row=row,
        path=state.path,
        own=without(state.usage, returned),
        by_agent=usage_by_agent(record.events for record in records),
        elsewhere=elsewhere,
        waits=waits,
        people=tuple(line for record in records if (line := person_line(record.events[0]))),
        said=tuple(said),
    )


def _is_said_here(entry: Entry, run: str, is_first: bool) -> bool:
    """What came along from callers, or back from children, is shown where it was said."""
    return not is_below(entry.run, run) if is_first else entry.run == run


def _returned(incoming: Event, derived: Sequence[Event]) -> Usage:
    """What a child that came back has cost."""
    if not isinstance(incoming, ChildReturned) or any(isinstance(fact, WentStale) for fact in derived):
        return Usage()
    return incoming.usage


def without(usage: Usage, part: Usage) -> Usage:
    return Usage(
        calls=usage.calls - part.calls,
        input_tokens=usage.input_tokens - part.input_tokens,
        output_tokens=usage.output_tokens - part.output_tokens,
        cost_micros=usage.cost_micros - part.cost_micros,
        unpriced_calls=usage.unpriced_calls - part.unpriced_calls,
    )
