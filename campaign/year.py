"""A year of one server under a virtual clock: schedules, retention, compaction, reload, logs; writes its results.

Usage: python -m campaign.year [DAYS]      365 unless told; 1 if something was missed or the database grew

An hour passes in a moment. Runs start four times a day by a schedule, a broadcast is sent every hour, the crew's file
changes every month and is read again, and the folder is compacted every week. What is kept is 30 days of runs and 7 of
broadcasts; after the first two months the database must not grow. Two logs are written: one rotates itself by size, and
must stay within its bound; the other is moved away every day, as logrotate does, and must lose no line.
"""

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import machine, table
from campaign import results
from interlock import Interlock, load_crew
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.log.log_file import LOG_FILE, LogFile
from interlock.adapters.log.log_lines import JsonLines
from interlock.adapters.log.run_log import RUNS, RunLog
from interlock.broadcast.schedules import Schedule
from interlock.compose.upkeep.doctor import check_store
from interlock.server.crews import ServedCrews
from interlock.server.reload import CrewReloader
from interlock.testing import ManualClock

DAYS = 365
HOUR, DAY = 3_600_000, 24 * 3_600_000
START = 1_790_000_000_000
RUN_DAYS, BROADCAST_DAYS, TOMBSTONE_DAYS = 30, 7, 10
EVERY_HOURS = 6
# After so long all that is kept has been filled once.
SETTLED_DAYS = 60
GROWTH_MAX = 1.10
# Of the log that rotates itself; a month of runs does not fit.
LOG_BYTES, LOG_FILES = 20_000, 3
NEVER = 2**40
# What is said of every run when it begins and when it ends.
LINES_A_RUN = 2

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
    log_lines: int  # about runs, in all files that were moved away and the last one
    log_bytes: int  # of the log that rotates itself
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
        if self.log_lines != LINES_A_RUN * self.runs_started:
            found.append(f"the log has {self.log_lines} lines about {self.runs_started} runs")
        if self.log_bytes > LOG_BYTES * LOG_FILES:
            found.append(f"the log that rotates itself has {self.log_bytes:,} bytes")
        return found


def reply(request: Any) -> str:
    return f"{'A quiet day at the harbour. ' * 40}{request.number}\n[DONE]"


async def _until_quiet(box: Interlock) -> None:
    """Until nothing runs and the schedule waits for a time to come."""
    while box.runner.live or any(each.due_at <= box.clock.now_ms() for each in await box.schedules.list()):
        await asyncio.sleep(0)


class Logs:
    """Both logs of the year."""

    def __init__(self, folder: Path) -> None:
        self._moved, self._bounded = folder / "moved", folder / "bounded"

    @contextmanager
    def written(self) -> Iterator[None]:
        own = logging.getLogger("interlock")
        before = own.level
        own.setLevel(logging.INFO)
        for handler in (LogFile(self._moved, NEVER, 1), LogFile(self._bounded, LOG_BYTES, LOG_FILES)):
            handler.setFormatter(JsonLines(KnownSecrets()))
            own.addHandler(handler)
        try:
            yield
        finally:
            own.setLevel(before)
            for handler in [each for each in own.handlers if isinstance(each, LogFile)]:
                own.removeHandler(handler)
                handler.close()

    def move_away(self, day: int) -> None:
        (self._moved / LOG_FILE).rename(self._moved / f"{day}.log")

    def lines(self) -> int:
        """Lines about the start or the end of a run."""
        written = [line for file in self._moved.glob("*.log") for line in file.read_text("ascii").splitlines()]
        return sum(1 for line in map(json.loads, written) if line["logger"] == RUNS)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self._bounded.iterdir())


async def live(folder: Path, days: int) -> Year:
    """So many days of a server, hour by hour."""
    logs = Logs(folder)
    with logs.written():
        return await _lived(folder, days, logs)


async def _lived(folder: Path, days: int, logs: Logs) -> Year:
    clock, file = ManualClock(START), folder / "crew.yaml"
    file.write_text(CREW.format(revision=0), "utf-8")
    served, revisions = ServedCrews([read_crew(file)], START), set[str]()
    revisions.add(served.all()[0].revision)
    host = HostSettings(retention_days=RUN_DAYS, broadcast_days=BROADCAST_DAYS, tombstone_days=TOMBSTONE_DAYS)
    sizes, problems = list[tuple[int, int]](), list[str]()
    async with Interlock(
        folder / "data",
        host=host,
        clock=clock,
        models=reply,
        recover=True,
        durability="normal",
        observers=[RunLog(lambda _: None)],
    ) as box:
        reloading = CrewReloader(
            served,
            lambda: [read_crew(file)],
            box,
            watch=False,
            needs_restart=lambda: False,
            stop_server=lambda: None,
        )
        reading = asyncio.create_task(reloading.run())
        await box.listen(served.all()[0].crew)
        every = Schedule(every_ms=EVERY_HOURS * HOUR)
        await box.schedule_runs(load_crew(file), "What happened today?", repeat=every)
        for hour in range(1, days * 24 + 1):
            clock.advance(HOUR)
            await box.signals.emit("harbour:hour", {"hour": hour})
            await _until_quiet(box)
            if hour % (24 * 30) == 0:
                file.write_text(CREW.format(revision=hour), "utf-8")
                reloading.request_reload()
                while served.all()[0].revision in revisions:
                    await asyncio.sleep(0)
                revisions.add(served.all()[0].revision)
            if hour % 24 == 0:
                logs.move_away(hour // 24)
            if hour % (24 * 7) == 0:
                sizes.append((hour // 24, (await box.home.compact("full"))[1]))
        started = days * 24 // EVERY_HOURS
        await _until_swept(box, clock)
        rows = await _all_runs(box)
        problems += _missing(rows, started, clock.now_ms())
        kept = [each async for each in _broadcasts(box)]
        tombstones = len(await box.archive.tombstones())
        reading.cancel()
    problems += (await check_store(folder / "data", host)).problems
    changed = len(revisions) - 1
    return Year(sizes, started, len(rows), len(kept), tombstones, changed, logs.lines(), logs.size(), problems)


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
    """Checks that every occurrence of the retention period has its run, and that all are completed."""
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
        ("lines about runs in logs that were moved away", f"{year.log_lines:,}"),
        ("the log that rotates itself", f"{year.log_bytes:,} bytes of {LOG_BYTES * LOG_FILES:,}"),
        ("the database, compacted, after two months", _megabytes(year, SETTLED_DAYS)),
        ("the database, compacted, at the end", _megabytes(year, days - 7)),
    ]
    parts = [
        "# Year campaign",
        f"Written by `python -m campaign.year`. {machine()}. {days} days of one server under a virtual clock.",
        f"- {verdict}: every run of the schedule that is to be kept is there, nothing else; no line of the log is lost,"
        f" and the database grows by at most {GROWTH_MAX - 1:.0%} after two months; measured {year.growth:.2f} times",
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
