from collections.abc import Sequence

import pytest

from interlock.ports import ProcessLoad, StoreOverview
from interlock.runtime.claiming.claim_loop import ClaimLoop
from interlock.runtime.claiming.rebalance import STEP_MS, Rebalance, surplus_of
from interlock.runtime.claiming.work import WorkSettings
from interlock.testing import ManualClock, MemoryStore
from tests.runtime.claiming.test_claim_loop import Slow, Waiting, runner_on
from tests.runtime.test_fairness import LOOP


@pytest.mark.parametrize(
    ("mine", "all_workers", "surplus"),
    [
        (0, [], 0),
        (9, [9], 0),
        (100, [100, 100], 0),
        (100, [100, 60], 0),
        (100, [100, 20], 5),
        (1_000, [1_000, 0, 0], 50),
        (2, [2, 0], 1),
        (1, [1, 0], 0),
        (0, [0, 10], 0),
    ],
)
def test_a_worker_with_far_more_than_the_mean_gives_a_small_share(
    mine: int, all_workers: Sequence[int], surplus: int
) -> None:
    assert surplus_of(mine, all_workers) == surplus


class Loads(MemoryStore):
    """Tells of workers, and of a process that is none."""

    def __init__(self, **runs: int) -> None:
        super().__init__()
        self.runs, self.asked = runs, 0

    async def overview(self) -> StoreOverview:
        self.asked += 1
        workers = [ProcessLoad(owner=owner, runs=runs, is_worker=True) for owner, runs in self.runs.items()]
        server = ProcessLoad(owner="server", runs=0, is_worker=False)
        return StoreOverview(version=1, processes=(*workers, server), leaders=(), waiting=0, oldest_waiting_at=0)


async def test_the_newest_runs_are_handed_over_and_not_claimed_back_at_once() -> None:
    clock, store, model = ManualClock(), MemoryStore(), Slow()
    runner = runner_on(store, clock, calls_max=1)
    runner.effect_runner.model_calls._model_for = lambda _crew, _agent, _run: model
    waiting = Waiting(5)
    async with runner:
        for number in range(4):
            clock.advance(1)
            await runner.start(LOOP, "", "go", run_id=f"r{number}")
        await model.begun.wait()
        claims = ClaimLoop(runner, waiting.recover)
        claims.load.work = WorkSettings()  # its calls leave room
        rebalance = Rebalance(runner, claims, Loads(me=4, other=0), "me")
        await rebalance.step()
        assert sorted(runner.live) == ["r0", "r1", "r2"]
        assert not await store.is_owned("r3")
        assert not await claims.sweep() and waiting.asked == []
        clock.advance(STEP_MS)
        await claims.sweep()
        assert len(waiting.asked) == 1


async def test_nothing_is_handed_over_while_the_load_is_even() -> None:
    clock, store = ManualClock(), MemoryStore()
    runner = runner_on(store, clock)
    async with runner:
        claims, loads = ClaimLoop(runner, Waiting().recover), Loads(me=2, other=2)
        rebalance = Rebalance(runner, claims, loads, "me")
        await runner.start(LOOP, "", "go", run_id="r1")
        await rebalance.step()
        assert loads.asked == 0, "one run is never too many"
        await runner.start(LOOP, "", "go", run_id="r2")
        await rebalance.step()
        assert (loads.asked, list(runner.live)) == (1, ["r1", "r2"])


async def test_private_runs_are_kept_because_no_other_process_would_claim_them() -> None:
    clock, store, model = ManualClock(), MemoryStore(), Slow()
    runner = runner_on(store, clock, calls_max=1, private=True)
    runner.effect_runner.model_calls._model_for = lambda _crew, _agent, _run: model
    async with runner:
        for number in range(4):
            await runner.start(LOOP, "", "go", run_id=f"r{number}")
        await model.begun.wait()
        claims = ClaimLoop(runner, Waiting().recover)
        await Rebalance(runner, claims, Loads(me=4, other=0), "me").step()
        assert len(runner.live) == 4
