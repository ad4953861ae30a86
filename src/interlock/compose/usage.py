"""What the runs of a data folder have cost, crew by crew and agent by agent.

Rule 1: it is read from the journals, about 20 µs a record, and what a run that does not move has cost is kept: a run
is added up once. Nothing is kept for it while runs go on.
Rule 2: a call counts once. What a fork has from the run that it was made of was paid for there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from interlock.compose.recovery import pages
from interlock.engine.accounting import usage_by_agent
from interlock.engine.events import RunStarted, Usage
from interlock.errors import DamagedRun, RunNotFound, StoreFailed
from interlock.ports import Journal, Record, RunRow, SpentByRun, Sums

# Rows read in one go.
PAGE = 1_000
DAY_MS = 24 * 3_600_000


class CrewUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What runs of one crew have cost, by agent; who has cost most comes first."""

    crew: str
    runs: int
    usage: Usage
    agents: dict[str, Usage]


class SpentAt(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has cost in the runs of its crew that were started in the time that begins with `at`."""

    at: int
    crew: str
    agent: str
    usage: Usage


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What runs have cost. `unread` are damaged runs, of which nobody knows."""

    runs: int
    usage: Usage
    crews: tuple[CrewUsage, ...]
    times: tuple[SpentAt, ...] = ()
    unread: tuple[str, ...] = ()


class Store(Journal, Sums, Protocol):
    """Where runs are, and what they have cost."""


async def spent_in(store: Store, *, crew: str | None = None, since_ms: int = 0, step_ms: int = DAY_MS) -> Spent:
    """By all runs that were started since then, of one crew or of every one; `times` are so long."""
    counted: dict[str, list[Mapping[str, Usage]]] = {}
    times: dict[tuple[int, str, str], Usage] = {}
    unread: list[str] = []
    async for page in pages(store, PAGE, crew=crew):
        rows = [row for row in page if row.created_at >= since_ms]
        added_up = await _added_up(store, rows)
        unread += added_up.unread
        for row in rows:
            if (found := added_up.spent.get(row.run)) is not None:
                counted.setdefault(row.crew, []).append(found)
                for agent, usage in found.items():
                    place = (row.created_at // step_ms * step_ms, row.crew, agent)
                    times[place] = times.get(place, Usage()) + usage
    crews = sorted(
        (_of_crew(name, runs) for name, runs in counted.items()), key=lambda each: _order(each.crew, each.usage)
    )
    return Spent(
        runs=sum(each.runs for each in crews),
        usage=sum((each.usage for each in crews), Usage()),
        crews=tuple(crews),
        times=tuple(SpentAt(at=at, crew=of, agent=who, usage=used) for (at, of, who), used in sorted(times.items())),
        unread=tuple(unread),
    )


class _AddedUp(NamedTuple):
    """What runs have cost by agent; those that were deleted meanwhile are not there."""

    spent: dict[str, Mapping[str, Usage]]
    unread: list[str]


async def _added_up(store: Store, rows: Sequence[RunRow]) -> _AddedUp:
    known, unread, new = dict(await store.spent(rows)), [], []
    for row in rows:
        if row.run in known:
            continue
        try:
            now, records = await store.whole(row.run)
        except DamagedRun:
            unread.append(row.run)
        except RunNotFound:
            continue
        else:
            agents = usage_by_agent(record.events for record in records[_inherited(now, records) :])
            known[row.run] = agents
            if now.status != "running":
                new.append(SpentByRun(run=row.run, seq=now.seq, agents=agents))
    if new:
        with suppress(StoreFailed):  # a disk that is full, or a folder that can only be read, may be asked all the same
            await store.keep_spent(new)
    return _AddedUp(known, unread)


def _inherited(row: RunRow, records: Sequence[Record]) -> int:
    """How many records a fork has from another run: its row names that one, and its first record, copied, does not."""
    first = records[0].events[0]
    if not row.continues or (isinstance(first, RunStarted) and first.continues == row.continues):
        return 0
    return sum(record.at < row.created_at for record in records)


def _of_crew(name: str, runs: Sequence[Mapping[str, Usage]]) -> CrewUsage:
    agents: dict[str, Usage] = {}
    for run in runs:
        for agent, usage in run.items():
            agents[agent] = agents.get(agent, Usage()) + usage
    in_order = dict(sorted(agents.items(), key=lambda item: _order(*item)))
    return CrewUsage(crew=name, runs=len(runs), usage=sum(agents.values(), Usage()), agents=in_order)


def _order(name: str, usage: Usage) -> tuple[int, int, str]:
    return -usage.cost_micros, -usage.tokens, name
