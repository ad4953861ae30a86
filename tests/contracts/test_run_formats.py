"""What every store promises of the format with which runs begin: it is what all processes know, until it is raised."""

from interlock.ports import NEWEST_FORMAT, RunFormat
from tests.contracts.places import place, request
from tests.contracts.test_journal import Place, a_row, started
from tests.contracts.test_owners import names

__all__ = ["place"]

OLDER = RunFormat(NEWEST_FORMAT.rules - 1, NEWEST_FORMAT.format)
NEWER = RunFormat(NEWEST_FORMAT.rules + 1, NEWEST_FORMAT.format + 1)


async def test_the_first_run_of_a_store_sets_the_format(place: Place) -> None:
    async with place.opened() as store:
        assert await store.run_format() is None
        await store.create(a_row(rules=OLDER.rules, format=OLDER.format), started())
        assert await store.run_format() == OLDER
        await store.create(a_row("r2", rules=NEWER.rules, format=NEWER.format), started())
        assert await store.run_format() == OLDER
        assert await place.open().run_format() == OLDER


async def test_the_format_is_raised_and_never_lowered(place: Place) -> None:
    async with place.opened() as store:
        newer = place.open(NEWER)
        await store.close()
        assert await newer.raise_run_format(OLDER) == []
        assert (await newer.overview()).run_format == OLDER
        assert await newer.raise_run_format(NEWER) == []
        assert await newer.raise_run_format(RunFormat(NEWER.rules, 1)) == []
        assert (await newer.overview()).run_format == NEWER
        assert await place.open().run_format() == NEWER


async def test_a_living_process_that_knows_less_keeps_the_format_and_is_named(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(rules=OLDER.rules, format=OLDER.format), started())
        older = place.open(OLDER)
        held_back_by = await store.raise_run_format(NEWEST_FORMAT)
        assert [(each.owner, each.knows) for each in held_back_by] == [(older.owner, OLDER)]
        assert (await store.overview()).run_format == OLDER
        await older.close()
        assert await store.raise_run_format(NEWEST_FORMAT) == []
        assert (await store.overview()).run_format == NEWEST_FORMAT


async def test_processes_are_listed_with_what_they_know(place: Place) -> None:
    async with place.opened() as store:
        older = place.open(OLDER)
        await older.announce_worker()
        listed = {each.owner: each for each in (await store.overview()).processes}
        assert (listed[store.owner].knows, listed[older.owner].knows) == (NEWEST_FORMAT, OLDER)
        assert (store.knows, older.knows) == (NEWEST_FORMAT, OLDER)
        if place.kind != "memory":
            assert len({(each.host, each.pid, each.version) for each in listed.values()}) == 1
            assert listed[older.owner].pid > 0 and listed[older.owner].version


async def test_a_process_that_knows_less_leaves_newer_runs_to_others(place: Place) -> None:
    async with place.opened() as store:
        older = place.open(OLDER)
        for name, known in (("r1", OLDER), ("r2", NEWEST_FORMAT)):
            await store.create(a_row(name, rules=known.rules, format=known.format), started(), owned=False)
        knows = {"rules": older.knows.rules, "format": older.knows.format}
        assert names(await older.claim_some(request(**knows))) == ["r1"]
        assert names(await store.claim_some(request())) == ["r2"]
