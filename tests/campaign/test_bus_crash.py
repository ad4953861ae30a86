"""kill -9 between any two writes of the bus: emit, deliver, schedule, replace, dispatch. Nothing acknowledged is lost,
and nothing is heard twice."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.adapters.crash_points import CRASH_EXIT_CODE
from interlock.engine.events import BroadcastDelivered, BroadcastEmitted
from tests.campaign import bus_child

LANES = 4
AGENTS = ("quiet", "loud")


class Lives:
    """A server of forks, so that a life costs milliseconds."""

    def __init__(self) -> None:
        program = str(Path(bus_child.__file__))
        self.process = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def live(self, folder: Path, crash_at: int = 0, bug: str = "") -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), "crash_at": crash_at, "bug": bug}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    made = Lives()
    yield made
    made.close()


def folder_of(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "crew.yaml").write_text(bus_child.CREW)
    return folder


class Found:
    """What a data folder holds in the end."""

    def __init__(self, folder: Path) -> None:
        self.acked = dict(json.loads(line) for line in (folder / "acked").read_text().splitlines())
        asyncio.run(self._read(folder / "data"))
        self.lines = (folder / "data" / "signals" / "events.jsonl").read_text().splitlines()

    async def _read(self, data: Path) -> None:
        async with Interlock(data) as box:
            self.kept = {each.id: each for each in await box.signals.bus.newest(1_000)}
            rows = await box.journal.rows()
            events: list[Any] = []
            for row in rows:
                events += [event for record in await box.journal.records(row.run) for event in record.events]
            self.unread = Counter[tuple[str, str]]()
            for _, agent in await box.signals.bus.agents_with_unread():
                self.unread[agent, ""] += 1
            self.dead = await box.signals.dead_letters()
            self.statuses = {row.run: row.status for row in rows}
            self.problems = await box.store.problems()
        delivered = [event for event in events if isinstance(event, BroadcastDelivered)]
        self.heard = Counter((event.agent, event.signal["id"]) for event in delivered)
        self.emitted = [event.signal["id"] for event in events if isinstance(event, BroadcastEmitted)]


def faults(found: Found) -> list[str]:
    wrong = [f"{status} {run}" for run, status in found.statuses.items() if status != "completed"]
    wrong += list(found.problems) + [f"dead: {each.reason}" for each in found.dead]
    wrong += [
        f"{what} {found.acked[what]} is lost" for what in ("emit", "replace") if found.acked[what] not in found.kept
    ]
    wrong += [f"{each} is in a journal and not on the bus" for each in found.emitted if each not in found.kept]
    wrong += [f"{agent} heard {each} {n} times" for (agent, each), n in found.heard.items() if n > 1]
    for each in found.kept.values():
        if each.type.startswith("told:") and found.heard["loud", each.id] != 1:
            wrong.append(f"loud did not hear {each.type}")
        if each.source.type != "system" and not found.heard["quiet", each.id] and not found.unread["quiet", ""]:
            wrong.append(f"quiet did not hear {each.type}, and it is not in its inbox")
    if sorted(json.loads(line)["id"] for line in found.lines) != sorted(found.kept):
        wrong.append("the view is not what the store says")
    return wrong


def test_undisturbed_everything_is_heard_once(lives: Lives, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "calm")
    assert lives.live(folder) == 0
    found = Found(folder)
    assert faults(found) == []
    assert {"told:first", "told:run", "later:x", "later:run"} <= {each.type for each in found.kept.values()}
    assert [each.data for each in found.kept.values() if each.type == "later:x"] == ["new"]


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_loses_nothing_and_repeats_nothing(lives: Lives, tmp_path: Path, lane: int) -> None:
    n = lane + 1
    while True:
        folder = folder_of(tmp_path, str(n))
        code = lives.live(folder, n)
        assert code in (0, CRASH_EXIT_CODE)
        assert lives.live(folder) == 0, f"crash at {n}"
        assert faults(Found(folder)) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 40, "so many boundaries there are at least"


@pytest.mark.parametrize("first", range(3, 60, 7))
def test_deaths_while_recovering_from_a_death(lives: Lives, tmp_path: Path, first: int) -> None:
    folder = folder_of(tmp_path, "x")
    for crash_at in (first, 5 + first % 9, 3):
        lives.live(folder, crash_at)
    assert lives.live(folder) == 0
    assert faults(Found(folder)) == []


def test_a_planted_bug_is_found(lives: Lives, tmp_path: Path) -> None:
    for n in range(8, 400):
        folder = folder_of(tmp_path, str(n))
        code = lives.live(folder, n, "dispatch in two steps")
        lives.live(folder, 0, "dispatch in two steps")
        if any("is lost" in fault for fault in faults(Found(folder))):
            return
        if code == 0:
            break
    pytest.fail("a signal that is out of the queue and not on the bus yet was never missed")
