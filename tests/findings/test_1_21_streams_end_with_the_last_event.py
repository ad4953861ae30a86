"""Finding 1.21: a stream ends with `run.finished` or `run.paused`, and shows no piece of a reply after that reply.

The journal is read by a follower at each possible moment: before, between and after the pieces and the replies.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, load_crew
from interlock.ports import Delta, Journal, ModelReply, ModelRequest
from interlock.server.streaming.positions import StreamPosition
from interlock.server.streaming.reader import Reader

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[WAIT]"}]
    b: [{signal: "[END]"}]
"""
GROUP = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}, {id: slow}, {id: quick}, {id: z}]
routing:
  signals:
    a: [{signal: "[GO]", type: parallel, target: both}]
    z: [{signal: "[END]"}]
  parallel_groups:
    both: {agents: [slow, quick], wait_for_all: false, next_agent: z}
"""
REPLIES = {"a": ["Over ", "to you.", "\n[NEXT]"], "b": ["That ", "is all.", "\n[END]"]}
# Pieces and replies of both agents: as many moments at which a follower may read the journal.
STEPS = sum(len(pieces) + 1 for pieces in REPLIES.values())


class Stepping:
    """Says a piece, or ends a reply, each time it is let."""

    def __init__(self) -> None:
        self.steps = asyncio.Semaphore(0)

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        for piece in REPLIES[request.agent]:
            await self.steps.acquire()
            yield Delta(piece)
        await self.steps.acquire()
        yield ModelReply(text="".join(REPLIES[request.agent]))


class LateJournal:
    """A journal whose first reading of a tree begins when it is let: the follower is watching by then."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self.may_read, self.is_asked = journal, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def tree(self, *asked: Any) -> Any:
        self.is_asked.set()
        await self.may_read.wait()
        return await self._journal.tree(*asked)


async def until_quiet(box: Interlock) -> None:
    """Lets everything that can happen by itself happen."""
    for _ in range(200):
        await asyncio.sleep(0)
        await box.journal.rows(limit=1)  # by the writer's thread, after all that it has been given before


def require_order(events: list[dict[str, Any]]) -> None:
    last = events[-1]["type"]
    assert last in ("run.finished", "run.paused"), last
    replied: set[str] = set()
    for event in events:
        assert event["type"] != "model.delta" or event["agent"] not in replied, events
        if event["type"] == "model.replied":
            replied.add(event["agent"])
    seqs = [event["seq"] for event in events if "seq" in event]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize("read_at", range(STEPS + 1))
async def test_no_piece_comes_after_its_reply_whenever_the_journal_is_read(
    tmp_path: Path, read_at: int, after: int
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")

    model = Stepping()
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(load_crew(tmp_path), "go")
        late = LateJournal(box.runner.journal)
        box.runner.following.journal = late

        async def followed() -> list[dict[str, Any]]:
            return [event async for event in box.runner.follow(run.id, after)]

        following = asyncio.ensure_future(followed())
        await late.is_asked.wait()
        for step in range(STEPS + 1):
            if step == read_at:
                late.may_read.set()
            model.steps.release()
            await until_quiet(box)
        events = await following
    require_order(events)
    assert events[-1]["type"] == "run.finished"


async def test_a_follower_of_a_pause_that_was_resumed_at_once_sees_the_run_to_its_end(tmp_path: Path) -> None:
    """The last look at the journal shows that the run was resumed: the stream does not end in the middle of it."""
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    replies = iter(["wait\n[WAIT]", "go\n[NEXT]", "done\n[END]"])

    async with Interlock(tmp_path / "data", models=lambda _: next(replies)) as box:
        run = await box.start(load_crew(tmp_path), "go")
        late = LateJournal(box.runner.journal)
        box.runner.following.journal = late

        async def followed() -> list[dict[str, Any]]:
            return [event async for event in box.runner.follow(run.id)]

        following = asyncio.ensure_future(followed())
        await late.is_asked.wait()
        await box.runner.wait_until_settled(run.id)
        resuming = asyncio.ensure_future(box.resume(run.id, "on"))
        late.may_read.set()
        await resuming
        await box.runner.wait_until_settled(run.id)
        events = await following
    require_order([event for event in events if "seq" in event])


class Chatty:
    """Its member `slow` speaks on although its call was stopped."""

    def __init__(self) -> None:
        self.has_spoken_on = False

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        text = {"a": "both\n[GO]", "quick": "here", "z": "over\n[END]"}.get(request.agent)
        if text is not None:
            yield ModelReply(text=text)
            return
        yield Delta("well")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.has_spoken_on = True
            yield Delta("as I was saying")
            raise


async def test_a_call_that_was_stopped_is_heard_no_more(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(GROUP, "utf-8")
    heard: list[dict[str, Any]] = []

    model = Chatty()
    async with Interlock(tmp_path / "data", models=model) as box:
        box.watch(lambda _: None, heard.append)
        run = await box.start(load_crew(tmp_path), "go")
        events = [event async for event in box.runner.follow(run.id)]
        await run.result()
    assert model.has_spoken_on
    assert "as I was saying" not in [piece["text"] for piece in heard]
    assert "as I was saying" not in [event.get("text") for event in events]


async def test_a_reader_over_http_takes_no_piece_once_its_run_is_over() -> None:
    reader = Reader(StreamPosition(0), "r", 1_000, deltas=True)
    reader.is_over = True
    reader.enqueue_delta(b"data: piece\n\n")
    assert await reader.read_waiting() is None
