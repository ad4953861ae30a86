"""Finding 2.7: retention by itself, `interlock compact` gives space back, tombstones expire."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.config.host_file import HostSettings
from interlock.cli.main import interlock
from interlock.compose.upkeep.retention import Retention, RetentionSettings
from interlock.messages.frames import words_in_frames
from interlock.testing import ManualClock
from tests.boxes import sqlite_of

CREW = """\
version: "2.0"
name: news
entry_point: writer
agents: [{id: writer, system_prompt: "Write."}]
routing: {signals: {writer: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""
DAY = 24 * 3_600_000
START = 1_800_000_000_000
LONG = "word " * 20_000


def crew_in(folder: Path, text: str = CREW) -> Any:
    (folder / "crew.yaml").write_text(text, "utf-8")
    return load_crew(folder / "crew.yaml")


def box_of(folder: Path, clock: ManualClock, **retention: float) -> Interlock:
    def reply(request: Any) -> str:
        return "[WAIT]" if words_in_frames(request.messages[-1].text) == ["wait"] else f"{LONG}\n[DONE]"

    host = HostSettings(
        retention_days=retention.get("days"),
        broadcast_days=retention.get("broadcast_days"),
        tombstone_days=retention.get("tombstone_days"),
    )
    return Interlock(folder / "data", models=reply, clock=clock, host=host, recover=True)


async def run_of(box: Interlock, crew: Any, text: str, run_id: str) -> None:
    await (await box.start(crew, text, run_id=run_id)).result()


async def until(clock: ManualClock, check: Callable[[], Awaitable[bool]]) -> None:
    """Minutes pass until it is so: within the hour retention looks again."""
    while not await check():
        clock.advance(60_000)
        await asyncio.sleep(0)


async def test_a_host_that_recovers_deletes_what_is_due(tmp_path: Path) -> None:
    crew, clock = crew_in(tmp_path), ManualClock(START)

    async with box_of(tmp_path, clock, days=30, broadcast_days=7, tombstone_days=10) as box:

        async def is_pruned() -> bool:
            kept = [each.type for each in await box.signals.newest(10)]
            return "old" not in [row.run for row in await box.journal.rows()] and "build:one:done" not in kept

        async def is_forgotten() -> bool:
            return not await box.archive.tombstones()

        await run_of(box, crew, "hello", "old")
        await run_of(box, crew, "wait", "waiting")
        await box.signals.emit("build:one:done")
        clock.advance(20 * DAY)
        await run_of(box, crew, "hello", "new")
        await box.signals.emit("build:two:done")
        clock.advance(11 * DAY)
        await until(clock, is_pruned)
        assert sorted(row.run for row in await box.journal.rows()) == ["new", "waiting"]
        assert [left.run for left in await box.archive.tombstones()] == ["old"]
        clock.advance(10 * DAY)
        await until(clock, is_forgotten)


async def test_without_numbers_nothing_is_deleted(tmp_path: Path) -> None:
    crew, clock = crew_in(tmp_path), ManualClock(START)

    async with box_of(tmp_path, clock) as box:
        await run_of(box, crew, "hello", "old")
        clock.advance(1000 * DAY)
        await Retention(box.store, box.signals.bus, clock, RetentionSettings()).sweep()
        assert [row.run for row in await box.journal.rows()] == ["old"]


def test_compact_gives_the_space_of_deleted_runs_back(tmp_path: Path) -> None:
    crew, clock = crew_in(tmp_path), ManualClock(START)

    async def fill() -> None:
        async with box_of(tmp_path, clock) as box:
            for n in range(30):
                await run_of(box, crew, "hello", f"run{n}")
            for n in range(29):
                await box.archive.delete_tree(f"run{n}", clock.now_ms())

    asyncio.run(fill())
    database = tmp_path / "data" / "interlock.db"
    before = database.stat().st_size
    done = CliRunner().invoke(interlock, ["compact", "--data", str(tmp_path / "data")])
    assert done.exit_code == 0, done.output
    assert database.stat().st_size < before / 4
    healthy = CliRunner().invoke(interlock, ["doctor", "--data", str(tmp_path / "data")])
    assert healthy.exit_code == 0, healthy.output
    replay = CliRunner().invoke(interlock, ["runs", "replay", "run29", "--data", str(tmp_path / "data")])
    assert replay.exit_code == 0, replay.output


def test_compact_drops_older_files_of_crews_that_nothing_names(tmp_path: Path) -> None:
    clock = ManualClock(START)

    async def fill() -> list[str]:
        async with box_of(tmp_path, clock) as box:
            for n in range(3):
                await run_of(box, crew_in(tmp_path, CREW.replace("Write.", f"Write {n}.")), "hello", f"run{n}")
            shas = [row.crew_sha for row in await box.journal.rows()]
            await box.archive.delete_tree("run0", clock.now_ms())
            await box.archive.delete_tree("run2", clock.now_ms())
            return shas

    async def which(shas: list[str]) -> list[bool]:
        async with Interlock(tmp_path / "data") as box:
            there = []
            for sha in shas:
                try:
                    there.append(bool(await box.journal.crew(sha)))
                except Exception:
                    there.append(False)
            return there

    shas = asyncio.run(fill())
    CliRunner().invoke(interlock, ["compact", "--data", str(tmp_path / "data")])
    # The newest is what subscriptions and schedules would start, the middle one belongs to a run.
    assert asyncio.run(which(shas)) == [True, True, False]


async def test_compact_beside_a_living_process_keeps_every_crew_and_the_process_goes_on(tmp_path: Path) -> None:
    clock = ManualClock(START)

    async with box_of(tmp_path, clock) as box:
        older = crew_in(tmp_path)
        await run_of(box, older, "hello", "run0")
        await box.archive.delete_tree("run0", clock.now_ms())
        await run_of(box, crew_in(tmp_path, CREW.replace("Write.", "Write more.")), "hello", "run1")
        async with Interlock(tmp_path / "data") as beside:
            await sqlite_of(beside).compact()
        await run_of(box, older, "hello", "run2")
        assert len(await box.journal.records("run2")) > 1
