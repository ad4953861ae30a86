"""What every store of a server promises: requests, sessions, webhooks, schedules, usage totals and counts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.postgres.tables import schedules as postgres_schedules
from interlock.adapters.postgres.tables import server_tables as postgres_tables
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables import schedules as sqlite_schedules
from interlock.adapters.sqlite.tables import server_tables as sqlite_tables
from interlock.broadcast.run_schedules import RunSchedule
from interlock.engine.events import Usage
from interlock.errors import UsageError
from interlock.ports import (
    AtomicWrites,
    IdempotencyStore,
    IdempotentRequest,
    Leadership,
    RunQuestions,
    RunSchedules,
    RunUsage,
    UsageTotals,
    WebhookDelivery,
    WebhookOutbox,
)
from interlock.testing import ManualClock
from tests.contracts.places import NOW, leaders_of
from tests.contracts.test_journal import Place, a_row, place_of_kind, question, replied, started

ServerStore = SqliteStore | PostgresStore


def as_ports(store: ServerStore) -> tuple[IdempotencyStore, WebhookOutbox, RunSchedules, UsageTotals]:
    """Never called: the type check proves by it that stores are what the ports ask for."""
    return store, store, store, store


@pytest.fixture(params=["sqlite-full", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of_kind(request.param, tmp_path / "data") as found:
        yield found


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[ServerStore]:
    async with place.opened() as store:
        assert isinstance(store, SqliteStore | PostgresStore)
        yield store


@asynccontextmanager
async def leading(store: ServerStore) -> AsyncIterator[Leadership]:
    async with leaders_of(store, ManualClock()).leadership("webhooks") as leader:
        yield leader


def a_request(key: str = "k", at: int = NOW, planned: str = "r1") -> IdempotentRequest:
    return IdempotentRequest(caller="me", key=key, fingerprint=b"\0\1", planned=planned, at=at)


async def test_the_first_request_under_a_key_counts_until_it_is_forgotten(place: Place) -> None:
    async with opened(place) as store:
        first = await store.register_request(a_request(), forget_before=0)
        assert first == a_request()
        assert await store.register_request(a_request(planned="r2", at=NOW + 1), forget_before=0) == first
        done = msgspec.structs.replace(first, status=201, body=b"\0{}")
        await store.store_response(done)
        assert await store.register_request(a_request(planned="r2"), forget_before=NOW) == done
        fresh = a_request(planned="r3", at=NOW + 2)
        assert await store.register_request(fresh, forget_before=NOW + 1) == fresh


async def test_closed_sessions_are_listed_until_they_would_have_ended(place: Place) -> None:
    async with opened(place) as store:
        for session, until in (("b", 20), ("a", 30), ("b", 99)):
            await store.close_session(session, until, now=1)
        assert await store.list_closed_sessions(19) == ["a", "b"]
        assert await store.list_closed_sessions(20) == ["a"]
        await store.close_session("c", 40, now=30)
        assert await store.list_closed_sessions(0) == ["c"]


def letter(key: str, hook: str = "hook", due_at: int = 5) -> WebhookDelivery:
    return WebhookDelivery(hook=hook, key=key, body=b"\0" + key.encode(), due_at=due_at)


async def test_deliveries_are_stored_once_with_the_position_and_sent_by_time(place: Place) -> None:
    async with opened(place) as store, leading(store) as leader:
        assert await store.position_of_hook("hook") is None
        await store.start_hook("hook", 3)
        await store.start_hook("hook", 9)
        assert await store.position_of_hook("hook") == 3
        await store.enqueue_deliveries("hook", 4, [letter("a", due_at=7), letter("b")], leader)
        await store.enqueue_deliveries("hook", 5, [letter("b"), letter("c", "other")], leader)
        assert await store.position_of_hook("hook") == 5
        assert await store.hooks_due(4) == []
        assert await store.hooks_due(5) == ["hook", "other"]
        found = await store.due_deliveries("hook", 9, 10)
        assert [(each.key, each.body, each.attempts, each.dead) for each in found] == [
            ("b", b"\0b", 0, False),
            ("a", b"\0a", 0, False),
        ]
        assert [each.key for each in await store.due_deliveries("hook", 9, 1)] == ["b"]
        await store.ack_delivery(found[0])
        assert [each.key for each in await store.due_deliveries("hook", 9, 10)] == ["a"]


async def test_dead_letters_are_kept_newest_first_and_can_be_sent_again(place: Place) -> None:
    async with opened(place) as store, leading(store) as leader:
        await store.enqueue_deliveries("hook", 1, [letter(f"k{n}") for n in range(3)], leader)
        due = await store.due_deliveries("hook", 9, 10)
        for each in due:
            dead = msgspec.structs.replace(each, attempts=8, dead=True, due_at=11, error="gone")
            await store.reschedule_delivery(dead)
        assert await store.due_deliveries("hook", 99, 10) == []
        found = await store.dead_letters(10)
        assert [(each.key, each.error, each.attempts) for each in found] == [
            ("k2", "gone", 8),
            ("k1", "gone", 8),
            ("k0", "gone", 8),
        ]
        assert await store.dead_letters(10, before=found[0].number) == found[1:]
        assert await store.dead_letter(found[1].number) == found[1]
        assert await store.retry_dead_letter(found[1].number, at=50) == found[1]
        assert await store.retry_dead_letter(found[1].number, at=50) is None
        assert [(each.key, each.attempts) for each in await store.due_deliveries("hook", 50, 10)] == [("k1", 0)]
        assert await store.discard_dead_letter(found[0].number)
        assert not await store.discard_dead_letter(found[0].number)
        assert [each.key for each in await store.dead_letters(10)] == ["k0"]


async def test_only_the_newest_dead_letters_are_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for tables in (sqlite_tables, postgres_tables):
        monkeypatch.setattr(tables, "DEAD_LETTERS_MAX", 3)
    async with opened(place) as store, leading(store) as leader:
        await store.enqueue_deliveries("hook", 1, [letter(f"k{n}") for n in range(6)], leader)
        for each in (await store.due_deliveries("hook", 9, 10))[1:]:
            await store.reschedule_delivery(msgspec.structs.replace(each, dead=True))
        assert [each.key for each in await store.dead_letters(10)] == ["k5", "k4", "k3"]
        assert [each.key for each in await store.due_deliveries("hook", 9, 10)] == ["k0"]


def schedule(name: str, due_at: int = 5) -> RunSchedule:
    return RunSchedule(id=name, crew="quiz", input="go", next_at=due_at, created_at=1)


async def test_schedules_are_compared_before_they_are_replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for tables in (sqlite_schedules, postgres_schedules):
        monkeypatch.setattr(tables, "RUN_SCHEDULES_MAX", 4)
    async with opened(place) as store:
        for each in (schedule("b", 7), schedule("a", 7), schedule("c", 6)):
            await store.add_schedule(each)
        assert [each.id for each in await store.run_schedules()] == ["c", "a", "b"]
        assert await store.replace_schedule(schedule("c", 6), schedule("c", 9))
        assert not await store.replace_schedule(schedule("c", 6), schedule("c", 1))
        assert [each.id for each in await store.run_schedules()] == ["a", "b", "c"]
        assert await store.remove_schedule("a")
        assert not await store.remove_schedule("a")
        for n in range(2):
            await store.add_schedule(schedule(f"s{n}"))
        with pytest.raises(UsageError, match="delete one first"):
            await store.add_schedule(schedule("more"))


async def test_a_total_of_usage_holds_until_the_next_record(place: Place) -> None:
    async with opened(place) as store:
        await store.create(a_row(), started())
        row = await store.row("r1")
        total = RunUsage(run="r1", seq=row.seq, agents={"teacher": Usage(calls=2)})
        await store.store_usage([total, RunUsage(run="r9", seq=1, agents={})])
        await store.store_usage([total])
        assert await store.usage_by_run([row]) == {"r1": total}
        await store.append(a_row(), replied(3))
        assert await store.usage_by_run([await store.row("r1")]) == {}
        assert await store.usage_by_run([a_row("r9")]) == {}


async def test_rows_are_counted_for_monitoring(place: Place) -> None:
    async with opened(place) as store, leading(store) as leader:
        asking = AtomicWrites(asking=RunQuestions(run="r1", questions=(question("r1", 1, 5), question("r1", 2, 4))))
        await store.create(a_row(status="paused"), started(), asking)
        await store.create(a_row("r2"), started())
        await store.create(a_row("r3", status="completed"), started())
        await store.enqueue_deliveries("hook", 1, [letter("a"), letter("b")], leader)
        (first, _) = await store.due_deliveries("hook", 9, 10)
        await store.reschedule_delivery(msgspec.structs.replace(first, dead=True))
        await store.add_schedule(schedule("a", 70))
        found = await store.folder_counts()
        assert found.runs == (("quiz", "paused", 1), ("quiz", "running", 1))
        assert (found.questions, found.oldest_question_at) == (2, 4)
        assert (found.letters_waiting, found.letters_dead, found.broadcasts_dead) == (1, 1, 0)
        assert (found.schedules, found.schedules_failed, found.next_schedule_at) == (1, 0, 70)
