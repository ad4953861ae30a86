import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interlock.runtime.claiming.handover import hand_over, hand_over_all
from interlock.runtime.live_run import LiveRun
from interlock.runtime.runner import Runner
from interlock.testing import ManualClock, MemoryStore
from tests.runtime.claiming.test_claim_loop import Slow, runner_on, settle
from tests.runtime.test_fairness import LOOP


async def test_a_run_in_a_call_is_kept_and_one_that_waits_for_its_turn_is_handed_over() -> None:
    clock, store, model = ManualClock(), MemoryStore(), Slow()
    runner = runner_on(store, clock, calls_max=1)
    runner.effect_runner.model_calls._model_for = lambda _crew, _agent, _run: model
    async with runner:
        for run in ("first", "second"):
            await runner.start(LOOP, "", "go", run_id=run)
        await model.begun.wait()
        assert not await hand_over(runner, "first")
        assert await hand_over(runner, "second")
        assert not await hand_over(runner, "second")
        assert (list(runner.live), await store.is_owned("first"), await store.is_owned("second")) == (
            ["first"],
            True,
            False,
        )


@asynccontextmanager
async def driver_that_has_not_begun(model: Slow) -> AsyncIterator[tuple[Runner, MemoryStore, LiveRun]]:
    """A run that was claimed and is to be driven, in the moment before the first step of its driver."""
    clock, store = ManualClock(), MemoryStore()
    async with runner_on(MemoryStore(beside=store), clock, drives=False) as creating:
        await creating.start(LOOP, "", "go", run_id="r")
    async with runner_on(store, clock, model) as runner:
        live = await runner.live_runs.claim_to_drive("r", LOOP)
        runner.effect_runner.run_effects(live, live.run.outstanding_effects())
        runner.live_runs.drive(live)
        yield runner, store, live


async def test_a_run_whose_driver_has_not_begun_is_kept_and_driven() -> None:
    """Else nobody would drive it: this process would own it with a driver that ended before its first step."""
    model = Slow()
    async with driver_that_has_not_begun(model) as (runner, store, _):
        assert not await hand_over(runner, "r")
        await settle(model.begun.is_set)
        assert (list(runner.live), await store.is_owned("r")) == (["r"], True)


async def test_a_driver_that_is_stopped_before_its_first_step_releases_its_run() -> None:
    async with driver_that_has_not_begun(Slow()) as (runner, store, live):
        live.stop_driver()
        await settle(lambda: not runner.live)
        await settle(lambda: not runner.live_runs.drivers)
        assert not await store.is_owned("r")


async def test_all_runs_are_handed_over_when_their_calls_are_done_and_each_call_is_made_once() -> None:
    clock, store, model = ManualClock(), MemoryStore(), Slow()
    runner = runner_on(store, clock)
    runner.effect_runner.model_calls._model_for = lambda _crew, _agent, _run: model
    async with runner:
        for number in range(3):
            await runner.start(LOOP, "", "go", run_id=f"r{number}")
        await settle(lambda: len(model.calls) == 3)
        leaving = asyncio.create_task(hand_over_all(runner))
        await settle(lambda: clock.next_wake_ms() is not None)
        assert len(runner.live) == 3
        model.may_end.set()
        while not leaving.done():
            clock.advance(50)
            await asyncio.sleep(0)
        assert (len(runner.live), len(model.calls), len(set(model.calls))) == (0, 3, 3)
        assert [len(await store.records(f"r{number}")) > 1 for number in range(3)] == [True] * 3


async def test_a_program_that_awaits_a_run_gets_its_end_also_if_another_process_drives_it() -> None:
    clock, store, slow = ManualClock(), MemoryStore(), Slow()
    beside = MemoryStore(beside=store)
    quick = Slow()
    quick.may_end.set()
    async with runner_on(store, clock, slow, calls_max=1) as first, runner_on(beside, clock, quick) as second:
        for run in ("first", "mine"):
            await first.start(LOOP, "", "go", run_id=run)
        awaited = asyncio.create_task(first.wait_until_settled_anywhere("mine"))
        followed = asyncio.create_task(_types_of(first, "mine"))
        await slow.begun.wait()
        assert await hand_over(first, "mine")
        await _pass_time(clock)
        assert not awaited.done()
        await second.recover(LOOP, "mine")
        while not awaited.done():
            await _pass_time(clock)
        await awaited
        assert (await store.row("mine")).status != "running"
        while not followed.done():
            await _pass_time(clock)
        assert (await followed)[-1] in ("run.finished", "run.paused")


async def test_a_program_that_is_cancelled_itself_does_not_wait_longer() -> None:
    clock, store, model = ManualClock(), MemoryStore(), Slow()
    async with runner_on(store, clock, model) as runner:
        await runner.start(LOOP, "", "go", run_id="r")
        awaited = asyncio.create_task(runner.wait_until_settled_anywhere("r"))
        await model.begun.wait()
        awaited.cancel()
        await asyncio.wait({awaited}, timeout=5)
        assert awaited.cancelled()


async def _types_of(runner: Runner, run_id: str) -> list[str]:
    return [str(event["type"]) async for event in runner.follow(run_id)]


async def _pass_time(clock: ManualClock) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(200)
