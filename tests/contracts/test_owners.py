"""What every store promises of owners: claims of one run and in batches, and which runs wait for a driver."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from interlock.errors import NotOwner, OwnedElsewhere
from interlock.ports import ClaimedRun, Owners, SetAsides
from tests.contracts.places import NOW, place, request
from tests.contracts.test_journal import Place, Store, a_row, replied, started

__all__ = ["place"]

PAUSED, ASIDE = {"status": "paused", "reason": "question"}, {"status": "paused", "reason": "set_aside"}


def as_ports(store: Store) -> tuple[Owners, SetAsides]:
    """Never called: the type check proves by it that stores are what the ports ask for."""
    return store, store


async def add_unowned(store: Store, *runs: str, **fields: object) -> None:
    for run in runs:
        await store.create(a_row(run, **fields), started(), owned=False)


def names(claimed: Sequence[ClaimedRun]) -> list[str]:
    return [each.run for each in claimed]


async def test_a_run_that_was_made_without_an_owner_is_free(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "r1")
        assert not await store.is_owned("r1")
        assert (await place.open().claim("r1")).epoch == 1
        assert await store.is_owned("r1")


async def test_a_batch_is_claimed_with_new_epochs_and_can_be_appended_to(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "r1", "r2")
        other = place.open()
        assert await other.claim_some(request()) == [ClaimedRun(run="r1", epoch=1), ClaimedRun(run="r2", epoch=1)]
        await other.append(a_row("r1", epoch=1), replied(3))
        with pytest.raises(NotOwner):
            await store.append(a_row("r2"), replied(3))
        with pytest.raises(OwnedElsewhere):
            await store.claim("r2")


async def test_nothing_is_claimed_twice_and_the_limit_holds(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, *(f"r{n}" for n in range(7)))
        others = [store, place.open(), place.open()]
        found = await asyncio.gather(*(each.claim_some(request(3, driven=("none",))) for each in others))
        assert sorted(len(each) for each in found) == [1, 3, 3]
        assert sorted(run for each in found for run in names(each)) == [f"r{n}" for n in range(7)]


async def test_runs_of_a_dead_process_are_claimed_and_those_of_a_living_one_are_not(place: Place) -> None:
    async with place.opened() as store:
        dying = place.open()
        await dying.create(a_row("r1"), started())
        await store.create(a_row("r2"), started())
        last = place.open()
        assert await last.claim_some(request()) == []
        await dying.close()
        assert await last.claim_some(request()) == [ClaimedRun(run="r1", epoch=1, owner_died=True)]


async def test_a_claim_tells_a_run_whose_owner_died_from_one_that_was_released(place: Place) -> None:
    async with place.opened() as store:
        dying = place.open()
        for run in ("left", "released", "handed"):
            await dying.create(a_row(run), started())
        await dying.release("released")
        await dying.release("handed")
        await dying.close()
        assert await store.claim("left") == ClaimedRun(run="left", epoch=1, owner_died=True)
        assert await store.claim("left") == ClaimedRun(run="left", epoch=2)  # it is its own by now
        assert await store.claim("released") == ClaimedRun(run="released", epoch=1)
        assert await store.claim_some(request(driven={"left", "released"})) == [ClaimedRun(run="handed", epoch=1)]


async def test_an_own_run_that_is_not_driven_is_taken_up(place: Place) -> None:
    """A release that failed, or a driver that ended: FINDINGS 1.15."""
    async with place.opened() as store:
        for run in ("r1", "r2"):
            await store.create(a_row(run), started())
        assert await store.claim_some(request(driven={"r1", "r2"})) == []
        assert await store.claim_some(request(driven={"r1"})) == [ClaimedRun(run="r2", epoch=1)]


async def test_what_does_not_wait_for_a_driver_is_left_alone(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "asks", **PAUSED)
        await add_unowned(store, "over", status="completed")
        await add_unowned(store, "r1~2.0")
        await add_unowned(store, "secret", private=True)
        await add_unowned(store, "aside", **ASIDE)
        assert names(await store.claim_some(request())) == ["aside"]


async def test_a_process_claims_only_what_it_knows_and_wants(place: Place) -> None:
    async with place.opened() as store:
        await add_unowned(store, "newer-rules", rules=4)
        await add_unowned(store, "newer-format", format=2)
        await add_unowned(store, "a", crew="quiz", organization="acme")
        await add_unowned(store, "b", crew="other", organization="acme")
        await add_unowned(store, "c", crew="quiz", organization="umbrella")
        assert names(await store.claim_some(request(crews={"quiz"}, organizations={"acme"}))) == ["a"]
        assert names(await store.claim_some(request(crews={"other"}))) == ["b"]
        assert await store.claim_some(request(organizations=frozenset(), driven={"a", "b"})) == []
        assert names(await store.claim_some(request(driven={"a", "b"}))) == ["c"]
        found = await store.claim_some(request(rules=4, format=2, driven={"a", "b", "c"}))
        assert names(found) == ["newer-rules", "newer-format"]


async def test_organizations_take_turns_then_crews_then_age(place: Place) -> None:
    async with place.opened() as store:
        for n in range(4):
            await add_unowned(store, f"big{n}", organization="big", crew="quiz")
        await add_unowned(store, "big-other", organization="big", crew="rare")
        await add_unowned(store, "small0", "small1", organization="small", crew="quiz")
        claimed = names(await store.claim_some(request(4)))
        assert claimed == ["big0", "small0", "big-other", "small1"]
        assert names(await store.claim_some(request(driven=claimed))) == ["big1", "big2", "big3"]


@pytest.mark.parametrize("batch", [1, 4, 15])
async def test_organizations_share_by_weight_and_each_has_one_first(place: Place, batch: int) -> None:
    async with place.opened() as store:
        for n in range(15):
            for organization in ("a", "b", "c"):
                await add_unowned(store, f"{organization}{n}", organization=organization)
        claimed: list[str] = []
        while len(claimed) < 15:
            wanted = request(min(batch, 15 - len(claimed)), driven=claimed, weights={"b": 3, "unknown": 9})
            claimed += names(await store.claim_some(wanted))
        assert sorted(run[0] for run in claimed[:3]) == ["a", "b", "c"]
        assert Counter(run[0] for run in claimed) == {"a": 3, "b": 9, "c": 3}
        for run in claimed:
            await store.release(run)
        again = names(await store.claim_some(request(6)))
        assert [run[0] for run in again] == ["a", "b", "c", "a", "b", "c"]


async def test_an_organization_of_small_weight_gets_the_place_that_it_has_left(place: Place) -> None:
    """A worker with room for few runs: the large one never takes the only place of the small one."""
    async with place.opened() as store:
        for n in range(6):
            for organization in ("large", "small"):
                await add_unowned(store, f"{organization}{n}", organization=organization)
        weights = {"large": 1_000}
        driven = names(await store.claim_some(request(2, weights=weights)))
        assert driven == ["large0", "small0"]
        for n in range(1, 4):  # whichever ends, its organization is next
            await store.append(a_row(driven[1], status="completed", epoch=1), replied(3))
            driven[1:] = names(await store.claim_some(request(1, driven=driven, weights=weights)))
            assert driven == ["large0", f"small{n}"]


async def test_the_row_keeps_what_a_process_must_know(place: Place) -> None:
    async with place.opened() as store:
        row = a_row(rules=3, format=2, private=True)
        await store.create(row, started())
        await store.append(a_row(status="paused"), replied(3))
        kept = await store.row("r1")
        assert (kept.rules, kept.format, kept.private) == (3, 2, True)
        await store.release("r1")
        await store.claim("r1")
        assert (await store.row("r1")).rules == 3


async def test_asking_who_owns_a_run_changes_nothing(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        assert await place.open().is_owned("r1")
        assert (await store.row("r1")).epoch == 0
        await store.append(a_row(), replied(3))


async def test_the_lease_holds_while_the_store_is_open(place: Place) -> None:
    async with place.opened() as store:
        lost: list[str] = []
        store.on_lost(lambda: lost.append("lost"))
        assert store.has_lease()
        await asyncio.sleep(0)
        assert lost == []


async def test_a_process_leaves_a_run_that_it_has_set_aside_until_its_time_and_others_take_it(place: Place) -> None:
    async with place.opened() as store:
        other, last = place.open(), place.open()
        await add_unowned(store, "r1", **ASIDE)
        await store.set_aside("r1", "no tool", NOW)
        assert await store.claim_some(request(at=NOW + 9_999)) == []
        assert names(await other.claim_some(request())) == ["r1"]
        await other.set_aside("r1", "no tool either", NOW)
        await other.release("r1")
        assert await other.claim_some(request(at=NOW + 9_999)) == []
        assert names(await last.claim_some(request())) == ["r1"]
        await last.release("r1")
        assert names(await store.claim_some(request(at=NOW + 10_000))) == ["r1"]
