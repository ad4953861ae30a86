"""Runs of one crew share what depends on the crew alone; runs are claimed, lost with the lease, and found again."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.errors import NotOwner, StoreFailed
from interlock.ports import Model, ModelReply, ModelRequest
from interlock.runtime.runner import Runner
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders
from tests.runtime.test_fairness import LOOP

CREW = """\
version: "2.0"
name: one
entry_point: a
agents: [{id: a, system_prompt: You are the only one., is_terminal: true}]
"""


class SystemCollector:
    def __init__(self) -> None:
        self.systems: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.systems.append(request.system)
        yield ModelReply(text="done")


async def test_runs_of_one_crew_get_the_same_instructions_built_once(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew, model = load_crew(tmp_path), SystemCollector()
    async with Interlock(tmp_path / "data", models=model) as box:
        for _ in range(2):
            await (await box.start(crew, "go")).result()
    first, second = model.systems
    assert first.startswith("You are the only one.")
    assert first is second


class Hanging:
    """Counts its calls, and answers none."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked = asyncio.Event()

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.calls += 1
        self.asked.set()
        await asyncio.Event().wait()
        yield ModelReply(text="never")


def memory_runner(store: MemoryStore, model: Model) -> Runner:
    return Runner(
        journal=store,
        owners=store,
        orders=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        bus=store.bus,
        deltas=ProcessDeltas(),
        clock=ManualClock(),
        model_for=lambda _crew, _agent, _run: model,
        toolbox=PythonToolbox(()),
    )


async def test_a_process_that_lost_its_lease_stops_all_work_and_stores_nothing() -> None:
    store, model = MemoryStore(), Hanging()
    async with memory_runner(store, model) as runner:
        await runner.start(LOOP, "", "go", run_id="r")
        await model.asked.wait()
        before = await store.row("r")
        store.lose_lease()
        with pytest.raises(NotOwner):
            await runner.wait_until_settled("r")
        assert (runner.live, await store.row("r")) == ({}, before)


async def test_no_model_is_called_without_a_lease() -> None:
    store, model = MemoryStore(), Hanging()
    async with memory_runner(store, model) as runner:
        store.is_leased = False  # it has not been told yet
        await runner.start(LOOP, "", "go", run_id="r")
        with pytest.raises(NotOwner):
            await runner.wait_until_settled("r")
    assert model.calls == 0


async def test_runs_that_wait_are_claimed_once_and_live_ones_are_left_alone() -> None:
    store, model = MemoryStore(), Hanging()
    sha = sha256(b"{}").hexdigest()
    async with memory_runner(store, model) as runner:
        await runner.start(LOOP, sha, "go", run_id="live")
        other = MemoryStore(beside=store)
        async with memory_runner(other, model) as dying:
            await dying.start(LOOP, sha, "go", run_id="left")
        assert [each.run for each in await runner.live_runs.claim_waiting(10)] == ["left"]
        assert await runner.live_runs.claim_waiting(10) == []
        assert (await store.row("left")).epoch == 1
        await runner.recover(LOOP, "left")
        assert (await store.row("left")).epoch == 1, "the claim of the batch is used"
        assert sorted(runner.live) == ["left", "live"]


async def test_a_run_whose_release_failed_is_found_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    store, model = MemoryStore(), Hanging()
    async with memory_runner(store, model) as runner:
        await runner.start(LOOP, "", "go", run_id="r")
        await model.asked.wait()

        async def fail(run: str) -> None:
            raise StoreFailed("away")

        with monkeypatch.context() as patch:
            patch.setattr(store, "release", fail)
            runner.live["r"].fail(NotOwner("r"))  # which the supervisor leaves to others
            with pytest.raises(NotOwner):
                await runner.wait_until_settled("r")
        assert (await store.is_owned("r"), runner.live) == (True, {})
        assert [each.run for each in await runner.live_runs.claim_waiting(10)] == ["r"]


async def test_a_claim_that_was_left_to_the_supervisor_is_given_up_if_it_cannot_use_it() -> None:
    """Else the run would belong to this process, and no process would drive it."""
    store, model = MemoryStore(), Hanging()
    async with memory_runner(store, model) as runner:
        await runner.start(LOOP, "no such crew", "go", run_id="r")
        await model.asked.wait()
        runner.live["r"].fail(ZeroDivisionError("a bug"))
        while not runner.supervisor.is_deciding("r"):
            await asyncio.sleep(0)
        assert [each.run for each in await runner.live_runs.claim_waiting(9)] == ["r"]
        assert await store.is_owned("r")
        clock = runner.clock
        assert isinstance(clock, ManualClock)
        while runner.supervisor.is_deciding("r"):
            clock.advance(1_000)
            await asyncio.sleep(0)
        assert not await store.is_owned("r")
        assert list(runner.set_asides.reasons) == ["r"]
