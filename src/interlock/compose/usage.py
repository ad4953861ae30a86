"""The cost of the runs of a data folder, by crew and by agent.

Rule 1: it is read from the journals, about 20 µs per record. The total of a run that does not run is stored, so it is
added up once. Nothing is stored while a run is running.
Rule 2: a call counts once. The past that a fork shares counts for the original run.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from interlock.compose.working.recovery import run_pages
from interlock.engine.budgets.usage import NO_SAVINGS, CacheSavings, savings_by_agent, usage_by_agent
from interlock.engine.events import RunStarted, Usage
from interlock.errors import DamagedRun, RunNotFound, StoreFailed
from interlock.ports import Journal, Record, RunRow, RunUsage, UsageTotals

# Rows per read.
PAGE = 1_000
DAY_MS = 24 * 3_600_000


class CrewCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of the runs of one crew, by agent, the highest first, and what caching saved of it.

    `savings_by_agent` has the agents of which something was cached.
    """

    crew: str
    runs: int
    usage: Usage
    agents: dict[str, Usage]
    savings: CacheSavings = NO_SAVINGS
    savings_by_agent: dict[str, CacheSavings] = {}


class CostInPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of an agent in the runs of its crew that started in the period that begins at `at`."""

    at: int
    crew: str
    agent: str
    usage: Usage


class CostReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of runs. `unread` are damaged runs, whose cost is unknown."""

    runs: int
    usage: Usage
    crews: tuple[CrewCost, ...]
    savings: CacheSavings = NO_SAVINGS
    times: tuple[CostInPeriod, ...] = ()
    unread: tuple[str, ...] = ()


class UsageStore(Journal, UsageTotals, Protocol):
    """A store of runs and of their cost."""


async def cost_report(
    store: UsageStore, *, crew: str | None = None, since_ms: int = 0, step_ms: int = DAY_MS
) -> CostReport:
    """The cost of all runs started since a time, of one crew or of all; each of `times` is `step_ms` long."""
    counted: dict[str, list[RunUsage]] = {}
    times: dict[tuple[int, str, str], Usage] = {}
    unread: list[str] = []
    async for page in run_pages(store, PAGE, crew=crew):
        rows = [row for row in page if row.created_at >= since_ms]
        added_up = await _add_up_usage(store, rows)
        unread += added_up.unread
        for row in rows:
            if (found := added_up.spent.get(row.run)) is not None:
                counted.setdefault(row.crew, []).append(found)
                for agent, usage in found.agents.items():
                    place = (row.created_at // step_ms * step_ms, row.crew, agent)
                    times[place] = times.get(place, Usage()) + usage
    crews = sorted(
        (_of_crew(name, runs) for name, runs in counted.items()), key=lambda each: _order(each.crew, each.usage)
    )
    return CostReport(
        runs=sum(each.runs for each in crews),
        usage=sum((each.usage for each in crews), Usage()),
        crews=tuple(crews),
        savings=sum((each.savings for each in crews), NO_SAVINGS),
        times=tuple(
            CostInPeriod(at=at, crew=of, agent=who, usage=used) for (at, of, who), used in sorted(times.items())
        ),
        unread=tuple(unread),
    )


class _UsageByRun(NamedTuple):
    """The cost of runs by agent, without runs that were deleted meanwhile."""

    spent: dict[str, RunUsage]
    unread: list[str]


async def _add_up_usage(store: UsageStore, rows: Sequence[RunRow]) -> _UsageByRun:
    known, unread, new = dict(await store.usage_by_run(rows)), [], []
    for row in rows:
        if row.run in known:
            continue
        try:
            now, records = await store.row_with_records(row.run)
        except DamagedRun:
            unread.append(row.run)
        except RunNotFound:
            continue
        else:
            known[row.run] = found = usage_of_run(now, records)
            if now.status != "running":
                new.append(found)
    if new:
        with suppress(StoreFailed):  # the report works also on a full disk or a read-only folder
            await store.store_usage(new)
    return _UsageByRun(known, unread)


def usage_of_run(row: RunRow, records: Sequence[Record]) -> RunUsage:
    """What a run has cost by agent, from its whole journal."""
    transitions = [record.events for record in records[_count_inherited(row, records) :]]
    agents, savings = usage_by_agent(transitions), savings_by_agent(transitions)
    return RunUsage(run=row.run, seq=row.seq, agents=agents, savings=savings)


def _count_inherited(row: RunRow, records: Sequence[Record]) -> int:
    """The number of records that a fork copied: its row names the original run, its first record does not."""
    first = records[0].events[0]
    if not row.continues or (isinstance(first, RunStarted) and first.continues == row.continues):
        return 0
    return sum(record.at < row.created_at for record in records)


def _of_crew(name: str, runs: Sequence[RunUsage]) -> CrewCost:
    agents: dict[str, Usage] = {}
    savings: dict[str, CacheSavings] = {}
    for run in runs:
        for agent, usage in run.agents.items():
            agents[agent] = agents.get(agent, Usage()) + usage
        for agent, saved in run.savings.items():
            savings[agent] = savings.get(agent, NO_SAVINGS) + saved
    return CrewCost(
        crew=name,
        runs=len(runs),
        usage=sum(agents.values(), Usage()),
        agents=dict(sorted(agents.items(), key=lambda item: _order(*item))),
        savings=sum(savings.values(), NO_SAVINGS),
        savings_by_agent=savings,
    )


def _order(name: str, usage: Usage) -> tuple[int, int, str]:
    return -usage.cost_micros, -usage.tokens, name
