"""Calls of the bus hold the lock of the store, so they are few round trips, however much they write."""

from collections.abc import Awaitable

from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.adapters.postgres.store import PostgresStore
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.engine.events import RunStarted
from interlock.ports import Activity, AtomicWrites, Record, RunRow
from tests.adapters.sqlite.bus.test_announcements import NOW


def broadcast(name: str) -> Broadcast:
    return Broadcast(id=name, type="x", source=PROCESS, created_at=NOW)


def later(name: str) -> DelayedBroadcast:
    return DelayedBroadcast(id=name, type="x", source=PROCESS, deliver_at=NOW, created_at=NOW, updated_at=NOW)


async def trips_of(store: PostgresStore, call: Awaitable[object]) -> int:
    before = store.round_trips
    await call
    return store.round_trips - before


async def test_the_number_of_subscribers_costs_no_round_trip(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    bus = PostgresBus(store)
    try:
        for n in range(1, 31):
            hears = AgentSubscription(crew="ci", agent=f"a{n}", pattern="x", silent=n % 2 == 0)
            await bus.subscribe(hears)
            if n == 1:
                few = await trips_of(store, bus.emit(Emission(broadcast=broadcast("b1"))))
        assert await trips_of(store, bus.emit(Emission(broadcast=broadcast("b2")))) == few == 5
        assert len(await bus.agents_with_unread()) == len(await bus.agents_with_deliveries(NOW)) == 15
    finally:
        await store.close()


async def test_the_number_of_due_signals_costs_no_round_trip(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    bus = PostgresBus(store)
    try:
        for n in range(21):
            await bus.schedule(later(f"d{n}"))
        one, *others = await bus.due_broadcasts(NOW, 100)
        few = await trips_of(store, bus.dispatch((one,), NOW))
        assert await trips_of(store, bus.dispatch(others, NOW)) == few
        assert len(await bus.newest(100)) == 21 and await bus.list_delayed() == []
        many = [broadcast(f"r{n}") for n in range(50)]
        assert await trips_of(store, bus.restore(many)) == await trips_of(store, bus.restore(many[:1]))
    finally:
        await store.close()


async def test_a_transition_that_announces_is_one_round_trip(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    try:
        await PostgresBus(store).subscribe(AgentSubscription(crew="ci", agent="a", pattern="x"))
        rows = [RunRow(run=run, crew="ci", crew_sha="", status="running", created_at=NOW) for run in ("r", "s")]
        record = Record(seq=1, at=NOW, events=(RunStarted(crew="ci", input="", rules=1),))
        await store.create(rows[0], record)  # the first of a month makes its partition
        also = AtomicWrites(broadcasts=(Emission(broadcast=broadcast("b1")),), begun=(("a", 0),))
        assert await trips_of(store, store.create(rows[1], record, also)) == 1
        assert len(await PostgresBus(store).newest(10)) == 2
    finally:
        await store.close()


async def test_presence_that_is_known_is_read_and_not_written(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    bus = PostgresBus(store)
    awake = Activity(name="s", place=1, crew="ci", run="r1", at=NOW, begun=(("a", 0),))
    try:
        assert await trips_of(store, bus.record_presence(awake)) > 0
        assert await trips_of(store, bus.record_presence(awake)) == 0
        more = Activity(name="s", place=2, crew="ci", run="r1", at=NOW, begun=(("a", 0), ("b", 0)))
        assert await trips_of(store, bus.record_presence(more)) > 0
    finally:
        await store.close()
