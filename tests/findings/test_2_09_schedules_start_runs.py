"""Finding 2.9: a schedule starts a run with an input; missed ones come once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.sqlite.store import SqliteStore
from interlock.broadcast.schedules import Schedule
from interlock.cli.main import interlock
from interlock.limits import WALL_LOOK_MS
from interlock.messages.frames import words_in_frames
from interlock.testing import ManualClock
from tests.server.office import open_office

CREW = """\
version: "2.0"
name: news
entry_point: writer
agents: [{id: writer, system_prompt: "Write."}]
routing: {signals: {writer: [{signal: "[DONE]"}]}}
"""
HOUR = 3_600_000
START = 1_800_000_000_000


def crew_in(folder: Path) -> Path:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return folder / "crew.yaml"


def command(folder: Path, *words: str) -> Any:
    return CliRunner().invoke(interlock, ["schedule", *words, "--data", str(folder / "data")])


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    while not await check():
        await asyncio.sleep(0)


async def pass_time(clock: ManualClock, ms: int) -> None:
    """In steps in which the scheduler looks at the clock."""
    while ms > 0:
        step = min(ms, WALL_LOOK_MS)
        await clock.somebody_sleeps(step)
        clock.advance(step)
        ms -= step
    await asyncio.sleep(0)


def serving(folder: Path, clock: ManualClock, said: list[str]) -> Interlock:
    def reply(request: Any) -> str:
        said.extend(words_in_frames(request.messages[-1].text))
        return "Printed. [DONE]"

    return Interlock(folder / "data", models=reply, clock=clock, recover=True)


def test_a_schedule_added_by_the_command_line_starts_runs_with_its_input(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    added = command(tmp_path, "add", str(crew), "The harbour", "--every", "1h", "--json")
    assert added.exit_code == 0, added.output
    schedule = json.loads(added.output)
    clock, said = ManualClock(schedule["created_at"]), list[str]()

    async def story() -> None:
        async with serving(tmp_path, clock, said) as box:
            await pass_time(clock, HOUR + WALL_LOOK_MS)

            async def has_run() -> bool:
                return len(await box.journal.rows(status="completed")) == 1

            await until(has_run)
            (row,) = await box.journal.rows()
            (record, *_) = await box.journal.records(row.run)
            assert record.events[0].schedule == schedule["id"]  # type: ignore[union-attr]
            (planned,) = await box.schedules.list()
            assert (planned.last_run, planned.next_at) == (row.run, schedule["next_at"] + HOUR)

    asyncio.run(story())
    assert said == ["The harbour"]
    listed = command(tmp_path, "list")
    assert "every 1h" in listed.output
    assert "'The harbour'" in listed.output


async def test_missed_runs_come_once_when_the_server_is_back(tmp_path: Path) -> None:
    crew, clock, said = load_crew(crew_in(tmp_path)), ManualClock(START), list[str]()

    async def serve() -> None:
        async with serving(tmp_path, clock, said) as box:

            async def is_planned() -> bool:
                (planned,) = await box.schedules.list()
                return planned.next_at > clock.now_ms()

            await until(is_planned)
            await until(lambda: _is_quiet(box))

    async with Interlock(tmp_path / "data", clock=clock) as box:
        await box.schedule_runs(crew, "news", repeat=Schedule(every_ms=HOUR))
    clock.jump(100 * HOUR + 5)
    await serve()
    assert said == ["news"]
    await serve()  # started again at once: nothing is due
    assert said == ["news"]


async def _is_quiet(box: Interlock) -> bool:
    return not box.runner.live


async def test_an_occurrence_is_started_once_though_the_process_died_before_noting_it(tmp_path: Path) -> None:
    """What a crash between start and note leaves: the run is there, the schedule still says that it is due."""
    crew, clock, said = load_crew(crew_in(tmp_path)), ManualClock(START), list[str]()

    async with serving(tmp_path, clock, said) as box:
        planned = await box.schedule_runs(crew, "news", repeat=Schedule(every_ms=HOUR))
        await pass_time(clock, HOUR)

        async def is_moved_on() -> bool:
            return (await box.schedules.list())[0] != planned

        await until(is_moved_on)
        await until(lambda: _is_quiet(box))
        assert await box.store.replace_schedule((await box.schedules.list())[0], planned)
    async with serving(tmp_path, clock, said) as box:

        async def is_moved_on_again() -> bool:
            return (await box.schedules.list())[0].next_at == START + 2 * HOUR

        await until(is_moved_on_again)
        assert len(await box.journal.rows()) == 1
    assert said == ["news"]


def test_a_run_that_cannot_start_is_told_and_tried_again(tmp_path: Path) -> None:
    crew, clock = load_crew(crew_in(tmp_path)), ManualClock(START)

    async def story() -> None:
        async with Interlock(tmp_path / "data", clock=clock, recover=True) as box:  # no model
            await box.schedule_runs(crew, "news", at=START + HOUR)
            await pass_time(clock, HOUR)

            async def has_failed() -> bool:
                return (await box.schedules.list())[0].attempts == 1

            await until(has_failed)
            while not (await box.schedules.list())[0].is_over:
                await pass_time(clock, WALL_LOOK_MS)
            assert list(await box.journal.rows()) == []

    asyncio.run(story())
    listed = command(tmp_path, "list")
    assert "over" in listed.output
    assert "did not start: " in listed.output
    assert "'writer'" in listed.output


def test_a_paused_schedule_starts_nothing_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    crew = crew_in(tmp_path)
    added = json.loads(command(tmp_path, "add", str(crew), "news", "--every", "1h", "--json").output)
    assert command(tmp_path, "pause", added["id"][:6]).output == f"paused {added['id']}\n"
    clock, said = ManualClock(added["created_at"]), list[str]()

    async def story() -> None:
        async with serving(tmp_path, clock, said):
            await pass_time(clock, 3 * HOUR)

    asyncio.run(story())
    assert said == []
    resumed = command(tmp_path, "pause", added["id"], "--resume")
    assert resumed.output.startswith(f"resumed {added['id']}; next run ")
    assert command(tmp_path, "delete", added["id"]).output == f"deleted {added['id']}\n"
    assert command(tmp_path, "list").output.startswith("no schedules;")
    gone = command(tmp_path, "delete", added["id"])
    assert (gone.exit_code, "there is no schedule" in gone.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give one of --daily, --weekly, --every, --at, --cron"),
        (("--daily", "09:00", "--every", "1h"), "give one of --daily"),
        (("--daily", "9:00"), "written HH:MM"),
        (("--weekly", "monday 09:00"), "write 'mon 09:00'"),
        (("--weekly", "mon 25:00"), "written HH:MM"),
        (("--every", "1ms"), "is not between"),
        (("--at", "tomorrow"), "is not a time"),
        (("--cron", "every day"), "five fields"),
        (("--daily", "09:00", "--zone", "Mars/Olympus"), "is unknown"),
        (("--every", "1h", "--zone", "Europe/Berlin"), "--every has no local time"),
        (("--at", "2026-12-24T18:00+01:00", "--zone", "Europe/Berlin"), "remove the offset or --zone"),
        (("--at", "tomorrow", "--zone", "Europe/Berlin"), "is not a local time"),
        (("--at", "2026-12-24T18:00", "--zone", "Mars/Olympus"), "is unknown"),
    ],
)
def test_wrong_times_are_refused_and_nothing_is_planned(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    refused = command(tmp_path, "add", str(crew_in(tmp_path)), "news", *words)
    assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    assert command(tmp_path, "list").output.startswith("no schedules;")


def test_a_time_without_an_offset_is_of_the_zone(tmp_path: Path) -> None:
    words = ("--at", "2020-12-24T18:00", "--zone", "Europe/Berlin")
    made = command(tmp_path, "add", str(crew_in(tmp_path)), "news", *words)
    assert "first run 2020-12-24T17:00:00.000Z" in made.output, made.output


async def test_schedules_over_http(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        order = {"crew": "office", "input": "hi", "daily": "09:00", "days": ["mon"]}
        made = await office.post("/v1/schedules", json=order)
        assert made.status_code == 201, made.text
        body = made.json()
        path = f"/v1/schedules/{body['id']}"
        assert (body["crew"], body["repeat"]["days"]) == ("office", ["mon"])
        assert [each["id"] for each in (await office.get("/v1/schedules")).json()["schedules"]] == [body["id"]]
        assert (await office.post(f"{path}/pause", json={})).json()["paused"] is True
        assert (await office.post(f"{path}/resume", json={})).json()["paused"] is False
        assert (await office.delete(path)).status_code == 204
        gone = await office.delete(path)
        assert (gone.status_code, gone.json()["code"]) == (404, "no-such-schedule")
        for timing in ({"every_ms": 60_000}, {"at": 2**42}):
            ignored = await office.post("/v1/schedules", json={"crew": "office", "zone": "Europe/Berlin", **timing})
            assert (ignored.status_code, ignored.json()["code"]) == (409, "usage-error")
            assert "remove zone" in ignored.json()["detail"]
        wrong = await office.post("/v1/schedules", json={"crew": "office"})
        assert (wrong.status_code, wrong.json()["code"]) == (409, "usage-error")


async def test_the_same_request_to_plan_twice_plans_once(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        order, headers = {"crew": "office", "every_ms": HOUR}, {"idempotency-key": "k"}
        answers = [await office.post("/v1/schedules", json=order, headers=headers) for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        assert len((await office.get("/v1/schedules")).json()["schedules"]) == 1


async def test_a_run_does_not_make_the_scheduler_read_the_schedules_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = SqliteStore.run_schedules

    async def count_reads(store: SqliteStore) -> Any:
        reads.append("read")
        return await read(store)

    async def has_read() -> bool:
        return bool(reads)

    monkeypatch.setattr(SqliteStore, "run_schedules", count_reads)
    async with serving(tmp_path, ManualClock(now_ms=START), []) as box:
        await until(has_read)
        for _ in range(3):
            await (await box.start(load_crew(crew_in(tmp_path)), "go")).result()
        assert reads == ["read"]
        await box.schedules.add("news", "go", at=START + HOUR)
        reads.clear()
        await until(has_read)  # a new schedule does
