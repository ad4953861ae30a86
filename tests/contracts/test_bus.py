"""What every store promises of broadcasts (port `Bus`), and that all of them promise the same."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.postgres.bus.bus import PostgresBus
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.sqlite.bus.bus import SqliteBus
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules.bus_rules import PRUNE_BATCH_MAX
from interlock.broadcast.delayed import DelayedBroadcast
from interlock.broadcast.naming import series_name
from interlock.broadcast.record import PROCESS, Broadcast, Emission, ReceivedBroadcast, Source
from interlock.broadcast.schedules import Schedule
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.engine.events import ModelReplied, RunStarted
from interlock.errors import AlreadyHeard, BadBroadcast, NoSuchSignal, OutOfOrder, StoreFailed, UsageError
from interlock.limits import (
    BROADCAST_HOPS_MAX,
    BROADCASTS_PER_MINUTE_MAX,
    DEAD_LETTERS_MAX,
    DELIVERY_PAUSES_MS,
    INBOX_MAX,
    INBOX_TAKEN_MAX,
    SUBSCRIPTIONS_PER_AGENT_MAX,
)
from interlock.ports import Activity, AtomicWrites, Bus, Delivery, InboxClaim, Journal, PruneResult, Record, RunRow
from interlock.testing import MemoryStore
from tests.postgres import shared_schemas

NOW = 1_800_000_000_000
Store = MemoryStore | SqliteStore | PostgresStore
STORES = ("memory", "sqlite", "postgres")


def bus_of(store: Store) -> Bus:
    if isinstance(store, MemoryStore):
        return store.bus
    return SqliteBus(store) if isinstance(store, SqliteStore) else PostgresBus(store)


class Place:
    """Where broadcasts are kept; every store opened here sees the same ones, as another process would."""

    def __init__(self, kind: str, folder: Path, url: str = "") -> None:
        self.kind, self.folder, self.url = kind, folder, url
        self._first: MemoryStore | None = None

    def open(self) -> Store:
        if self.kind == "sqlite":
            return SqliteStore(self.folder)
        if self.kind == "postgres":
            return PostgresStore(self.url)
        store = MemoryStore(beside=self._first)
        self._first = self._first or store
        return store

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Bus, Store]]:
        store = self.open()
        try:
            yield bus_of(store), store
        finally:
            await store.close()


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        url = stack.enter_context(shared_schemas().borrow()) if kind == "postgres" else ""
        yield Place(kind, folder, url)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of(request.param, tmp_path / "data") as made:
        yield made


def emission(name: str, kind: str = "x", *, at: int = NOW, crew: str = "", agent: str = "", hops: int = 0) -> Emission:
    source = Source(type="agent", id=agent) if agent else PROCESS
    broadcast = Broadcast(id=name, type=kind, source=source, data={"n": 1}, created_at=at)
    return Emission(broadcast=broadcast, crew=crew, agent=agent, hops=hops)


def hears(
    agent: str, pattern: str = "*", *, silent: bool = True, crew: str = "ci", origin: Any = "api"
) -> AgentSubscription:
    return AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=silent, origin=origin)


def later(name: str, at: int = NOW, **changes: Any) -> DelayedBroadcast:
    fields: dict[str, Any] = {
        "id": name, "type": "x", "source": PROCESS, "deliver_at": at, "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    return DelayedBroadcast(**(fields | changes))


def ids(found: Any) -> list[str]:
    return [each.broadcast.id if isinstance(each, ReceivedBroadcast) else each.id for each in found]


async def taken(bus: Bus, agent: str, key: str = "run:1.0", crew: str = "ci") -> list[str]:
    return ids(await bus.claim_inbox(InboxClaim(key=key, crew=crew, agent=agent)))


async def queued(bus: Bus, now: int) -> list[Delivery]:
    """What comes next for each who is to act on something."""
    found = [await bus.next_delivery(*hearer, now) for hearer in await bus.agents_with_deliveries(now)]
    return [each for each in found if each is not None]


async def started(store: Journal, run: str = "r", also: AtomicWrites | None = None) -> RunRow:
    row = RunRow(run=run, crew="ci", crew_sha="", status="running", created_at=NOW, updated_at=NOW)
    record = Record(seq=1, at=NOW, events=(RunStarted(crew="ci", input="", rules=1),))
    await store.create(row, record, also or AtomicWrites())
    return row


def reply(seq: int) -> Record:
    return Record(seq=seq, at=NOW, events=(ModelReplied(call="1.0", agent="a", text=""),))


# Announcing


async def test_the_newest_come_oldest_first_and_a_restart_keeps_them(place: Place) -> None:
    async with place.opened() as (bus, _):
        for n in range(5):
            assert (await bus.emit(emission(f"b{n}", f"t:{n % 2}"))).news
    if place.kind != "memory":
        async with place.opened() as (bus, _):
            assert ids(await bus.newest(3)) == ["b2", "b3", "b4"]
            assert ids(await bus.newest(9)) == ["b0", "b1", "b2", "b3", "b4"]
            assert ids(await bus.newest(2, "t:0")) == ["b2", "b4"]
            assert [(at, each.id) for at, each in await bus.since(3, 10)] == [(4, "b3"), (5, "b4")]
            assert await bus.head() == 5


async def test_the_same_broadcast_again_is_kept_and_delivered_once(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        await bus.subscribe(hears("b", silent=False))
        for _ in range(3):
            await bus.emit(emission("b1"))
        assert len(await bus.newest(10)) == 1
        assert await taken(bus, "a") == ["b1"]
        assert len(await queued(bus, NOW)) == 1
        assert not (await bus.emit(emission("b1"))).news


async def test_it_reaches_who_hears_it_once_each_and_never_its_own_agent(place: Place) -> None:
    async with place.opened() as (bus, _):
        for subscribed in (hears("a", "build:*"), hears("a", "*:done"), hears("b", "build:done", silent=False)):
            await bus.subscribe(subscribed)
        announced = await bus.emit(emission("b1", "build:done", crew="ci", agent="b"))
        assert announced.reached == (Subscriber("ci", "a", True),)
        announced = await bus.emit(emission("b2", "build:done", crew="ops", agent="b"))
        assert announced.reached == (Subscriber("ci", "a", True), Subscriber("ci", "b", False))
        assert await taken(bus, "a") == ["b1", "b2"]


async def test_a_broadcast_is_written_with_the_record_that_caused_it_and_not_without_it(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a"))
        row = await started(store)
        also = AtomicWrites(broadcasts=(emission("b1", crew="ci", agent="z"),))
        appended = await store.append(row, reply(2), also)
        assert appended.announced.reached == (Subscriber("ci", "a", True),)
        with pytest.raises(OutOfOrder):
            await store.append(row, reply(7), AtomicWrites(broadcasts=(emission("b2"),)))
        assert ids(await bus.newest(10)) == ["b1"]
        again = await store.append(row, reply(2), also)  # a caller that lost the answer asks again
        assert again.position == appended.position
        assert await taken(bus, "a") == ["b1"]


async def test_subscribers_of_another_process_count_at_once(place: Place) -> None:
    async with place.opened() as (bus, _):
        other_store = place.open()
        other = bus_of(other_store)
        try:
            assert (await bus.emit(emission("b1"))).reached == ()
            await other.subscribe(hears("a"))
            assert (await bus.emit(emission("b2"))).reached == (Subscriber("ci", "a", True),)
            assert await other.unsubscribe("ci", "a", "*")
            assert (await bus.emit(emission("b3"))).reached == ()
        finally:
            await other_store.close()


# Forgetting


async def test_old_broadcasts_are_forgotten_page_by_page_but_for_those_somebody_is_still_to_hear(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("quiet", "for:quiet"))
        await bus.subscribe(hears("loud", "for:loud", silent=False))
        for n in range(PRUNE_BATCH_MAX + 5):
            await bus.emit(emission(f"b{n}", at=NOW + n))
        await bus.emit(emission("unread", "for:quiet"))
        await bus.emit(emission("undelivered", "for:loud"))
        await bus.emit(emission("young", at=NOW + 10**6))
        head = await bus.head()
        first = await bus.prune(NOW + 10**6)
        assert (first.gone, first.further) == (PRUNE_BATCH_MAX, PRUNE_BATCH_MAX)
        second = await bus.prune(NOW + 10**6, PRUNE_BATCH_MAX)
        assert (second.gone, second.further) == (5, head)
        assert await bus.prune(NOW + 10**6, head) == PruneResult(gone=0, further=None)
        assert ids(await bus.newest(10)) == ["unread", "undelivered", "young"]
        assert await taken(bus, "quiet") == ["unread"]
        assert [each.heard.broadcast.id for each in await queued(bus, NOW)] == ["undelivered"]


async def test_the_newest_is_never_forgotten_so_that_no_position_is_given_again(place: Place) -> None:
    async with place.opened() as (bus, _):
        for n in range(3):
            await bus.emit(emission(f"b{n}"))
        assert (await bus.prune(NOW + 1)).gone == 2
        assert await bus.head() == 3
        await bus.emit(emission("next"))
        assert [position for position, _ in await bus.since(0, 10)] == [3, 4]


async def test_a_page_without_anything_old_enough_is_the_end(place: Place) -> None:
    async with place.opened() as (bus, _):
        assert await bus.prune(NOW) == PruneResult(gone=0, further=None)
        await bus.emit(emission("a"))
        await bus.emit(emission("b"))
        assert await bus.prune(NOW) == PruneResult(gone=0, further=None)
        assert ids(await bus.newest(10)) == ["a", "b"]


# Inboxes


async def test_mail_is_taken_once_in_order_and_the_same_key_gets_the_same_again(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        for n in range(3):
            await bus.emit(emission(f"b{n}"))
        assert await bus.agents_with_unread() == [("ci", "a")]
        assert await taken(bus, "a", "r:1.0") == ["b0", "b1", "b2"]
        assert await bus.agents_with_unread() == []
        await bus.emit(emission("b3"))
        assert await taken(bus, "a", "r:1.0") == ["b0", "b1", "b2"], "the answer was lost, and is asked for again"
        assert await taken(bus, "a", "other:1.0") == ["b3"]
        assert await taken(bus, "a", "third:1.0") == []


async def test_mail_is_struck_off_with_the_record_that_holds_it_and_comes_back_if_nobody_shows_it(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a"))
        await bus.emit(emission("b1"))
        row = await started(store)
        appended = await store.append(
            row, reply(2), AtomicWrites(taking=(InboxClaim(key="r:2.0", crew="ci", agent="a"),))
        )
        assert [ids(mail) for mail in appended.mail] == [["b1"]]
        await store.append(row, reply(3), AtomicWrites(put_back=("r:2.0",)))
        assert await bus.agents_with_unread() == [("ci", "a")]
        again = AtomicWrites(taking=(InboxClaim(key="r:4.0", crew="ci", agent="a"),))
        assert [ids(mail) for mail in (await store.append(row, reply(4), again)).mail] == [["b1"]]
        await store.append(row, reply(5), AtomicWrites(taken=("r:4.0",)))
        assert await taken(bus, "a", "r:4.0") == []
        assert await bus.agents_with_unread() == []


async def test_a_turn_takes_so_many_and_the_next_one_takes_the_next(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        for n in range(INBOX_TAKEN_MAX + 3):
            await bus.emit(emission(f"b{n}"))
        assert len(await taken(bus, "a", "r:1.0")) == INBOX_TAKEN_MAX
        assert await bus.agents_with_unread() == [("ci", "a")]
        assert len(await taken(bus, "a", "r:2.0")) == 3


async def test_an_inbox_that_is_full_loses_its_oldest_to_the_dead_letters(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a"))
        row = await started(store)
        many = tuple(emission(f"b{n}") for n in range(INBOX_MAX + 2))
        await store.append(row, reply(2), AtomicWrites(broadcasts=many))
        dead = await bus.dead_letters(10)
        assert [(each.id, each.for_agent) for each in dead] == [("b1", "a"), ("b0", "a")]
        assert (await taken(bus, "a"))[0] == "b2"


# Deliveries


async def test_a_delivery_is_gone_with_the_record_that_takes_it_in(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1", hops=3))
        (delivery,) = await queued(bus, NOW)
        assert (delivery.agent, delivery.heard.hops, delivery.attempts) == ("a", 3, 0)
        await started(store, also=AtomicWrites(heard=((delivery.number, "b1"),)))
        assert await queued(bus, NOW) == []


async def test_no_run_starts_with_what_another_one_has_heard(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1"))
        (delivery,) = await queued(bus, NOW)
        also = AtomicWrites(heard=((delivery.number, "b1"),))
        await started(store, "first", also)
        with pytest.raises(AlreadyHeard):
            await started(store, "second", also)
        assert [row.run for row in await store.rows()] == ["first"]


async def test_a_number_that_is_given_again_strikes_off_no_other_delivery(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1"))
        (first,) = await queued(bus, NOW)
        row = await started(store, also=AtomicWrites(heard=((first.number, "b1"),)))
        await bus.emit(emission("b2"))
        (second,) = await queued(bus, NOW)
        await store.append(row, reply(2), AtomicWrites(heard=((second.number, "b1"),)))
        assert await queued(bus, NOW) == [second]


async def test_what_is_handed_back_comes_before_what_was_announced_after_it(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1"))
        (first,) = await queued(bus, NOW)
        row = await started(store, also=AtomicWrites(heard=((first.number, "b1"),)))
        await bus.emit(emission("b2"))
        await store.append(row, reply(2), AtomicWrites(handed_back=(("ci", "a", "b1"),)))
        (following,) = await queued(bus, NOW)
        assert following.heard.broadcast.id == "b1"


async def test_a_delivery_that_fails_is_tried_again_later_and_dies_in_the_end(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1"))
        (delivery,) = await queued(bus, NOW)
        now = NOW
        for attempt, pause in enumerate(DELIVERY_PAUSES_MS, 1):
            assert await bus.record_delivery_failure(delivery.number, "no model", now) is None
            assert await queued(bus, now + pause - 1) == []
            assert await bus.next_due(now) == now + pause
            now += pause
            assert [each.attempts for each in await queued(bus, now)] == [attempt]
        dead = await bus.record_delivery_failure(delivery.number, "no model", now)
        assert dead is not None and (dead.id, dead.reason, dead.for_agent) == ("b1", "no model", "a")
        assert await queued(bus, now * 2) == []
        assert await bus.dead_letters(10) == [dead]
        assert await bus.record_delivery_failure(delivery.number, "again", now) is None


async def test_a_letter_from_an_inbox_goes_back_into_it_and_wakes_nobody(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        for n in range(INBOX_MAX + 1):
            await bus.emit(emission(f"b{n:04}"))
        (dead,) = await bus.dead_letters(5)
        await taken(bus, "a")
        assert await bus.retry_dead_letters(dead.id) == 1
        assert await bus.agents_with_deliveries(NOW) == []
        assert (await taken(bus, "a", "run:2.0"))[0] == dead.id == "b0000"


async def test_a_dead_letter_can_be_delivered_again(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a", silent=False))
        await bus.emit(emission("b1"))
        for _ in range(len(DELIVERY_PAUSES_MS) + 1):
            await bus.record_delivery_failure(1, "no model", NOW)
        assert await bus.retry_dead_letters("b1") == 1
        assert [(each.agent, each.attempts) for each in await queued(bus, NOW)] == [("a", 0)]
        assert await bus.dead_letters(10) == []
        with pytest.raises(NoSuchSignal):
            await bus.retry_dead_letters("b1")


# Storms


async def test_beyond_the_hops_it_is_kept_reaches_nobody_and_is_reported(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        beyond = await bus.emit(emission("b1", crew="ci", agent="z", hops=BROADCAST_HOPS_MAX + 1))
        assert beyond.reached == () and [each.id for each, _ in beyond.withheld] == ["b1"]
        assert ids(await bus.newest(1)) == ["b1"] and ids(await bus.dead_letters(1)) == ["b1"]
        assert await bus.retry_dead_letters("b1") == 1, "a person may deliver it all the same"
        assert await taken(bus, "a") == ["b1"]


async def test_an_agent_that_says_too_much_is_withheld_and_others_are_heard(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a", silent=False))
        row = await started(store)
        many = tuple(emission(f"b{n}", crew="ci", agent="z") for n in range(BROADCASTS_PER_MINUTE_MAX + 2))
        appended = await store.append(row, reply(2), AtomicWrites(broadcasts=many))
        assert len(appended.announced.withheld) == 2
        assert (await bus.emit(emission("other", crew="ci", agent="y"))).reached
        assert (await bus.emit(emission("process"))).reached
        assert (await bus.emit(emission("later", crew="ci", agent="z", at=NOW + 60_000))).reached


async def test_what_nobody_hears_counts_for_nothing(place: Place) -> None:
    async with place.opened() as (bus, store):
        row = await started(store)
        many = tuple(emission(f"b{n}", crew="ci", agent="z") for n in range(BROADCASTS_PER_MINUTE_MAX + 2))
        assert (await store.append(row, reply(2), AtomicWrites(broadcasts=many))).announced.withheld == ()
        await bus.subscribe(hears("a"))
        assert (await bus.emit(emission("heard", crew="ci", agent="z"))).reached


# Waking and sleeping


def activity(*, ended: str = "", begun: str = "", run: str = "r", place: int = 1, at: int = NOW) -> Activity:
    """Of agents with names of one letter."""
    slept, woken = tuple((agent, 0) for agent in ended), tuple((agent, 0) for agent in begun)
    return Activity(name=series_name(run), place=place, crew="ci", run=run, at=at, ended=slept, begun=woken)


async def test_an_agent_wakes_with_its_first_turn_anywhere_and_sleeps_after_its_last(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.record_presence(activity(begun="a", run="r1"))
        await bus.record_presence(activity(begun="a", run="r1"))
        await bus.record_presence(activity(begun="a", run="r2"))
        await bus.record_presence(activity(ended="a", run="r1"))
        await bus.record_presence(activity(ended="a", run="r1"))
        await bus.record_presence(activity(ended="ab", run="r2"))
        kept = await bus.newest(10)
        assert [each.type for each in kept] == ["agent:a:wake", "agent:a:sleep"]
        assert {each.source.type for each in kept} == {"system"}


async def test_nobody_hears_that_they_woke_themselves(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a", "agent:*:wake"))
        await bus.subscribe(hears("b", "agent:*:wake"))
        announced = await bus.record_presence(activity(begun="a"))
        assert announced.reached == (Subscriber("ci", "b", True),)


async def test_waking_goes_with_the_record_of_the_turn(place: Place) -> None:
    async with place.opened() as (bus, store):
        await started(store, also=AtomicWrites(begun=(("a", 0),)))
        assert [each.type for each in await bus.newest(10)] == ["agent:a:wake"]


async def test_what_somebody_hears_of_waking_is_kept_as_what_nobody_hears(place: Place) -> None:
    """Ids, types, order and positions are the same, however a store keeps them."""

    async def handed_over(bus: Bus, run: str, *listens: str) -> list[tuple[int, Broadcast]]:
        for agent in listens:
            await bus.subscribe(hears(agent, "agent:*:*"))
        before = await bus.head()
        await bus.record_presence(activity(begun="a", run=run))
        await bus.record_presence(activity(ended="a", begun="bc", run=run, place=2))
        await bus.record_presence(activity(ended="bc", run=run, place=3))
        return [(position - before, each) for position, each in await bus.since(before, 10)]

    async with place.opened() as (bus, _):
        quiet, heard = await handed_over(bus, "r"), await handed_over(bus, "s", "z")
        assert [each.type for _, each in quiet] == [
            *("agent:a:wake", "agent:a:sleep", "agent:b:wake", "agent:c:wake", "agent:b:sleep", "agent:c:sleep")
        ]
        assert [position for position, _ in quiet] == [1, 2, 3, 4, 5, 6]
        renamed = [
            (position, msgspec.structs.replace(each, id=each.id.replace(series_name("s"), series_name("r"))))
            for position, each in heard
        ]
        assert renamed == quiet


async def test_whoever_reads_in_pages_misses_nothing_of_what_is_kept_as_one(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.emit(emission("first"))
        await bus.record_presence(activity(begun="abc"))
        await bus.emit(emission("last"))
        everything = [each for _, each in await bus.since(0, 10)]
        assert len(everything) == 5 == await bus.head()
        for size in (1, 2, 3, 4):
            found: list[Broadcast] = []
            position = 0
            while page := await bus.since(position, size):
                position, found = page[-1][0], [*found, *(each for _, each in page)]
            assert found == everything
            assert await bus.newest(size) == everything[-size:]
        assert [each.type for each in await bus.newest(2, "agent:*:wake")] == ["agent:b:wake", "agent:c:wake"]


async def test_what_is_kept_as_one_is_pruned_as_one_and_the_newest_stays(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.record_presence(activity(begun="ab", at=NOW - 10))
        await bus.record_presence(activity(ended="ab", place=2, at=NOW - 10))
        assert (await bus.prune(NOW)).gone == 2
        assert [(position, each.type) for position, each in await bus.since(0, 10)] == [
            *((3, "agent:a:sleep"), (4, "agent:b:sleep"))
        ]
        await bus.emit(emission("new"))
        assert (await bus.prune(NOW)).gone == 2
        assert [position for position, _ in await bus.since(0, 10)] == [5]


async def test_waking_that_comes_back_from_a_file_is_not_kept_twice(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.record_presence(activity(begun="ab"))
        known = await bus.newest(10)
        other = msgspec.structs.replace(known[0], id="otherwise")
        assert await bus.restore((*known, other)) == 1
        assert await bus.newest(10) == [*known, other]


# Subscriptions


async def test_subscriptions_are_known_by_crew_agent_and_pattern_and_survive_a_restart(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a", "x"))
        await bus.subscribe(hears("a", "x", silent=False))
        await bus.subscribe(hears("b", "x"))
        await bus.subscribe(hears("a", "x", crew="ops"))
    if place.kind != "memory":
        async with place.opened() as (bus, _):
            kept = [(each.crew, each.agent, each.pattern, each.silent) for each in await bus.subscriptions()]
            assert kept == [("ci", "a", "x", False), ("ci", "b", "x", True), ("ops", "a", "x", True)]
            assert await bus.unsubscribe("ci", "a", "x") and not await bus.unsubscribe("ci", "a", "x")


async def test_a_crews_file_brings_its_subscriptions_and_takes_its_old_ones_away(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a", "by:hand"))
        await bus.declare_subscriptions("ci", "sha1", [hears("a", "x", origin="file"), hears("b", "y", origin="file")])
        await bus.subscribe(hears("b", "y", silent=False))  # an agent changes its own; it stays the file's
        await bus.declare_subscriptions("ci", "sha2", [hears("a", "z", origin="file")])
        assert [(each.agent, each.pattern) for each in await bus.subscriptions()] == [("a", "by:hand"), ("a", "z")]
        assert (await bus.crew_sha("ci"), await bus.crew_sha("other")) == ("sha2", "")


async def test_an_agent_has_so_many_subscriptions_and_no_more(place: Place) -> None:
    async with place.opened() as (bus, _):
        many = [hears("a", f"x:{n}", origin="file") for n in range(SUBSCRIPTIONS_PER_AGENT_MAX)]
        await bus.declare_subscriptions("ci", "sha", many)
        with pytest.raises(UsageError, match="the most allowed"):
            await bus.subscribe(hears("a", "one:more"))
        await bus.subscribe(hears("a", "x:1", silent=False))
        await bus.subscribe(hears("b", "one:more"))


# Later


async def test_the_queue_is_in_order_and_a_restart_keeps_it(place: Place) -> None:
    async with place.opened() as (bus, _):
        for entry in (later("c", NOW + 2), later("b", NOW + 1), later("a", NOW + 1), later("d", NOW + 1, type="a")):
            assert await bus.schedule(entry) is None
    if place.kind != "memory":
        async with place.opened() as (bus, _):
            assert ids(await bus.list_delayed()) == ["d", "a", "b", "c"]
            assert ids(await bus.due_broadcasts(NOW + 1, 10)) == ["d", "a", "b"]
            assert len(await bus.due_broadcasts(NOW + 1, 2)) == 2
            assert await bus.next_due(NOW - 1) == NOW + 1


async def test_the_same_type_and_repeat_key_replace_and_the_same_id_changes_nothing(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.schedule(later("a", repeat_key="k"))
        old = await bus.schedule(later("b", NOW + 5, repeat_key="k"))
        assert old is not None and old.id == "a"
        await bus.schedule(later("c", repeat_key="k", type="y"))
        await bus.schedule(later("d"))
        assert await bus.schedule(later("b", NOW + 9, repeat_key="k")) is None, (
            "an answer was lost, and asked for again"
        )
        assert [(each.id, each.deliver_at) for each in await bus.list_delayed()] == [
            ("d", NOW), ("c", NOW), ("b", NOW + 5),
        ]  # fmt: skip


async def test_cancelling_by_id_or_by_key(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.schedule(later("a"))
        await bus.schedule(later("b", repeat_key="k"))
        gone = await bus.cancel("a")
        assert gone is not None and gone.id == "a"
        gone = await bus.cancel(type="x", repeat_key="k")
        assert gone is not None and gone.id == "b"
        assert await bus.cancel("a") is None
        assert await bus.list_delayed() == [] and await bus.next_due(0) is None


async def test_a_dispatch_reaches_the_inbox_and_leaves_the_queue_together(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.subscribe(hears("a"))
        await bus.schedule(later("d1", data={"remember": "milk"}))
        due = await bus.due_broadcasts(NOW, 10)
        for _ in range(2):  # a second dispatcher saw the same
            await bus.dispatch(due, NOW + 3)
        assert await bus.list_delayed() == []
        (heard,) = await bus.claim_inbox(InboxClaim(key="r:1", crew="ci", agent="a"))
        assert (heard.broadcast.id, heard.broadcast.data) == ("d1", {"remember": "milk"})
        assert heard.broadcast.created_at == NOW + 3
        assert len(await bus.newest(10)) == 1


async def test_what_was_replaced_or_cancelled_while_it_was_being_dispatched_is_not_announced(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.schedule(later("a", repeat_key="k"))
        await bus.schedule(later("b"))
        due = await bus.due_broadcasts(NOW, 10)
        await bus.schedule(later("new", NOW + 9, repeat_key="k"))
        await bus.cancel("b")
        assert not (await bus.dispatch(due, NOW)).news
        assert ids(await bus.list_delayed()) == ["new"]


async def test_a_schedule_stays_in_the_queue_with_its_next_time(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.schedule(later("s", schedule=Schedule(every_ms=1_000)))
        for n in range(3):
            await bus.dispatch(await bus.due_broadcasts(NOW + n * 1_000, 10), NOW + n * 1_000)
        assert [each.deliver_at for each in await bus.list_delayed()] == [NOW + 3_000]
        assert len({each.id for each in await bus.newest(10)}) == 3


async def test_a_dispatch_that_fails_is_put_off_and_dies_in_the_end(place: Place) -> None:
    async with place.opened() as (bus, _):
        await bus.schedule(later("a"))
        now = NOW
        for attempt, pause in enumerate(DELIVERY_PAUSES_MS, 1):
            (entry,) = await bus.due_broadcasts(now, 10)
            assert await bus.record_dispatch_failure(entry, "disk on fire", now) is None
            assert await bus.record_dispatch_failure(entry, "said twice", now) is None
            now += pause
            assert await bus.next_due(now - 1) == now
            assert [each.attempts for each in await bus.list_delayed()] == [attempt]
        (entry,) = await bus.due_broadcasts(now, 10)
        dead = await bus.record_dispatch_failure(entry, "disk on fire", now)
        assert dead is not None and (dead.id, dead.reason) == ("a", "disk on fire")
        assert await bus.list_delayed() == [] and await bus.dead_letters(5) == [dead]
        assert await bus.retry_dead_letters("a") == 1
        assert ids(await bus.newest(5)) == ["a"]


async def test_a_schedule_whose_zone_is_gone_announces_nothing_and_ends_as_a_dead_letter(place: Place) -> None:
    async with place.opened() as (bus, _):
        entry = later("d1", schedule=Schedule(at="09:00", zone="Nowhere/Gone"))
        await bus.schedule(entry)
        with pytest.raises(BadBroadcast):
            await bus.dispatch((entry,), NOW)
        assert await bus.newest(5) == [] and await bus.list_delayed() == [entry]
        now = NOW
        for pause in (*DELIVERY_PAUSES_MS, 0):
            await bus.record_dispatch_failure((await bus.list_delayed())[0], "the zone is unknown", now)
            now += pause
        (dead,) = await bus.dead_letters(5)
        assert dead.reason == "the zone is unknown" and await bus.list_delayed() == []


async def test_what_a_clock_that_was_ahead_has_put_off_is_planned_anew(place: Place) -> None:
    async with place.opened() as (bus, _):
        day = 24 * 3_600_000
        ticking, single = later("d1", schedule=Schedule(every_ms=day)), later("d2")
        for entry in (ticking, single, later("d3", NOW + 9 * day, schedule=Schedule(every_ms=day))):
            await bus.schedule(entry)
        ahead = NOW + 3_650 * day
        await bus.dispatch((ticking,), ahead)
        await bus.record_dispatch_failure(single, "no", ahead)
        await bus.replan_after_clock_change(NOW)
        found = {each.id: each.due_at for each in await bus.list_delayed()}
        assert found == {"d1": NOW + day, "d2": NOW, "d3": NOW + 9 * day}


async def test_a_schedule_outlives_a_time_that_could_not_be_dispatched(place: Place) -> None:
    async with place.opened() as (bus, _):
        tried = later("s", schedule=Schedule(every_ms=1_000), attempts=len(DELIVERY_PAUSES_MS))
        await bus.schedule(tried)
        assert await bus.record_dispatch_failure(tried, "disk on fire", NOW) is not None
        assert [(each.id, each.attempts) for each in await bus.list_delayed()] == [("s", 0)]


async def test_of_the_dead_the_newest_are_kept(place: Place) -> None:
    async with place.opened() as (bus, store):
        await bus.subscribe(hears("a"))
        row = await started(store)
        many = tuple(emission(f"b{n}", hops=99) for n in range(DEAD_LETTERS_MAX + 3))
        await store.append(row, reply(2), AtomicWrites(broadcasts=many))
        dead = await bus.dead_letters(DEAD_LETTERS_MAX * 2)
        assert len(dead) == DEAD_LETTERS_MAX
        assert dead[0].id == f"b{DEAD_LETTERS_MAX + 2}"


async def test_a_closed_store_says_so(place: Place) -> None:
    store = place.open()
    await store.close()
    with pytest.raises(StoreFailed):
        await bus_of(store).emit(emission("b1"))


# All stores alike

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["emit", "schedule", "replace", "cancel", "dispatch", "fail", "subscribe", "take", "strike",
                         "unsubscribe", "back", "deliver", "prune"]),
        st.integers(0, 4),
    ),
    max_size=20,
)  # fmt: skip


async def walked(bus: Bus, store: Store, steps: list[tuple[str, int]]) -> list[Any]:  # noqa: C901 - one line a verb
    """What can be seen after each step."""
    row, seq = await started(store), 1
    seen: list[Any] = []
    old_due: list[DelayedBroadcast] = []
    for place_, (verb, n) in enumerate(steps):
        now = NOW + place_ * 500
        if verb == "emit":
            await bus.emit(emission(f"b{place_}", f"t:{n}", crew="ci", agent=f"a{n}" if n else "", at=now))
        elif verb in ("schedule", "replace"):
            key = f"k{n}" if verb == "replace" else None
            await bus.schedule(later(f"d{place_}", now + n * 300, type=f"t:{n % 2}", repeat_key=key))
        elif verb == "cancel":
            await bus.cancel(type=f"t:{n % 2}", repeat_key=f"k{n}")
        elif verb == "dispatch":  # what was seen before may have been replaced meanwhile
            await bus.dispatch(old_due, now)
            old_due = list(await bus.due_broadcasts(now, 10))
        elif verb == "fail" and old_due:
            await bus.record_dispatch_failure(old_due[0], "no", now)
        elif verb == "subscribe":
            await bus.subscribe(hears(f"a{n}", "t:*", silent=n % 2 == 0))
        elif verb == "unsubscribe":
            await bus.unsubscribe("ci", f"a{n}", "t:*")
        elif verb == "take":
            seen.append(await taken(bus, f"a{n}", f"key{n}"))
        elif verb in ("strike", "back"):
            seq += 1
            also = AtomicWrites(taken=(f"key{n}",)) if verb == "strike" else AtomicWrites(put_back=(f"key{n}",))
            await store.append(row, reply(seq), also)
        elif verb == "deliver":
            for delivery in await queued(bus, now):
                await bus.record_delivery_failure(delivery.number, "no", now)
        elif verb == "prune":
            pruned = await bus.prune(now - n * 400)
            seen.append((pruned.gone, pruned.further is None))  # stores number positions differently
        seen += [
            ids(await bus.newest(100)),
            [msgspec.to_builtins(each) for each in await bus.list_delayed()],
            sorted(await bus.agents_with_unread()),
            [(each.agent, each.attempts, each.heard.broadcast.id) for each in await queued(bus, now)],
            await bus.next_due(now),
        ]
    return seen


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(STEPS)
async def test_all_stores_tell_the_same_story(tmp_path_factory: Any, steps: list[tuple[str, int]]) -> None:
    stories: list[Any] = []
    for kind in STORES:
        with place_of(kind, tmp_path_factory.mktemp("walk")) as place:
            async with place.opened() as (bus, store):
                stories.append(await walked(bus, store, steps))
    assert stories[0] == stories[1] == stories[2]
