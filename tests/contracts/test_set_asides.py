"""What every store promises of runs that are set aside."""

import pytest

from interlock.errors import RunNotFound
from interlock.ports import SetAside
from tests.contracts.places import NOW, place
from tests.contracts.test_journal import Place, Store, a_row, replied, started

__all__ = ["place"]

ASIDE = {"status": "paused", "reason": "set_aside"}


async def add_aside(store: Store, run: str = "r1", at: int = NOW) -> SetAside:
    await store.create(a_row(run, **ASIDE), started(), owned=False)
    return await store.set_aside(run, "no tool 'pay'", at)


async def test_a_set_aside_run_is_seen_by_every_process(place: Place) -> None:
    async with place.opened() as store:
        aside = await add_aside(store)
        assert aside == SetAside(
            run="r1", owner=store.owner, reason="no tool 'pay'", at=NOW, tries=1, again_at=NOW + 10_000
        )
        other = place.open()
        assert list(await other.set_asides(10)) == [aside]
        await store.close()
        assert list(await other.set_asides(10)) == [aside]


async def test_pauses_double_up_to_ten_minutes(place: Place) -> None:
    async with place.opened() as store:
        at, pauses = NOW, [(await add_aside(store)).again_at - NOW]
        for tries in range(2, 15):
            at += pauses[-1]
            aside = await store.set_aside("r1", "again", at)
            assert (aside.tries, aside.at) == (tries, at)
            pauses.append(aside.again_at - at)
        assert pauses == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, *[600_000] * 8]


async def test_a_run_that_was_driven_meanwhile_starts_with_short_pauses_again(place: Place) -> None:
    async with place.opened() as store:
        last = await add_aside(store)
        assert (await store.set_aside("r1", "again", last.again_at + 600_000)).tries == 2
        last = (await store.set_asides(1))[0]
        assert (await store.set_aside("r1", "again", last.again_at + 600_001)).tries == 1


async def test_of_several_processes_that_set_a_run_aside_the_last_is_shown(place: Place) -> None:
    async with place.opened() as store:
        await add_aside(store)
        other = place.open()
        last = await other.set_aside("r1", "no key", NOW + 1)
        assert (last.owner, last.tries, list(await store.set_asides(10))) == (other.owner, 1, [last])
        again = await store.set_aside("r1", "no tool 'pay'", NOW + 2)
        assert (again.tries, list(await store.set_asides(10))) == (2, [again])


async def test_only_runs_that_wait_are_listed_the_newest_first(place: Place) -> None:
    async with place.opened() as store:
        for n in range(3):
            await add_aside(store, f"r{n}", NOW + n)
        assert [each.run for each in await store.set_asides(10)] == ["r2", "r1", "r0"]
        assert [each.run for each in await store.set_asides(1)] == ["r2"]
        epoch = (await store.claim("r2")).epoch
        assert [each.run for each in await store.set_asides(10)] == ["r1", "r0"]
        await store.release("r2")
        assert [each.run for each in await store.set_asides(10)] == ["r2", "r1", "r0"]
        await store.claim("r2")
        await store.append(a_row("r2", epoch=epoch + 1, updated_at=NOW + 9), replied(3))  # it was driven again
        await store.release("r2")
        assert [each.run for each in await store.set_asides(10)] == ["r1", "r0"]
        epoch = (await store.claim("r0")).epoch
        await store.append(a_row("r0", status="completed", epoch=epoch), replied(3))
        await store.release("r0")
        assert [each.run for each in await store.set_asides(10)] == ["r1"]
        await store.delete_run("r1", NOW)
        assert await store.set_asides(10) == []


async def test_a_run_that_does_not_exist_cannot_be_set_aside(place: Place) -> None:
    async with place.opened() as store:
        with pytest.raises(RunNotFound):
            await store.set_aside("r1", "no tool", NOW)
