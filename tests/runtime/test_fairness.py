"""Calls are bounded, and nobody waits for ever while others go on."""

import asyncio
import itertools
from collections.abc import AsyncIterator

from interlock.adapters.tools_python import PythonToolbox
from interlock.crew.definition import Agent, Crew, Route, Settings
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.runner import STEPS_IN_A_ROW, Runner
from interlock.signals.definition import SignalBehavior
from interlock.testing import ManualClock, MemoryStore

LOOP = Crew(
    version="2.0",
    name="loop",
    entry_point="a",
    agents=(Agent(id="a", name="Ann"),),
    routes={
        "a": (
            Route(signal="[NEXT]", behavior=SignalBehavior.ROUTE, priority=50, target="a"),
            Route(signal="[END]", behavior=SignalBehavior.TERMINATE, priority=100),
        )
    },
    settings=Settings(max_handoffs=1_000),
)


class Counting:
    """Never waits for anything real; notes whose calls are under way."""

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
        bus=store.bus,
        clock=ManualClock(),
        model_for=lambda _crew, _agent: model,
        toolbox=PythonToolbox(()),
        calls_max=calls_max,
    )


def played(model: Counting, runs: int, calls_max: int) -> None:
    async def told() -> None:
        async with runner_of(model, calls_max) as runner:
            for n in range(runs):
                await runner.start(LOOP, "", "go", run_id=f"r{n}")
            await asyncio.gather(*(runner.settled(f"r{n}") for n in range(runs)))

    asyncio.run(told())


def test_no_more_calls_are_under_way_than_the_host_allows() -> None:
    model = Counting(steps=5, pause=True)
    played(model, runs=20, calls_max=3)
    assert model.most == 3
    assert len(model.order) == 100


def test_runs_that_wait_for_a_slot_are_served_in_turn() -> None:
    model = Counting(steps=10, pause=True)
    played(model, runs=5, calls_max=1)
    for n in range(5):
        turns = [at for at, run in enumerate(model.order) if run == f"r{n}"]
        assert max(after - before for before, after in itertools.pairwise(turns)) <= 10


def test_a_run_that_never_waits_lets_the_others_go_on() -> None:
    model = Counting(steps=50)
    played(model, runs=2, calls_max=10)
    first = max(at for at, run in enumerate(model.order) if run == "r0")
    second = min(at for at, run in enumerate(model.order) if run == "r1")
    assert second < first, "they took turns"


def test_a_run_that_never_waits_does_not_stop_the_clock() -> None:
    """Alone as it is, it gives way after so many steps."""
    model, ticks = Counting(steps=100), 0

    async def ticking() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def told() -> None:
        async with runner_of(model, calls_max=10) as runner:
            await runner.start(LOOP, "", "go", run_id="r")
            task = asyncio.create_task(ticking())
            await runner.settled("r")
            task.cancel()

    asyncio.run(told())
    assert ticks >= 100 // STEPS_IN_A_ROW
