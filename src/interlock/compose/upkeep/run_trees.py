"""A run and all runs below it: status, own cost, and transcript of each.

Rule 1: a run comes before its children, and they are in the order of their calls.
Rule 2: the own cost of a run is that of its journal without the costs of children that returned to it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from interlock.compose.interlock import Interlock
from interlock.engine.budgets.usage import usage_by_agent
from interlock.engine.events import ChildReturned, ChildStarted, Entry, Event, Usage, WentStale
from interlock.engine.explain import person_line
from interlock.engine.run import Run
from interlock.engine.state import Wait
from interlock.errors import JournalDiverged
from interlock.ids import child_id, is_below, key_of, parent_of
from interlock.ports import Record, RunRow


class Member(msgspec.Struct, kw_only=True):
    """One run of a tree. `path` names the sub-crews from the outermost run down to it; `own` is its own cost.

    `elsewhere` is the cost of children that are not here: those of the run that this one was forked from.
    """

    row: RunRow
    path: tuple[str, ...] = ()
    own: Usage = Usage()
    by_agent: dict[str, Usage] = {}
    elsewhere: Usage = Usage()
    waits: tuple[Wait, ...] = ()
    people: tuple[str, ...] = ()  # people that started, answered, continued and cancelled it, in order
    said: "tuple[Entry | str, ...]" = ()  # in order; a child appears where it was called


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """`members` are in order, the run that was asked for first."""

    members: tuple[Member, ...]

    @property
    def total(self) -> Usage:
        return sum((member.own + member.elsewhere for member in self.members), Usage())


async def tree_of(box: Interlock, run: str) -> Tree:
    """Replays a run and all below it; `JournalDiverged` if the engine would now decide otherwise."""
    rows = [await box.journal.row(run), *await box.journal.rows_below(run)]
    here = {row.run for row in rows}
    members = []
    for row in in_order(rows):
        records = await box.journal.records(row.run)
        members.append(_read(Run(await box.crew_of(row), row.run), row, records, here, is_first=row.run == run))
    return Tree(members=tuple(members))


def in_order(rows: Sequence[RunRow]) -> Iterator[RunRow]:
    """The first row and those below it, each after its caller."""
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
        returned += _child_usage(incoming, derived)
        if isinstance(incoming, ChildReturned) and child_id(row.run, incoming.call) not in here:
            elsewhere += _child_usage(incoming, derived)
    state = run.state
    waits = tuple(wait for wait in state.waits if not wait.child)
    return Member(
        row=row,
        path=state.path,
        own=subtract_usage(state.usage, returned),
        by_agent=usage_by_agent(record.events for record in records),
        elsewhere=elsewhere,
        waits=waits,
        people=tuple(line for record in records if (line := person_line(record.events[0]))),
        said=tuple(said),
    )


def _is_said_here(entry: Entry, run: str, is_first: bool) -> bool:
    """Whether an entry belongs to this run: entries of callers and children are shown in their own run."""
    return not is_below(entry.run, run) if is_first else entry.run == run


def _child_usage(incoming: Event, derived: Sequence[Event]) -> Usage:
    """The cost of a child that returned."""
    if not isinstance(incoming, ChildReturned) or any(isinstance(fact, WentStale) for fact in derived):
        return Usage()
    return incoming.usage


def subtract_usage(usage: Usage, part: Usage) -> Usage:
    return Usage(
        calls=usage.calls - part.calls,
        input_tokens=usage.input_tokens - part.input_tokens,
        cache_read_tokens=usage.cache_read_tokens - part.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens - part.cache_write_tokens,
        output_tokens=usage.output_tokens - part.output_tokens,
        reasoning_tokens=usage.reasoning_tokens - part.reasoning_tokens,
        cost_micros=usage.cost_micros - part.cost_micros,
        unpriced_calls=usage.unpriced_calls - part.unpriced_calls,
    )
