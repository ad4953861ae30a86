"""Waiting for a run, and following it, while a command of this process is about to drive it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, RunHandle, load_crew
from interlock.ports import AppendResult, ModelReply, ModelRequest, StoreOverview
from interlock.runtime.claiming.work import WorkSettings
from interlock.testing import ManualClock

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[DONE]"}]}}
"""


class WaitThenDone:
    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        yield ModelReply(text="[DONE]" if "answer" in request.messages[-1].text else "a question [WAIT]")


class SlowAppends:
    """Lets each append return only after `gate` is open: the record is stored, and its caller does not know yet."""

    def __init__(self, box: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.stored = asyncio.Event(), asyncio.Event()
        self._append = box.journal.append
        monkeypatch.setattr(box.journal, "append", self.append)

    async def append(self, *arguments: Any) -> AppendResult:
        appended = await self._append(*arguments)
        self.stored.set()
        await self.gate.wait()
        return appended


async def test_a_result_waits_for_a_run_that_an_answer_is_about_to_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    async with Interlock(tmp_path / "data", models=WaitThenDone(), clock=ManualClock()) as box:
        run = await box.start(load_crew(tmp_path), "begin")
        assert (await run.result()).status == "paused"
        slow = SlowAppends(box, monkeypatch)
        answering = asyncio.create_task(box.resume(run.id, "the answer"))
        await slow.stored.wait()
        waiting = asyncio.create_task(run.result())
        following = asyncio.create_task(_types_of(run.events()))
        row = await box.journal.row(run.id)
        assert (row.status, run.id in box.runner.drivers) == ("running", False)
        await _let_tasks_run()
        slow.gate.set()
        await answering
        # The clock stands still: whoever sleeps until the next look never wakes.
        assert (await waiting).status == "completed"
        assert (await following)[-1] == "run.finished"


async def _types_of(events: AsyncIterator[Any]) -> list[str]:
    return [event.type async for event in events]


async def _let_tasks_run() -> None:
    for _ in range(1_000):
        await asyncio.sleep(0)


def run_to_detach(folder: Path, clock: ManualClock, **work: Any) -> Interlock:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return Interlock(folder / "data", clock=clock, work=WorkSettings(drives=False, **work))


async def test_a_run_that_waits_for_a_worker_is_followed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no owner until a worker has claimed it, and none for a moment when a worker dies."""
    clock, looks = ManualClock(), list[str]()
    async with (
        run_to_detach(tmp_path, clock) as box,
        Interlock(tmp_path / "data", models=lambda _: "[DONE]", recover=True) as worker,
    ):
        worker._claims.pause(60_000)
        run, overview = await box.start(load_crew(tmp_path), "begin"), box.store.overview

        async def look() -> StoreOverview:
            looks.append(run.id)
            return await overview()

        monkeypatch.setattr(box.store, "overview", look)
        following = asyncio.gather(run.result(), types_of(run))
        while len(looks) < 6:
            clock.advance(200)
            await asyncio.sleep(0)
        assert not following.done()
        worker._claims.pause(0)
        while not following.done():
            clock.advance(200)
            await asyncio.sleep(0)
        result, types = await following
        assert (result.status, types[-1]) == ("completed", "run.finished")


@pytest.mark.parametrize("work", [{}, {"private": True}])
async def test_a_run_that_no_worker_is_to_take_is_not_waited_for(tmp_path: Path, work: dict[str, Any]) -> None:
    data = tmp_path / "data"
    async with run_to_detach(tmp_path, ManualClock(), **work) as box:
        run = await box.start(load_crew(tmp_path), "begin")
        assert (await run.result()).status == "running"
        if work:
            async with Interlock(data, models=lambda _: "[DONE]", recover=True, work=WorkSettings(takes_private=False)):
                assert (await run.result()).status == "running"


async def types_of(run: RunHandle) -> list[str]:
    return [event.type async for event in run.events()]
