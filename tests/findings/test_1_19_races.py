"""Findings 1.19 and 1.21 at the same moment: park, cancel, answer, resume and attach, by one process and by two."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interlock import Interlock
from interlock.engine.run import OVER
from interlock.errors import InterlockError
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime.runner import replay_run
from tests.findings.test_1_19_ctrl_c_parks import ask, crew_in

REPLIES: dict[str, list[Any]] = {
    "a": ["all\n[GO]", "done\n[END]"],
    "b": [ask("which?"), "red it is"],
    "c": ["there"],
    "x": ["inside\n[END]"],
}


class Streaming:
    """Says its replies in pieces, each after some turns of the loop."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    async def reply(self, request: ModelRequest) -> Any:
        reply = REPLIES[request.agent][min(request.number, len(REPLIES[request.agent])) - 1]
        whole = reply if isinstance(reply, ModelReply) else ModelReply(text=reply)
        for piece in whole.text:
            for _ in range(self._chance.randrange(6)):
                await asyncio.sleep(0)
            yield Delta(text=piece)
        yield whole


async def later(turns: int, work: Any) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    try:
        return await work()
    except InterlockError as error:
        return error.code


async def answer_first(box: Interlock) -> Any:
    for _ in range(200):
        if questions := await box.questions():
            return await box.answer(questions[0].id, "red")
        await asyncio.sleep(0)
    return None


async def followed(box: Interlock) -> list[dict[str, Any]]:
    return [event async for event in box.runner.follow("r")]


def require_ordered(events: list[dict[str, Any]]) -> None:
    """It ends with an end, and no piece of a reply comes after that reply."""
    assert events[-1]["type"] in ("run.finished", "run.paused"), events[-3:]
    called: set[tuple[str, str]] = set()
    for event in events:
        speaker = (event["run"], event.get("agent", ""))
        if event["type"] == "model.called" or event["type"] == "run.resumed":
            called.add(speaker)
        elif event["type"] == "model.replied":
            called.discard(speaker)
        elif event["type"] == "model.delta":
            assert speaker in called, f"a piece of {speaker} comes after its reply"


async def require_sound(box: Interlock) -> None:
    """Rows say what the journals say, and nobody works on what rests."""
    for row in await box.journal.rows(limit=9):
        records = await box.journal.records(row.run)
        state = replay_run(await box.crew_of(row), row.run, records).state
        assert (row.status, row.seq) == (state.status, state.seq)
        last = records[-1].events[-1]
        assert type(last).__name__ in ("RunFinished", "RunPaused", "WentStale"), last
        assert row.status in (*OVER, "paused")


async def finished(box: Interlock) -> str:
    for _ in range(5):
        row = await box.journal.row("r")
        if row.status in OVER:
            return row.status
        await later(0, lambda: box.resume("r"))
        for question in await box.questions():
            await box.answer(question.id, "red")
        await box.runner.wait_until_settled("r")
    raise AssertionError(f"it does not come to an end: {row}")


@pytest.mark.parametrize("seed", range(24))
async def test_whatever_is_asked_at_the_same_moment_leaves_a_sound_run(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)

    async with Interlock(tmp_path / "data", models=Streaming(seed), durability="normal") as box:
        await box.start(crew_in(tmp_path), "go", run_id="r")
        first = asyncio.ensure_future(followed(box))
        asked: list[Any] = [
            lambda: box.park("r"),
            lambda: answer_first(box),
            lambda: box.resume("r"),
            lambda: box.park("r"),
            lambda: followed(box),
        ]
        if seed % 3 == 0:
            asked.append(lambda: box.cancel("r"))
        chance.shuffle(asked)
        done = await asyncio.gather(*(later(chance.randrange(250), work) for work in asked))
        await box.runner.wait_until_settled("r")
        require_ordered(await first)
        for each in done:
            if isinstance(each, list):
                require_ordered(each)
        await require_sound(box)
        status = await finished(box)
    assert status in (("completed", "cancelled") if seed % 3 == 0 else ("completed",))


@pytest.mark.parametrize("seed", range(8))
async def test_two_processes_that_ask_at_the_same_moment_leave_a_sound_run(tmp_path: Path, seed: int) -> None:
    """What one process drives the other is refused; what rests either may take, and one does."""
    chance = Random(seed)

    boxes = [Interlock(tmp_path / "data", models=Streaming(seed + n), durability="normal") for n in range(2)]
    async with boxes[0] as one, boxes[1] as other:
        await one.start(crew_in(tmp_path), "go", run_id="r")
        work: list[Any] = [lambda: one.park("r"), *(lambda box=box: answer_first(box) for box in (one, other))]
        work += [lambda box=box: box.resume("r") for box in (one, other)]
        await asyncio.gather(*(later(chance.randrange(400), each) for each in work))
        for box in (one, other):
            await box.runner.wait_until_settled("r")
        await require_sound(other)
        assert await one.park("r") is False, "nobody drives it now"
    async with Interlock(tmp_path / "data", models=Streaming(seed), recover=True) as last:
        assert await finished(last) == "completed"
