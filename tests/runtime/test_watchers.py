"""Watchers get the pieces of replies in frames."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from interlock import Interlock, load_crew
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime.watchers import FRAME_MS
from interlock.testing import ManualClock
from tests.server.office import CREW, crew_file


class Dictated:
    """Says each piece when it is told to, and is over when it is told None."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[str | None] = asyncio.Queue()

    async def reply(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        text = ""
        while (piece := await self.said.get()) is not None:
            text += piece
            yield Delta(piece)
        yield ModelReply(text=f"{text} [DONE]")


class Desk:
    """A run that is watched: what the model says, and what the watcher has seen."""

    def __init__(self, box: Interlock, model: Dictated, clock: ManualClock) -> None:
        self.box, self._model, self.clock = box, model, clock
        self.seen: list[tuple[str, str]] = []

    async def watch(self, run: str) -> None:
        async for event in self.box.runner.follow(run):
            self.seen.append((event["type"], event.get("text", "")))

    async def say(self, *pieces: str | None) -> None:
        for piece in pieces:
            self._model.said.put_nowait(piece)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def pieces(self) -> list[str]:
        return [text for kind, text in self.seen if kind == "model.delta"]


async def watched(folder: Path, model: Dictated, clock: ManualClock, play: Any) -> Desk:
    crew = load_crew(crew_file(folder, CREW))
    async with Interlock(folder / "data", models=model, clock=clock) as box:
        run = await box.start(crew, "go")
        desk = Desk(box, model, clock)
        watching = asyncio.create_task(desk.watch(run.id))
        async with asyncio.timeout(60):
            while not any(kind == "model.called" for kind, _ in desk.seen):
                await asyncio.sleep(0)
            await play(desk)
            await watching
    return desk


async def test_the_first_piece_comes_at_once_and_the_next_ones_together_at_the_end_of_the_frame(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.say("one ", "two ", "three ")
        assert desk.pieces == ["one "]
        desk.clock.advance(FRAME_MS)
        await desk.settle()
        assert desk.pieces == ["one ", "two three "]
        desk.clock.advance(FRAME_MS)  # a frame in which nothing is said
        await desk.settle()
        await desk.say("four ", "five ")
        assert desk.pieces == ["one ", "two three ", "four "]
        await desk.say(None)

    desk = await watched(tmp_path, Dictated(), ManualClock(), play)
    assert "".join(desk.pieces) == "one two three four five "


async def test_all_pieces_come_before_the_record_of_their_reply(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.say("one ", "two ", None)

    desk = await watched(tmp_path, Dictated(), ManualClock(), play)
    kinds = [kind for kind, _ in desk.seen]
    assert desk.pieces == ["one ", "two "]
    assert max(n for n, kind in enumerate(kinds) if kind == "model.delta") < kinds.index("model.replied")


async def test_what_is_said_before_another_event_of_the_run_is_shown_before_it(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.say("one ", "two ")
        (live,) = desk.box.runner.live.values()
        await desk.box.cancel(live.id, by="a person")

    desk = await watched(tmp_path, Dictated(), ManualClock(), play)
    kinds = [kind for kind, _ in desk.seen]
    assert desk.pieces == ["one ", "two "]
    assert max(n for n, kind in enumerate(kinds) if kind == "model.delta") < kinds.index("cancel.requested")
