"""A provider that has too many calls is not called by any process of the store until it takes calls again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.errors import ModelUnavailable, StoreBroken, StoreFailed
from interlock.ports import ModelReply, ModelRequest, ProviderHold
from interlock.runtime.claiming.work import DEFAULT_WORK, WorkSettings
from interlock.runtime.provider_holds import READ_AGAIN_MS
from interlock.runtime.runner import Runner
from interlock.runtime.stored_crews import as_stored_form
from interlock.testing import ManualClock, MemoryStore
from interlock.testing.memory_owners import MemoryLeaders

CREW = """\
version: "2.0"
name: NAME
entry_point: a
agents: [{id: a, model: "PROVIDER"}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


class Provider:
    """Fails as it is told to, then replies; notes who called, and when."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.calls: list[tuple[str, int]] = []
        self.failures: list[ModelUnavailable] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.calls.append((request.key.partition(":")[0], self._clock.monotonic_ms()))
        await self.is_open.wait()
        if self.failures:
            raise self.failures.pop()
        yield ModelReply(text="[END]")


class Office:
    """Two processes on one store."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.stores = [first := MemoryStore(), MemoryStore(beside=first)]
        self.provider = Provider(self.clock)
        self.first, self.second = map(self.runner_on, self.stores)

    def runner_on(self, store: MemoryStore, work: WorkSettings = DEFAULT_WORK) -> Runner:
        return Runner(
            journal=store,
            owners=store,
            orders=store,
            budgets=store,
            outbox=store,
            leaders=MemoryLeaders(store),
            bus=store.bus,
            deltas=ProcessDeltas(),
            clock=self.clock,
            model_for=lambda _crew, _agent, _run: self.provider,
            toolbox=PythonToolbox(()),
            work=work,
        )

    def crew(self, provider: str) -> CrewDefinition:
        (self.folder / "crew.yaml").write_text(CREW.replace("PROVIDER", provider), "utf-8")
        return load_definition(self.folder)

    async def start(self, runner: Runner, run_id: str, provider: str = "openai:gpt") -> None:
        crew, sha, bodies = as_stored_form(self.crew(provider))
        for each, body in bodies.items():
            await runner.journal.put_crew(each, body)
        await runner.start(crew, sha, "go", run_id=run_id)

    async def settle(self, holds: Callable[[], bool]) -> None:
        for _ in range(500):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it does not come to pass")

    async def rest(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def pass_time(self, ms: int) -> None:
        """Lets time pass in small steps, with all that is due in each."""
        for _ in range(ms // 250):
            self.clock.advance(250)
            await self.rest()

    def called_at(self, run: str) -> list[int]:
        return [at for who, at in self.provider.calls if who == run]


@pytest.fixture
def office(tmp_path: Any) -> Office:
    return Office(tmp_path)


@asynccontextmanager
async def at_work(office: Office) -> AsyncIterator[Office]:
    async with office.first, office.second:
        await office.rest()
        yield office


def busy(wait_ms: int, *, is_overloaded: bool = True) -> ModelUnavailable:
    return ModelUnavailable("too many requests", retry_after_ms=wait_ms, is_overloaded=is_overloaded)


async def test_a_process_waits_for_a_provider_that_told_another_one_to_wait(office: Office) -> None:
    async with at_work(office):
        office.provider.failures = [busy(8_000)]
        await office.start(office.first, "one")
        await office.settle(lambda: len(office.provider.calls) == 1)
        await office.pass_time(READ_AGAIN_MS)
        await office.start(office.second, "two")
        await office.start(office.first, "three")
        await office.start(office.second, "other", "gemini:pro")
        await office.settle(lambda: bool(office.called_at("other")))  # another provider
        await office.pass_time(7_000)
        assert {who for who, _ in office.provider.calls} == {"one", "other"}
        await office.pass_time(4_000)
        for run in ("two", "three"):
            (at,) = office.called_at(run)
            assert 8_000 <= at <= 8_000 * 1.25 + 250
        assert len(office.called_at("one")) == 2


async def test_only_a_provider_with_too_many_calls_holds_others_back(office: Office) -> None:
    async with at_work(office):
        office.provider.failures = [busy(8_000, is_overloaded=False), busy(0)]
        for run in ("one", "two"):
            await office.start(office.first, run)
        await office.settle(lambda: len(office.provider.calls) == 2)
        await office.start(office.second, "three")
        await office.settle(lambda: bool(office.called_at("three")))


async def test_a_call_waits_for_a_minute_at_most(office: Office) -> None:
    async with at_work(office):
        office.provider.failures = [busy(3_600_000)]
        await office.start(office.first, "one")
        await office.settle(lambda: len(office.provider.calls) == 1)
        (held,) = await office.stores[1].provider_holds(office.clock.now_ms())
        assert held == ProviderHold(server="openai", until=office.clock.now_ms() + 60_000)
        await office.pass_time(READ_AGAIN_MS)
        await office.start(office.second, "two")
        for _ in range(2):  # others are told to wait again and again
            await office.pass_time(20_000)
            now = office.clock.now_ms()
            await office.stores[0].hold_provider(ProviderHold(server="openai", until=now + 60_000), now)
        assert not office.called_at("two")
        await office.pass_time(100_000)
        assert len(office.called_at("two")) == 1


async def test_a_call_that_waits_for_a_slot_is_held_back_by_a_refusal_in_the_meantime(office: Office) -> None:
    office.first = office.runner_on(office.stores[0], WorkSettings(calls_max=1))
    async with at_work(office):
        office.provider.failures = [busy(8_000)]
        office.provider.is_open.clear()
        for run in ("one", "two", "three"):
            await office.start(office.first, run)
        await office.rest()
        assert [who for who, _ in office.provider.calls] == ["one"]
        office.provider.is_open.set()
        await office.rest()
        await office.start(office.first, "other", "gemini:pro")  # nobody who waits keeps the slot
        await office.settle(lambda: bool(office.called_at("other")))
        await office.pass_time(7_500)
        assert {who for who, _ in office.provider.calls} == {"one", "other"}
        await office.pass_time(4_000)
        for run in ("two", "three"):
            (at,) = office.called_at(run)
            assert 8_000 <= at <= 8_000 * 1.25 + 250


async def test_a_process_that_starts_later_knows_the_holds(office: Office) -> None:
    now = office.clock.now_ms()
    await office.stores[0].hold_provider(ProviderHold(server="openai", until=now + 5_000), now)
    async with at_work(office):
        await office.start(office.second, "two")
        await office.rest()
        assert not office.provider.calls
        await office.pass_time(6_500)
        assert len(office.called_at("two")) == 1


async def test_a_call_that_waits_can_be_cancelled_and_has_not_begun(office: Office) -> None:
    now = office.clock.now_ms()
    await office.stores[0].hold_provider(ProviderHold(server="openai", until=now + 50_000), now)
    async with at_work(office):
        await office.start(office.second, "two")
        await office.rest()
        assert not office.second.live["two"].begun
        await office.second.cancel(office.crew("openai:gpt"), "two", "somebody")
        await office.settle(lambda: "two" not in office.second.live)
        assert not office.provider.calls


async def test_calls_that_are_refused_together_are_stored_once(office: Office) -> None:
    async with at_work(office):
        stored: list[ProviderHold] = []
        hold_provider = office.stores[0].hold_provider

        async def counting(hold: ProviderHold, at: int) -> None:
            stored.append(hold)
            await hold_provider(hold, at)

        office.stores[0].hold_provider = counting  # type: ignore[method-assign]
        office.provider.failures = [busy(8_000 + n) for n in range(5)]
        office.provider.is_open.clear()
        for n in range(5):
            await office.start(office.first, f"r{n}")
        await office.settle(lambda: len(office.provider.calls) == 5)
        office.provider.is_open.set()
        await office.settle(lambda: not office.provider.failures)
        await office.rest()
        assert len(stored) == 1


async def test_a_store_that_is_away_is_asked_again_and_a_broken_one_is_not(office: Office) -> None:
    asked, errors = list[int](), [StoreFailed("away"), StoreFailed("away"), StoreBroken("gone")]

    async def fails(at: int) -> Any:
        asked.append(at)
        raise errors[len(asked) - 1]

    async def away(hold: ProviderHold, at: int) -> None:
        raise StoreFailed("away")

    office.stores[1].provider_holds = fails  # type: ignore[method-assign]
    office.stores[1].hold_provider = away  # type: ignore[method-assign]
    async with at_work(office):
        await office.pass_time(10 * READ_AGAIN_MS)
        assert len(asked) == 3
        office.provider.failures = [busy(5_000)]
        await office.start(office.second, "two")
        await office.settle(lambda: len(office.provider.calls) == 1)
        await office.start(office.second, "three")  # this process waits all the same
        await office.pass_time(4_000)
        assert len(office.provider.calls) == 1
