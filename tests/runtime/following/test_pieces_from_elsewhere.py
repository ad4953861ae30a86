"""A run that another process drives is followed with the pieces of its replies, if they arrive."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.compose.crews import load_definition
from interlock.ports import Delta, Deltas, ModelReply, ModelRequest
from interlock.runtime.runner import Runner
from interlock.runtime.stored_crews import as_stored_form
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


class Speaker:
    """Says a piece whenever it is told to, then ends."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[str] = asyncio.Queue()

    async def reply(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        said = ""
        while "[END]" not in said:
            said += (piece := await self.pieces.get())
            yield Delta(piece)
        yield ModelReply(text=said)


def runner_on(store: MemoryStore, deltas: Deltas, clock: ManualClock, model: Speaker) -> Runner:
    return Runner(
        journal=store,
        owners=store,
        orders=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        bus=store.bus,
        deltas=deltas,
        clock=clock,
        model_for=lambda _crew, _agent, _run: model,
        toolbox=PythonToolbox(()),
    )


async def until_it_shows(shown: list[dict[str, object]], count: int, clock: ManualClock) -> None:
    for _ in range(200):
        if len(shown) >= count:
            return
        clock.advance(10)
        for _ in range(10):
            await asyncio.sleep(0)
    raise AssertionError(f"only {shown}")


async def shown_elsewhere(folder: Path, of_driver: Deltas, of_follower: Deltas) -> list[str]:
    """What another process shows of a run: types of events, and the texts of pieces."""
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    clock, model, store = ManualClock(), Speaker(), MemoryStore()
    driver = runner_on(store, of_driver, clock, model)
    follower = runner_on(MemoryStore(beside=store), of_follower, clock, model)
    shown: list[dict[str, object]] = []

    async def follow() -> None:
        async for event in follower.follow("r1"):
            shown.append(event)  # noqa: PERF401 - others look at it while it grows

    async with driver, follower:
        crew, sha, bodies = as_stored_form(load_definition(folder))
        for each, body in bodies.items():
            await store.put_crew(each, body)
        await driver.start(crew, sha, "go", run_id="r1")
        following = asyncio.create_task(follow())
        await until_it_shows(shown, 3, clock)  # run.started, turn.started, model.called
        texts = ["so ", "well ", "\n[END]"]
        for n, text in enumerate(texts):
            model.pieces.put_nowait(text)
            if of_driver is of_follower and n + 1 < len(texts):
                await until_it_shows(shown, 4 + n, clock)
        await until_it_shows(shown, 7, clock)
        while not following.done():
            clock.advance(50)
            await asyncio.sleep(0)
        await following
    return [str(event.get("text") if event["type"] == "model.delta" else event["type"]) for event in shown]


async def test_pieces_are_shown_between_the_events_that_they_belong_to(tmp_path: Path) -> None:
    deltas = ProcessDeltas()
    shown = await shown_elsewhere(tmp_path, deltas, deltas)
    assert shown[:5] == ["run.started", "turn.started", "model.called", "so ", "well "]
    assert shown.index("model.replied") > shown.index("well ") and shown[-1] == "run.finished"
    assert len(shown) == len(set(shown))
    assert not deltas.wanted


async def test_without_pieces_the_whole_reply_is_shown(tmp_path: Path) -> None:
    shown = await shown_elsewhere(tmp_path, ProcessDeltas(), ProcessDeltas())
    assert shown[:4] == ["run.started", "turn.started", "model.called", "model.replied"]
    assert shown[-1] == "run.finished"
