"""One story: a program is killed, others find its run, and a second program with everything ends it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from interlock import Interlock
from interlock.adapters.crash_points import CRASH_EXIT_CODE
from interlock.engine.events import ModelReplied, ToolReturned
from tests.campaign import needs_child

LACKING = ("serve", "resume", "schedule")


class NeedyLives:
    """A server of forks, so that a life costs milliseconds."""

    def __init__(self, program: str = needs_child.__name__) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, folder: Path, role: str, crash_at: int = 0) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        job = {"folder": str(folder), "role": role, "crash_at": crash_at}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def story_of(lives: NeedyLives, folder: Path, crash_at: int, lacking_crash_at: int = 0) -> tuple[list[str], bool]:
    """The faults, and whether the first program died. The processes that lack something may die too."""
    needs_child.write_crews(folder)
    died = lives.live(folder, "begin", crash_at) == CRASH_EXIT_CODE
    if not died:
        return _end_faults(folder), False
    wrong: list[str] = []
    noted = _calls(folder)
    for role in LACKING:
        codes = [lives.live(folder, role, lacking_crash_at)] if lacking_crash_at else []
        codes.append(lives.live(folder, role))
        wrong += [f"{role} ended with {code}" for code in codes if code not in (0, CRASH_EXIT_CODE)]
    if _calls(folder) != noted:
        wrong.append("a process that lacks something called a function")
    answered = asyncio.run(_answered(folder))
    code = lives.live(folder, "second")
    wrong += [f"the second program ended with {code}"] if code else []
    again = [call for call in _calls(folder)[len(noted) :] if call in answered]
    wrong += [f"{call} was made again and had an answer" for call in again]
    return wrong + _end_faults(folder), True


def _calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


async def _answered(folder: Path) -> set[str]:
    """The calls that have an answer in a journal."""
    found: set[str] = set()
    async with Interlock(folder / "data") as box:
        for row in await box.journal.rows():
            for event in [event for record in await box.journal.records(row.run) for event in record.events]:
                if isinstance(event, ModelReplied | ToolReturned):
                    found.add(f"{'model' if isinstance(event, ModelReplied) else 'tool'} {row.run}:{event.call}")
    return found


def _end_faults(folder: Path) -> list[str]:
    return asyncio.run(_read_end(folder))


async def _read_end(folder: Path) -> list[str]:
    wrong: list[str] = []
    async with Interlock(folder / "data") as box:
        rows = [row for row in await box.journal.rows() if row.crew != "plain"]
        statuses = sorted((row.crew, row.status) for row in rows)
        if statuses != [("desk", "completed"), ("helpers", "completed")]:
            wrong.append(f"the runs ended as {statuses}")
        for row in rows:
            for event in [event for record in await box.journal.records(row.run) for event in record.events]:
                if isinstance(event, ModelReplied) and "REAL" in event.text:
                    wrong.append(f"{row.run} was driven with the model that its crew names")
                if isinstance(event, ToolReturned) and event.output != f"found in {needs_child.DEPS}":
                    wrong.append(f"a tool of {row.run} returned {event.output!r}")
        wrong += list(await box.store.problems())
    return wrong
