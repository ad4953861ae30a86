"""A year of one server under a virtual clock: schedules, retention, compaction, changed crews; writes its results.

Usage: python -m campaign.year [DAYS]      365 unless told; 1 if something was missed or the database grew

An hour passes in a moment. Runs start four times a day by a schedule, a broadcast is sent every hour, the crew's file
changes every month and is read again, and the folder is compacted every week. What is kept is 30 days of runs and 7 of
broadcasts; after the first two months the database must not grow.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import machine, table
from campaign import results
from interlock import Interlock, load_crew
from interlock.adapters.crew_files import read_crew
from interlock.adapters.host_file import HostSettings
from interlock.broadcast.schedules import Schedule
from interlock.compose.checkup import check_up
from interlock.server.crews import ServedCrews
from interlock.testing import ManualClock

DAYS = 365
HOUR, DAY = 3_600_000, 24 * 3_600_000
START = 1_790_000_000_000
RUN_DAYS, BROADCAST_DAYS, TOMBSTONE_DAYS = 30, 7, 10
EVERY_HOURS = 6
# After so long all that is kept has been filled once.
SETTLED_DAYS = 60
GROWTH_MAX = 1.10

CREW = """\
version: "2.0"
name: almanac
description: Revision {revision}.
entry_point: writer
agents: [{{id: writer, system_prompt: "Write."}}]
routing: {{signals: {{writer: [{{signal: "[DONE]"}}]}}}}
"""


class Year(NamedTuple):
    sizes: list[tuple[int, int]]  # of the database after so many days, compacted
    runs_started: int
    runs_kept: int
    broadcasts_kept: int
    tombstones: int
    revisions: int
    problems: list[str]

    @property
    def growth(self) -> float:
        later = [size for day, size in self.sizes if day >= SETTLED_DAYS]
        return max(later) / later[0] if later else 1.0

    @property
    def faults(self) -> list[str]:
        found = list(self.problems)
        if self.growth > GROWTH_MAX:
            found.append(f"the database grew {self.growth:.2f} times after {SETTLED_DAYS} days")
        return found


def reply(request: Any) -> str:
    return f"{'A quiet day at the harbour. ' * 40}{request.number}\n[DONE]"


async def _until_quiet(box: Interlock) -> None:
    """Until nothing runs and the schedule waits for a time to come."""
    while box.runner.live or any(each.due_at <= box.clock.now_ms() for each in await box.schedules.list()):
        await asyncio.sleep(0)


async def live(folder: Path, days: int) -> Year:
    """So many days of a server, hour by hour."""
    clock, file = ManualClock(START), folder / "crew.yaml"
    file.write_text(CREW.format(revision=0), "utf-8")
    served, revisions = ServedCrews([read_crew(file)], START), {""}
    host = HostSettings(retention_days=RUN_DAYS, broadcast_days=BROADCAST_DAYS, tombstone_days=TOMBSTONE_DAYS)
    sizes, problems = list[tuple[int, int]](), list[str]()
    async with Interlock(
        folder / "data", host=host, clock=clock, models=reply, recover=True, durability="normal"
    ) as box:
        await box.listen(served.all()[0].crew)
        every = Schedule(every_ms=EVERY_HOURS * HOUR)
        await box.schedule_runs(load_crew(file), "What happened today?", repeat=every)
        for hour in range(1, days * 24 + 1):
            clock.advance(HOUR)
            await box.signals.emit("harbour:hour", {"hour": hour})
            await _until_quiet(box)
            if hour % (24 * 30) == 0:
                file.write_text(CREW.format(revision=hour), "utf-8")
                for changed in served.replace([read_crew(file)], clock.now_ms()):
                    revisions.add(changed.revision)
                    await box.listen(changed.crew)
            if hour % (24 * 7) == 0:
                sizes.append((hour // 24, (await box.store.compact())[1]))
        started = days * 24 // EVERY_HOURS
        await _until_swept(box, clock)
        rows = await _all_runs(box)
        problems += _missing(rows, started, clock.now_ms())
        kept = [each async for each in _broadcasts(box)]
        tombstones = len(await box.keeping.tombstones())
    problems += (await check_up(folder / "data", host)).problems
    return Year(sizes, started, len(rows), len(kept), tombstones, len(revisions) - 1, problems)


async def _until_swept(box: Interlock, clock: ManualClock) -> None:
    """Retention looks once an hour; afterwards nothing older than is kept is there."""
    while min(row.updated_at for row in await _all_runs(box)) < clock.now_ms() - RUN_DAYS * DAY - 2 * HOUR:
        clock.advance(60_000)
        await asyncio.sleep(0)


async def _all_runs(box: Interlock) -> list[Any]:
    return list(await box.journal.rows(limit=1_000_000))


async def _broadcasts(box: Interlock) -> Any:
    position = 0
    while page := await box.signals.bus.since(position, 500):
        for _, broadcast in page:
            if broadcast.type == "harbour:hour":
                yield broadcast
        position = page[-1][0]


def _missing(rows: list[Any], started: int, now: int) -> list[str]:
    """Whether every occurrence of the time that is kept has its run, and all of them are completed."""
    found = [f"run {row.run} is {row.status}" for row in rows if row.status != "completed"]
    due = min(started, RUN_DAYS * 24 // EVERY_HOURS)
    if not due - 2 <= len(rows) <= due + 2:
        found.append(f"{len(rows)} runs are kept, and about {due} were due in the time that is kept")
    return found


def page(days: int, year: Year) -> str:
    verdict = "met" if not year.faults else "MISSED"
    rows = [
        ("runs that schedules started", f"{year.runs_started:,}"),
        ("of these kept", f"{year.runs_kept:,}"),
        ("broadcasts kept, one was sent an hour", f"{year.broadcasts_kept:,}"),
        ("tombstones kept", f"{year.tombstones:,}"),
        ("revisions of the crew that were served", f"{year.revisions:,}"),
        ("the database, compacted, after two months", _megabytes(year, SETTLED_DAYS)),
        ("the database, compacted, at the end", _megabytes(year, days - 7)),
    ]
    parts = [
        "# Year campaign",
        f"Written by `python -m campaign.year`. {machine()}. {days} days of one server under a virtual clock.",
        f"- {verdict}: every run of the schedule that is to be kept is there, nothing else, and the database grows by"
        f" at most {GROWTH_MAX - 1:.0%} after two months; measured {year.growth:.2f} times",
        table(("what", "count"), rows),
        *(["## Faults", "\n".join(f"- {fault}" for fault in year.faults)] if year.faults else []),
    ]
    return "\n\n".join(parts) + "\n"


def _megabytes(year: Year, day: int) -> str:
    return next((f"{size / 1024**2:.2f} MB" for at, size in year.sizes if at >= day), "-")


def main(words: list[str]) -> int:
    days = int(words[0]) if words else DAYS
    with tempfile.TemporaryDirectory() as folder:
        year = asyncio.run(live(Path(folder), days))
    text = page(days, year)
    print(text)
    if not words:
        results.put(text)
    return 1 if year.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
