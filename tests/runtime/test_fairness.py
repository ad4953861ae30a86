"""Calls are limited, and no run waits for ever while others continue."""

import asyncio
import itertools
from collections.abc import AsyncIterator

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.crew.definition import AgentDefinition, CrewDefinition, CrewSettings, RouteDefinition
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.live_runs import STEPS_IN_A_ROW
from interlock.runtime.runner import Runner
from interlock.signals.definition import SignalBehavior
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders

LOOP = CrewDefinition(
    version="2.0",
    name="loop",
    entry_point="a",
    agents=(AgentDefinition(id="a", name="Ann"),),
    routes={
        "a": (
            RouteDefinition(signal="[NEXT]", behavior=SignalBehavior.ROUTE, priority=50, target="a"),
            RouteDefinition(signal="[END]", behavior=SignalBehavior.TERMINATE, priority=100),
        )
    },
    settings=CrewSettings(max_handoffs=1_000),
)


class Counting:
    """Never waits for anything real; counts the calls in progress."""

    def __init__(self, steps: int, pause: bool = False) -> None:
        self.steps, self.pause = steps, pause
        self.order: list[str] = []
        self.now = self.most = 0

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(request.key.partition(":")[0])
        for _ in range(10 if self.pause else 0):
            await asyncio.sleep(0)
        self.now -= 1
        yield ModelReply(text=f"{request.number} " + ("[NEXT]" if request.number < self.steps else "[END]"))


def runner_of(model: Counting, calls_max: int) -> Runner:
    store = MemoryStore()
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
        work=WorkSettings(calls_max=calls_max),
    )


async def played(model: Counting, runs: int, calls_max: int) -> None:
    async with runner_of(model, calls_max) as runner:
        for n in range(runs):
            await runner.start(LOOP, "", "go", run_id=f"r{n}")
        await asyncio.gather(*(runner.wait_until_settled(f"r{n}") for n in range(runs)))


async def test_no_more_calls_are_under_way_than_the_host_allows() -> None:
    model = Counting(steps=5, pause=True)
    await played(model, runs=20, calls_max=3)
    assert model.most == 3
    assert len(model.order) == 100


async def test_runs_that_wait_for_a_slot_are_served_in_turn() -> None:
    model = Counting(steps=10, pause=True)
    await played(model, runs=5, calls_max=1)
    for n in range(5):
        turns = [at for at, run in enumerate(model.order) if run == f"r{n}"]
        assert max(after - before for before, after in itertools.pairwise(turns)) <= 10


async def test_a_run_that_never_waits_lets_the_others_go_on() -> None:
    model = Counting(steps=50)
    await played(model, runs=2, calls_max=10)
    first = max(at for at, run in enumerate(model.order) if run == "r0")
    second = min(at for at, run in enumerate(model.order) if run == "r1")
    assert second < first, "they took turns"


async def test_a_run_that_never_waits_does_not_stop_the_clock() -> None:
    """Alone as it is, it gives way after so many steps."""
    model, ticks = Counting(steps=100), 0

    async def ticking() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with runner_of(model, calls_max=10) as runner:
        await runner.start(LOOP, "", "go", run_id="r")
        task = asyncio.create_task(ticking())
        await runner.wait_until_settled("r")
        task.cancel()
    assert ticks >= 100 // STEPS_IN_A_ROW
