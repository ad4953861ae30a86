"""What every store promises of signals that leave the process: one sender at a time, and attempts that are kept."""

from interlock.ports import PUT_OFF_MAX_MS, AtomicWrites, OutgoingSignal
from tests.contracts.places import NOW, place
from tests.contracts.test_journal import Place, Store, a_row, replied, started

__all__ = ["place"]


def signal(key: str, run: str = "r1", attempts: int = 0) -> OutgoingSignal:
    return OutgoingSignal(key=key, run=run, body=b"{}", attempts=attempts)


async def add(store: Store, run: str, *keys: str, owned: bool = True) -> None:
    outgoing = tuple(signal(key, run) for key in keys)
    await store.create(a_row(run), started(), AtomicWrites(outgoing=outgoing), owned=owned)


async def test_a_signal_is_claimed_from_the_start_by_the_process_that_stored_it(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await add(store, "r1", "a")
        assert list(await other.claim_signals(NOW, 10)) == []
        assert list(await store.claim_signals(NOW, 10)) == []
        assert list(await other.signals_to_deliver()) == [signal("a")]


async def test_signals_of_a_dead_process_are_claimed_once_the_oldest_first(place: Place) -> None:
    async with place.opened() as store:
        dying, other = place.open(), place.open()
        await add(dying, "r1", "z", "a")
        await add(dying, "r2", "m")
        await dying.close()
        assert list(await store.claim_signals(NOW, 2)) == [signal("z"), signal("a")]
        assert list(await other.claim_signals(NOW, 2)) == [signal("m", "r2")]
        assert list(await store.claim_signals(NOW, 2)) == []


async def test_a_signal_whose_claim_was_not_answered_is_claimed_again_by_who_has_it(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await add(store, "r1", "a", "b")
        assert list(await store.claim_signals(NOW, 10, sending=["a", "b"])) == []
        assert list(await other.claim_signals(NOW, 10, sending=[])) == []
        assert list(await store.claim_signals(NOW, 10, sending=["b"])) == [signal("a")]


async def test_signals_of_one_run_are_claimed_alone(place: Place) -> None:
    async with place.opened() as store:
        await add(store, "r1", "a", owned=False)
        await add(store, "r2", "b", owned=False)
        assert list(await store.claim_signals(NOW, 10, "r2")) == [signal("b", "r2")]
        assert list(await store.claim_signals(NOW, 10)) == [signal("a")]


async def test_attempts_and_the_next_time_are_kept(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await add(store, "r1", "a")
        await store.put_off("a", 3, NOW + 60_000)
        await store.close()
        assert list(await other.claim_signals(NOW + 59_999, 10)) == []
        assert list(await other.claim_signals(NOW + 60_000, 10)) == [signal("a", attempts=3)]


async def test_a_clock_that_was_set_back_keeps_no_signal_for_long(place: Place) -> None:
    async with place.opened() as store:
        await add(store, "r1", "a")
        await store.put_off("a", 1, NOW)
        assert list(await store.claim_signals(NOW - PUT_OFF_MAX_MS, 10)) == []
        assert list(await store.claim_signals(NOW - PUT_OFF_MAX_MS - 1, 10)) == [signal("a", attempts=1)]


async def test_only_the_sender_puts_a_signal_off(place: Place) -> None:
    async with place.opened() as store:
        other = place.open()
        await add(store, "r1", "a")
        await other.put_off("a", 9, 0)
        await other.put_off("unknown", 9, 0)
        assert list(await other.claim_signals(NOW, 10)) == []
        assert list(await store.signals_to_deliver()) == [signal("a")]


async def test_an_acknowledged_signal_is_gone_also_after_its_record_is_appended_again(place: Place) -> None:
    async with place.opened() as store:
        await store.create(a_row(), started())
        await store.append(a_row(), replied(3), AtomicWrites(outgoing=(signal("a"),)))
        await store.ack_outgoing("a")
        await store.ack_outgoing("unknown")
        await store.append(a_row(), replied(3), AtomicWrites(outgoing=(signal("a"),)))
        assert list(await store.signals_to_deliver()) == []
