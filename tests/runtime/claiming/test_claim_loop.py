import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.errors import StoreBroken, StoreFailed
from interlock.ports import ModelReply, ModelRequest
from interlock.runtime.claiming.claim_loop import BATCH_MAX, SWEEP_MS, SWEEP_MS_MIN, ClaimLoop
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.runner import Runner
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders


class Slow:
    """Replies when it is told to."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.calls: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.calls.append(request.key)
        self.begun.set()
        await self.may_end.wait()
        yield ModelReply(text=f"{request.number} [NEXT]")


def runner_on(store: MemoryStore, clock: ManualClock, model: Slow | None = None, **work: Any) -> Runner:
    said = model or Slow()
    return Runner(
        journal=store,
        owners=store,
        orders=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        bus=store.bus,
        deltas=ProcessDeltas(),
        clock=clock,
        model_for=lambda _crew, _agent, _run: said,
        toolbox=PythonToolbox(()),
        work=WorkSettings(**work),
    )


class Waiting:
    """Runs that wait, and what was asked of them."""

    def __init__(self, count: int = 0, error: StoreFailed | None = None) -> None:
        self.count, self.error = count, error
        self.asked: list[tuple[int, Collection[str] | None, Collection[str] | None]] = []

    async def recover(
        self, limit: int, *, crews: Collection[str] | None, organizations: Collection[str] | None
    ) -> Sequence[str]:
        self.asked.append((limit, crews, organizations))
        if self.error is not None:
            raise self.error
        taken = min(limit, self.count)
        self.count -= taken
        return [f"r{n}" for n in range(taken)]


@asynccontextmanager
async def running(waiting: Waiting, **work: Any) -> AsyncIterator[tuple[ClaimLoop, ManualClock, MemoryStore]]:
    store, clock = MemoryStore(), ManualClock()
    claims = ClaimLoop(runner_on(store, clock, **work), waiting.recover)
    task = asyncio.create_task(claims.run())
    await settle(lambda: clock.next_wake_ms() is not None)
    try:
        yield claims, clock, store
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settle(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to pass")


async def test_a_sweep_comes_after_its_time_and_asks_for_what_the_process_is_for() -> None:
    waiting = Waiting()
    async with running(waiting, runs_max=7, crews=("one",), organizations=("us",)) as (_, clock, _):
        assert waiting.asked == []
        clock.advance(round(SWEEP_MS * 1.3) + 1)
        await settle(lambda: waiting.asked == [(7, ("one",), ("us",))])


async def test_no_more_are_claimed_than_there_is_room_for_and_never_too_many_at_once() -> None:
    claims = ClaimLoop(runner_on(MemoryStore(), ManualClock(), runs_max=3), Waiting(10).recover)
    waiting = Waiting(BATCH_MAX + 5)
    large = ClaimLoop(runner_on(MemoryStore(), ManualClock(), runs_max=10_000), waiting.recover)
    assert await claims.sweep()
    await large.sweep_all()
    assert [limit for limit, _, _ in waiting.asked] == [BATCH_MAX, BATCH_MAX]


async def test_a_sweep_that_was_full_is_soon_followed_by_the_next() -> None:
    waiting = Waiting(2 * BATCH_MAX + 5)
    async with running(waiting, runs_max=10_000) as (_, clock, _):
        clock.advance(round(SWEEP_MS * 1.3) + 1)
        for count in (2, 3):
            await settle(lambda count=count: len(waiting.asked) == count - 1)  # type: ignore[misc]
            await settle(lambda: clock.next_wake_ms() is not None)
            clock.advance(SWEEP_MS_MIN)
            await settle(lambda count=count: len(waiting.asked) == count)  # type: ignore[misc]
        assert waiting.count == 0


async def test_a_loop_that_is_paused_or_stopped_claims_nothing() -> None:
    waiting, clock = Waiting(5), ManualClock()
    claims = ClaimLoop(runner_on(MemoryStore(), clock), waiting.recover)
    claims.pause(1_000)
    assert not await claims.sweep()
    assert waiting.asked == []
    clock.advance(1_000)
    await claims.sweep()
    claims.stop()
    await claims.sweep()
    assert len(waiting.asked) == 1


async def test_a_store_that_is_away_is_asked_again_and_a_broken_one_is_not() -> None:
    waiting = Waiting(error=StoreFailed("away"))
    async with running(waiting) as (_, clock, _):
        for count in (1, 2):
            clock.advance(SWEEP_MS * 2)
            await settle(lambda count=count: len(waiting.asked) == count)  # type: ignore[misc]
            await settle(lambda: clock.next_wake_ms() is not None)
        waiting.error = StoreBroken("gone")
        clock.advance(SWEEP_MS * 2)
        await settle(lambda: len(waiting.asked) == 3)
        await settle(lambda: clock.next_wake_ms() is None)
