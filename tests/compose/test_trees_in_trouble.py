"""Trees of runs that are cut off, damaged, or given values that cannot be stored: each ends with a reason."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, UsageError
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.adapters.sqlite.store import DATABASE
from interlock.engine.effects import StopChild
from interlock.engine.events import ChildReturned, CrewContext
from interlock.ids import parent_of
from interlock.limits import MEMORY_KEYS_MAX, MEMORY_VALUE_BYTES_MAX, MEMORY_VALUE_DEPTH_MAX
from interlock.ports import NO_WRITES, AppendResult, AtomicWrites, ClaimedRun, Record, RunRow
from tests.compose.test_crews_of_crews import WAITING, WHOLE, Stuck, box_of, nested


async def statuses(box: Interlock, run: str) -> list[str]:
    return [row.status for row in (await box.journal.row(run), *await box.journal.rows_below(run))]


# Cancelled at a bad moment


class SlowStore:
    """Lets a box's store take its time over the beginnings of children; what is asked for later comes after them."""

    def __init__(self, box: Interlock) -> None:
        self.asked, self.may_write = asyncio.Event(), asyncio.Event()
        self._create, self._claim = box.store.create, box.store.claim
        self._writing: list[asyncio.Task[AppendResult]] = []
        box.store.create, box.store.claim = self.create, self.claim  # type: ignore[method-assign]

    async def create(
        self, row: RunRow, record: Record, also: AtomicWrites = NO_WRITES, *, owned: bool = True
    ) -> AppendResult:
        if not parent_of(row.run):
            return await self._create(row, record, also, owned=owned)
        self._writing.append(asyncio.create_task(self._written(row, record, also)))
        self.asked.set()
        return await asyncio.shield(self._writing[-1])

    async def _written(self, row: RunRow, record: Record, also: AtomicWrites) -> AppendResult:
        await self.may_write.wait()
        return await self._create(row, record, also)

    async def claim(self, run: str) -> ClaimedRun:
        await self.done()
        return await self._claim(run)

    async def done(self) -> None:
        self.may_write.set()
        await asyncio.gather(*self._writing)


async def test_a_child_that_is_on_its_way_to_the_store_when_its_caller_is_cancelled_ends_with_it(
    tmp_path: Path,
) -> None:
    async with box_of(tmp_path, WHOLE) as box:
        slow = SlowStore(box)
        run = await box.start(nested(tmp_path), "Lamps")
        await slow.asked.wait()
        await (await box.cancel(run.id)).result()
        await slow.done()
        assert await statuses(box, run.id) == ["cancelled", "cancelled"]


async def recovered(box: Interlock) -> None:
    async with Interlock(box.data, models=ScriptedModel(WHOLE), recover=True) as after:
        await after.runner.wait_until_settled("r")


async def cancelled_again(box: Interlock) -> None:
    await (await box.cancel("r")).result()


@pytest.mark.parametrize("goes_on", [recovered, cancelled_again])
async def test_a_tree_whose_process_dies_while_it_is_being_cancelled_ends_with_the_next_one(
    goes_on: Callable[[Interlock], Awaitable[None]], tmp_path: Path
) -> None:
    """The outermost run and its child are ending already; only the innermost was not told."""
    model, reached = Stuck(WHOLE, "y"), asyncio.Event()

    async with Interlock(tmp_path / "data", models=model) as box:
        children = box.runner.effect_runner.children
        stopped = children.cancel_child

        async def never_the_innermost(order: StopChild) -> ChildReturned:
            if parent_of(parent_of(order.child)):
                reached.set()
                await asyncio.Event().wait()
            return await stopped(order)

        children.cancel_child = never_the_innermost  # type: ignore[method-assign]
        await box.start(nested(tmp_path), "Lamps", run_id="r")
        await model.waiting.wait()
        await box.cancel("r")
        await reached.wait()
    async with box_of(tmp_path, WHOLE) as box:
        async with asyncio.timeout(20):
            await goes_on(box)
        assert await statuses(box, "r") == ["cancelled", "cancelled", "cancelled"]


# Damaged


def damage(folder: Path, run: str) -> None:
    with closing(sqlite3.connect(folder / "data" / DATABASE)) as connection, connection:
        connection.execute(
            "update records set crc = crc + 1 where seq = 1 and run = (select number from runs where run = ?)", (run,)
        )


async def paused_below(box: Interlock, folder: Path) -> str:
    result = await (await box.start(nested(folder), "Lamps", run_id="r")).result()
    assert result.status == "paused"
    return (await box.journal.rows_below("r"))[-1].run


async def test_a_run_can_be_cancelled_though_the_journal_of_one_that_it_called_is_damaged(tmp_path: Path) -> None:
    async with box_of(tmp_path, WAITING) as box:
        damage(tmp_path, await paused_below(box, tmp_path))

    async with box_of(tmp_path, WAITING) as box:
        await (await box.cancel("r")).result()
        assert await statuses(box, "r") == ["cancelled", "cancelled", "paused"]


# What cannot be kept


def nested_value(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(("levels", "is_kept"), [(MEMORY_VALUE_DEPTH_MAX - 1, True), (MEMORY_VALUE_DEPTH_MAX, False)])
async def test_a_value_without_end_is_refused_before_it_stops_the_run(
    levels: int, is_kept: bool, tmp_path: Path
) -> None:
    """Deeper ones can be read from a call's arguments and not from a journal, which holds them within an event."""
    written = f'{{"key": "k", "value": {"[" * levels}1{"]" * levels}}}'
    answers: dict[str, Any] = {
        "a": ["[RESEARCH]", "[WRITE]", "Done. [END]"],
        "x": [ScriptedAnswer(tool_calls=(ToolCall(name="memory_write", arguments=written),)), "Kept. [END]"],
        "z": ["Written. [END]"],
    }

    async with box_of(tmp_path, answers) as box:
        result = await (await box.start(nested(tmp_path), "Lamps", run_id="r")).result()
        assert (result.text, "k" in (await box.state("r")).memory) == ("Done.", is_kept)


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (CrewContext(shared_memory={"k": object()}), "is not valid JSON"),
        (CrewContext(shared_memory={1: "k"}), "is not valid JSON"),  # type: ignore[dict-item]
        (CrewContext(shared_memory={"k": "\ud800"}), "is not valid JSON"),
        (CrewContext(previous_results={"alpha": 3}), "is not valid JSON"),  # type: ignore[dict-item]
        (CrewContext(shared_memory={"": 1}), "is not a valid key"),
        (CrewContext(shared_memory={"k": "x" * MEMORY_VALUE_BYTES_MAX}), "the value of 'k' .* bytes"),
        (CrewContext(shared_memory={"k": nested_value(MEMORY_VALUE_DEPTH_MAX)}), "the value of 'k' .* nested deeper"),
        (CrewContext(shared_memory={str(n): n for n in range(MEMORY_KEYS_MAX + 1)}), "1001 keys"),
    ],
)
async def test_a_context_that_cannot_be_kept_is_refused_before_anything_is_stored(
    context: CrewContext, says: str, tmp_path: Path
) -> None:
    async with box_of(tmp_path, WHOLE) as box:
        with pytest.raises(UsageError, match=says):
            await box.start(nested(tmp_path), "Lamps", context=context)
        assert len(await box.journal.rows()) == 0
