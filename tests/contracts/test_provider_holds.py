"""What every store promises of providers that asked to wait."""

import asyncio

from interlock.ports import ProviderHold, ProviderHolds
from tests.contracts.places import NOW, place
from tests.contracts.test_bus import bus_of
from tests.contracts.test_journal import Place, Store

__all__ = ["place"]


def as_port(store: Store) -> ProviderHolds:
    """Never called: the type check proves by it that stores are what the port asks for."""
    return store


def hold(until: int, server: str = "openai") -> ProviderHold:
    return ProviderHold(server=server, until=until)


async def test_a_hold_of_one_process_is_read_by_others_until_it_is_over(place: Place) -> None:
    async with place.opened() as store:
        assert await store.provider_holds(NOW) == []
        await store.hold_provider(hold(NOW + 9), NOW)
        await store.hold_provider(hold(NOW + 5, "gemini http://here"), NOW)
        other = place.open()
        assert await other.provider_holds(NOW) == [hold(NOW + 5, "gemini http://here"), hold(NOW + 9)]
        assert await other.provider_holds(NOW + 5) == [hold(NOW + 9)]
        assert await other.provider_holds(NOW + 9) == []


async def test_a_hold_becomes_longer_and_never_shorter(place: Place) -> None:
    async with place.opened() as store:
        await store.hold_provider(hold(NOW + 9), NOW)
        await store.hold_provider(hold(NOW + 5), NOW)
        assert await store.provider_holds(NOW) == [hold(NOW + 9)]
        await place.open().hold_provider(hold(NOW + 20), NOW)
        assert await store.provider_holds(NOW) == [hold(NOW + 20)]


async def test_holds_that_are_over_are_removed(place: Place) -> None:
    async with place.opened() as store:
        await store.hold_provider(hold(NOW + 5), NOW)
        await store.hold_provider(hold(NOW + 30, "gemini"), NOW + 10)
        assert await store.provider_holds(NOW) == [hold(NOW + 30, "gemini")]


async def test_other_processes_are_told_of_a_hold(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        told = asyncio.Event()
        stop = bus_of(other).watch(told.set, "providers")
        await store.hold_provider(hold(NOW + 9), NOW)
        async with asyncio.timeout(30):
            await told.wait()
        stop()
