"""What every store promises of the processes on it: who claims runs, how many each drives, and what waits."""

import pytest

from interlock.ports import LeaderEntry, Processes
from interlock.testing import ManualClock
from tests.contracts.places import leaders_of, place, request
from tests.contracts.test_journal import Place, Store
from tests.contracts.test_owners import add_unowned, names

__all__ = ["place"]


def as_port(store: Store) -> Processes:
    """Never called: the type check proves by it that stores are what the port asks for."""
    return store


async def test_a_process_is_listed_with_its_runs_and_whether_it_is_a_worker(place: Place) -> None:
    async with place.opened() as store:
        worker = place.open()
        await worker.announce_worker()
        await add_unowned(store, "r1", "r2", "r1~1")
        await worker.claim("r1")
        await worker.claim("r1~1")
        found = {each.owner: (each.runs, each.is_worker) for each in (await store.overview()).processes}
        assert found == {store.owner: (0, False), worker.owner: (1, True)}


async def test_runs_that_wait_are_counted_with_the_time_of_the_oldest(place: Place) -> None:
    async with place.opened() as store:
        assert ((await store.overview()).waiting, (await store.overview()).oldest_waiting_at) == (0, 0)
        await add_unowned(store, "r1", "r1~1", updated_at=70)
        await add_unowned(store, "r2", updated_at=50)
        await add_unowned(store, "r3", status="paused", reason="question", updated_at=20)
        await store.claim("r2")
        seen = await store.overview()
        assert (seen.waiting, seen.oldest_waiting_at) == (1, 70)


async def test_the_queue_of_an_organization_is_counted_up_to_a_limit(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "r1", "r2", "r3", "r1~1", organization="a")
        await add_unowned(store, "r4", organization="b")
        await add_unowned(store, "r5", organization="a", private=True)
        assert [await store.count_waiting(name, 10) for name in ("a", "b", "c")] == [3, 1, 0]
        assert await store.count_waiting("a", 2) == 2
        await store.claim("r1")
        assert await store.count_waiting("a", 10) == 2


async def test_leaders_are_listed_and_one_that_has_stepped_down_is_none(place: Place) -> None:
    async with place.opened() as store:
        async with leaders_of(store, ManualClock()).leadership("upkeep") as held:
            leading = LeaderEntry(name="upkeep", owner=store.owner, epoch=held.epoch)
            assert (await store.overview()).leaders == (leading,)
        assert [each.owner for each in (await store.overview()).leaders] == [""]


async def test_an_organization_with_fewer_driven_runs_is_first(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "a1", "a2", "a3", organization="a")
        await add_unowned(store, "b1", "b2", organization="b")
        driven: list[str] = []
        for _ in range(5):
            driven += names(await store.claim_some(request(1, driven=driven)))
        assert driven == ["a1", "b1", "a2", "b2", "a3"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_claims_end_with_their_process_and_count_as_waiting(place: Place, limit: int) -> None:
    async with place.opened() as store:
        await add_unowned(store, "r1", "r2")
        assert len(await store.claim_some(request(limit))) == limit
        assert (await store.overview()).waiting == 2 - limit
        for each in range(limit):
            await store.release(f"r{each + 1}")
        assert (await store.overview()).waiting == 2


async def test_a_private_run_without_a_driver_waits_for_no_worker_and_is_named(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "r1", updated_at=70)
        await add_unowned(store, "r2", "r3", "r2~1", private=True, updated_at=50)
        await add_unowned(store, "r4", private=True, status="paused", reason="question", updated_at=20)
        await store.claim("r3")
        seen = await store.overview()
        assert (seen.waiting, seen.oldest_waiting_at, seen.private_undriven) == (1, 70, ("r2",))
        mine = next(each for each in seen.processes if each.owner == store.owner)
        assert mine.runs == 1
