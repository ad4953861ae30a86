"""Answers about single runs are kept, and never older than what the store has acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.adapters.config.host_file import HostSettings
from interlock.engine.events import CancelRequested
from interlock.ids import child_id
from interlock.ports import Record, StoredRecord
from interlock.server import run_answers
from interlock.server.views import RunDetailView, read_run_detail
from interlock.testing import ManualClock
from tests.server.office import Office, open_office

Read = Callable[[Interlock, str], Awaitable[RunDetailView]]


class Reads:
    """Counts the reads of runs, and can hold one up."""

    def __init__(self, read: Read) -> None:
        self._read, self.runs = read, list[str]()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.has_begun = asyncio.Event()

    async def __call__(self, box: Interlock, run: str) -> RunDetailView:
        self.runs.append(run)
        found = await self._read(box, run)
        self.has_begun.set()
        await self.may_end.wait()
        return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads(read_run_detail)
    monkeypatch.setattr(run_answers, "read_run_detail", found)
    return found


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk the writer commits in its thread, and the version is unknown meanwhile."""
    monkeypatch.setattr("interlock.adapters.sqlite.writer.SLOW_S", 60.0)


async def get(office: Office, run: str) -> dict[str, Any]:
    answer = await office.get(f"/v1/runs/{run}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_run_that_does_not_change_is_read_once(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        for text in ("hang", "hello"):  # one in progress and one that is over
            run = (await office.start(text))["id"]
            if text == "hello":
                await office.box.runner.wait_until_settled(run)
            reads.runs.clear()
            assert await get(office, run) == await get(office, run) == await get(office, run)
            assert reads.runs == [run]


async def test_a_record_of_the_run_or_of_one_below_it_drops_the_answer(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.start("hang"))["id"]
        other = (await office.start("hang"))["id"]
        before = await get(office, run)
        await get(office, other)
        started = Record(seq=1, at=0, events=(CancelRequested(by="me"),))
        below = child_id(child_id(run, "c1"), "c2")
        office.service.run_answers.on_record_stored(StoredRecord(position=9, run=below, record=started))
        reads.runs.clear()
        assert await get(office, run) == before
        await get(office, other)
        assert reads.runs == [run], "the other run has not changed"
        await office.box.cancel(run)
        assert (await get(office, run))["status"] == "cancelled"


async def test_what_another_process_commits_is_seen(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.finished())["id"]
        await get(office, run)
        async with Interlock(tmp_path / "data") as other:
            await other.archive.delete_tree(run, other.clock.now_ms())
        assert (await office.get(f"/v1/runs/{run}")).status_code == 410


async def test_a_run_that_retention_deletes_is_gone_at_once(tmp_path: Path) -> None:
    clock = ManualClock(1_800_000_000_000)
    async with open_office(tmp_path, clock=clock, host=HostSettings(retention_days=1.0)) as office:
        run = (await office.finished())["id"]
        await get(office, run)
        deleted: list[str] = []
        office.box.archive.observers.append(deleted.append)
        clock.advance(2 * 24 * 3_600_000)
        while not deleted:
            clock.advance(3_600_000)
            await asyncio.sleep(0)
        assert deleted == [run]
        assert (await office.get(f"/v1/runs/{run}")).status_code == 410


async def test_a_read_during_which_the_run_changes_is_not_kept(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.start("hang"))["id"]
        reads.may_end.clear()
        reads.has_begun.clear()
        late = asyncio.create_task(get(office, run))
        await reads.has_begun.wait()
        await office.box.cancel(run)
        reads.may_end.set()
        assert (await late)["status"] == "running", "as it was when it was read"
        assert (await get(office, run))["status"] == "cancelled"


async def test_two_reads_at_once_give_one_answer_that_is_kept(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.start("hang"))["id"]
        one, other = await asyncio.gather(get(office, run), get(office, run))
        reads.runs.clear()
        assert one == other == await get(office, run)
        assert reads.runs == []


async def test_questions_and_failures_are_not_kept(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.finished("⟦WAIT⟧"))["id"]
        reads.runs.clear()
        assert (await get(office, run))["questions"]
        assert (await get(office, run))["questions"]
        assert reads.runs == [run, run]
        for _ in range(2):
            assert (await office.get("/v1/runs/none")).status_code == 404
        assert reads.runs == [run, run, "none", "none"]


async def test_a_store_that_does_not_tell_what_others_commit_is_always_read(
    tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.finished())["id"]
        kept = await get(office, run)
        monkeypatch.setattr(office.box, "store_version", lambda: None)
        reads.runs.clear()
        assert await get(office, run) == await get(office, run) == kept
        assert reads.runs == [run, run]


async def test_kept_answers_are_bounded(tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_office(tmp_path) as office:
        runs = [(await office.start("hang"))["id"] for _ in range(3)]
        size = len((await office.get(f"/v1/runs/{runs[0]}")).content)
        monkeypatch.setattr(run_answers, "KEPT_BYTES", 2 * (run_answers.RUN_BYTES + size))
        for run in runs:
            await get(office, run)
        reads.runs.clear()
        for run in (runs[2], runs[1], runs[0]):
            await get(office, run)
        assert reads.runs == [runs[0]], "the first one made room"
        monkeypatch.setattr(run_answers, "ANSWER_BYTES_MAX", size - 1)
        await office.box.cancel(runs[1])
        reads.runs.clear()
        await get(office, runs[1])
        await get(office, runs[1])
        assert reads.runs == [runs[1], runs[1]], "too large"


async def test_a_secret_that_is_learned_later_is_redacted_in_a_kept_answer(tmp_path: Path, reads: Reads) -> None:
    async with open_office(tmp_path) as office:
        run = (await office.finished("the word is swordfish-123"))["id"]
        assert "swordfish-123" in (await get(office, run))["output"]
        reads.runs.clear()
        office.box.redactor().add("swordfish-123")
        assert "swordfish-123" not in (await get(office, run))["output"]
        assert reads.runs == []
