"""What every store promises of orders to the process that drives a run."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.adapters.postgres.tables.orders import PostgresOrders
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.sqlite.tables.orders import SqliteOrders
from interlock.errors import NotOwner, OrderLost, RunNotFound, UsageError
from interlock.limits import ORDER_KEPT_MS, ORDERS_PER_RUN_MAX
from interlock.ports import NO_OWNER, AtomicWrites, OrderOutcome, OrderReceipt, Orders, RunOrder
from interlock.testing import MemoryStore
from tests.contracts.test_journal import Place, Store, a_row, place_of_kind, replied, started

NOW = 1_800_000_000_000
DONE = OrderOutcome(seq=3, value="it is")


def orders_of(store: Store) -> Orders:
    if isinstance(store, MemoryStore):
        return store
    return SqliteOrders(store) if isinstance(store, SqliteStore) else PostgresOrders(store)


def order(key: str = "o1", run: str = "r1", **more: object) -> RunOrder:
    made = RunOrder(key=key, run=run, kind="resume", body=b"{}", by="host", at=NOW)
    return msgspec.structs.replace(made, **more)


@pytest.fixture(params=["memory", "sqlite-full", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of_kind(request.param, tmp_path / "data") as found:
        yield found


async def test_an_order_reaches_the_owner_of_the_run_and_nobody_else(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await store.create(a_row(), started())
        await other.create(a_row("r2"), started())
        assert await orders_of(other).post(order()) == OrderReceipt()
        assert await orders_of(store).orders_for(store.owner) == [order()]
        assert await orders_of(store).orders_for(other.owner) == []
        await store.release("r1")
        assert await orders_of(store).orders_for(store.owner) == []
        await other.claim("r1")
        assert await orders_of(store).orders_for(other.owner) == [order()]


async def test_an_order_for_a_run_whose_owner_is_gone_is_left_to_any_worker(place: Place) -> None:
    async with place.opened() as store:
        owner = place.open()
        await owner.create(a_row(), started())
        await store.create(a_row("r2"), started())
        for key, run in (("o1", "r1"), ("o2", "r2")):
            await orders_of(store).post(order(key, run=run))
        assert await orders_of(store).orders_for(NO_OWNER) == []
        await owner.close()
        assert await orders_of(store).orders_for(NO_OWNER) == [order()]


async def test_an_order_for_a_child_reaches_the_owner_of_the_tree(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        await store.create(a_row("r1~2.0"), started())
        await store.release("r1~2.0")
        await orders_of(place.open()).post(order(run="r1~2.0"))
        assert [each.run for each in await orders_of(store).orders_for(store.owner)] == ["r1~2.0"]


async def test_an_order_for_a_child_that_rests_is_for_any_worker_if_no_process_drives_its_tree(place: Place) -> None:
    """A worker that claimed the child would keep the process that drives the tree from answering it."""
    async with place.opened() as store:
        driving = place.open()
        await driving.create(a_row(), started())
        await driving.create(a_row("r1~2.0"), started())
        await driving.release("r1~2.0")
        await orders_of(store).post(order(run="r1~2.0"))
        assert await orders_of(store).orders_for(NO_OWNER) == []
        await driving.release("r1")
        assert [each.run for each in await orders_of(store).orders_for(NO_OWNER)] == ["r1~2.0"]


async def test_orders_come_in_the_order_in_which_they_were_posted(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        for key in ("z", "a", "m"):
            await orders_of(store).post(order(key))
        assert [each.key for each in await orders_of(store).orders_for(store.owner)] == ["z", "a", "m"]


async def test_an_order_is_carried_out_with_its_record_or_not_at_all(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        await store.create(a_row(), started())
        await orders.post(order())
        also = AtomicWrites(orders=(("o1", DONE),))
        with pytest.raises(NotOwner):
            await store.append(a_row(epoch=7), replied(3), also)
        assert await orders.outcome("o1") is None
        await store.append(a_row(), replied(3), also)
        assert await orders.outcome("o1") == DONE
        assert await orders.orders_for(store.owner) == []
        await store.append(a_row(), replied(3), also)  # the same record again, because its answer was lost
        assert await orders.outcome("o1") == DONE


async def test_the_first_outcome_counts(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        await store.create(a_row(), started())
        await orders.post(order())
        refused = OrderOutcome(refusal=b"no")
        await orders.settle("o1", refused)
        await orders.settle("o1", DONE)
        await store.append(a_row(), replied(3), AtomicWrites(orders=(("o1", DONE),)))
        assert await orders.outcome("o1") == refused
        assert await orders.post(order()) == OrderReceipt(outcome=refused)


async def test_the_same_order_is_kept_once(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        for _ in range(2):
            assert await orders_of(store).post(order()) == OrderReceipt()
        assert len(await orders_of(store).orders_for(store.owner)) == 1


async def test_an_order_that_was_forgotten_or_never_posted_is_lost(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        await store.create(a_row(), started())
        await orders.post(order())
        await orders.forget("o1")
        await orders.settle("o1", DONE)  # too late, and no matter
        for key in ("o1", "never"):
            with pytest.raises(OrderLost, match=key):
                await orders.outcome(key)


async def test_orders_are_kept_for_a_day(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        await store.create(a_row(), started())
        await orders.post(order())
        await orders.post(order("o2", at=NOW + ORDER_KEPT_MS))
        assert await orders.outcome("o1") is None
        await orders.post(order("o3", at=NOW + ORDER_KEPT_MS + 1))
        with pytest.raises(OrderLost):
            await orders.outcome("o1")


async def test_a_run_has_so_many_open_orders_at_most(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        await store.create(a_row(), started())
        for n in range(ORDERS_PER_RUN_MAX):
            await orders.post(order(f"o{n}"))
        with pytest.raises(UsageError, match="has 100 open orders"):
            await orders.post(order("more"))
        await orders.settle("o0", DONE)
        await orders.post(order("more"))


async def test_an_order_for_no_run_is_refused_and_those_of_a_deleted_run_are_gone(place: Place) -> None:
    async with place.opened() as store:
        orders = orders_of(store)
        with pytest.raises(RunNotFound):
            await orders.post(order())
        await store.create(a_row(), started())
        await orders.post(order())
        await store.delete_run("r1", NOW)
        with pytest.raises(OrderLost):
            await orders.outcome("o1")


async def test_other_processes_are_woken_when_an_order_is_posted_and_when_it_has_an_outcome() -> None:
    shared = Place("memory", Path())
    async with shared.opened() as store:
        assert isinstance(store, MemoryStore)
        other = shared.open()
        assert isinstance(other, MemoryStore)
        await store.create(a_row(), started())
        told: list[str] = []
        stops = [store.bus.watch(lambda: told.append("owner")), other.bus.watch(lambda: told.append("poster"))]
        await other.post(order())
        assert told == ["owner"]
        await store.append(a_row(), replied(3), AtomicWrites(orders=(("o1", DONE),)))
        assert told[1:] == ["poster"]
        for stop in stops:
            stop()
        await other.post(order("o2"))
        assert len(told) == 2
