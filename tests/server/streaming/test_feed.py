"""The feed reads the store for all streams."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.sqlite import migrations
from interlock.errors import StoreFailed
from interlock.ports import RecordFeed, StoredRecord
from interlock.server.streaming import feed as feed_module
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.positions import StreamPosition
from interlock.server.streaming.reader import Reader
from tests.adapters.store_records import a_row, replied, started
from tests.adapters.stores import opened
from tests.server.office import crew_file, parrot, parsed


class BusyStore:
    """Passes reads on to a store; its newest position cannot be read while it is busy."""

    def __init__(self, store: RecordFeed) -> None:
        self._store, self.is_busy, self.refused = store, True, 0

    async def newest_position(self) -> int:
        if self.is_busy:
            self.refused += 1
            raise StoreFailed("could not read the newest position: database is locked")
        return await self._store.newest_position()

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        return await self._store.since(position, limit)

    async def of_run(self, run: str, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        return await self._store.of_run(run, position, limit)


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)


async def test_a_store_that_fails_at_the_first_read_ends_no_stream_and_loses_no_record(tmp_path: Path) -> None:
    async with Interlock(tmp_path / "data") as box:
        store = BusyStore(box.store)
        feed = EventFeed(store, lambda: None)
        feeding = asyncio.create_task(feed.run())
        await wait_until(lambda: feeding.done() or store.refused > 0)
        reader = Reader(StreamPosition(0), "", 1_000_000, deltas=False)
        texts: list[bytes] = []

        async def read() -> None:
            async for text in feed.stream(reader, follow=True):
                texts.append(text)  # noqa: PERF401 (what came so far is looked at meanwhile)

        reading = asyncio.create_task(read())
        await wait_until(lambda: feed.readers == 1)
        async with Interlock(tmp_path / "data", models=parrot) as other:
            handle = await other.start(load_crew(crew_file(tmp_path)), "elsewhere")
            await handle.result()
        store.is_busy = False
        await wait_until(lambda: feeding.done() or b"run.finished" in b"".join(texts))
        assert not feeding.done(), "the feed still works"
        reader.close("draining")
        await reading
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    *events, last = [event.data for event in parsed(b"".join(texts).decode())]
    assert [(event["run"], event["seq"]) for event in events] == [(handle.id, seq) for seq in range(1, len(events) + 1)]
    assert last["reason"] == "draining"


async def test_readers_that_come_together_share_encoded_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    plain = feed_module.encode_events

    def encode(stored: StoredRecord, path: Sequence[str]) -> list[bytes]:
        encoded.append(stored.position)
        return plain(stored, path)

    monkeypatch.setattr(feed_module, "encode_events", encode)
    async with Interlock(tmp_path / "data", models=parrot) as box:
        handle = await box.start(load_crew(crew_file(tmp_path)), "hello")
        await handle.result()
        feed = EventFeed(box.store, lambda: None)
        for _ in range(3):
            reader = Reader(StreamPosition(0), "", 1_000_000, deltas=False)
            stream = feed.stream(reader, follow=True)
            texts = [await anext(stream), await anext(stream)]
            asking = asyncio.ensure_future(anext(stream))
            await wait_until(lambda: feed.readers == 1)
            reader.close("draining")
            texts.append(await asking)
            assert b"run.finished" in b"".join(texts)
            assert [text async for text in stream] == []
        assert len(encoded) == len(set(encoded)) == len(await box.store.since(0))


async def test_cached_events_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Interlock(tmp_path / "data", models=parrot) as box:
        handle = await box.start(load_crew(crew_file(tmp_path)), "hello")
        await handle.result()
        records = await box.store.since(0)
    sizes = [sum(map(len, feed_module.encode_events(each, ()))) for each in records]
    monkeypatch.setattr(feed_module, "CACHE_BYTES", max(sizes))
    cache = feed_module.EventCache()
    for each in (*records, *records):
        assert cache.bodies_of(each, ()) == feed_module.encode_events(each, ())
        assert sum(len(body) for bodies in cache._bodies.values() for body in bodies) <= max(sizes)


@pytest.mark.parametrize(("replies", "size", "damaged"), [(30, 60_000, False), (300, 10, True)])
async def test_a_page_that_is_not_full_is_not_taken_for_the_last_one(
    tmp_path: Path, replies: int, size: int, damaged: bool
) -> None:
    async with opened(tmp_path / "data", "normal") as store:
        row = a_row(epoch=1)
        await store.create(row, started())
        for seq in range(2, replies + 2):
            await store.append(row, replied(seq, "x" * size))
        if damaged:
            with closing(migrations.connect(tmp_path / "data" / DATABASE)) as connection:
                connection.execute("update records set body = x'00' where position = 5")
        feed, newest = EventFeed(store, lambda: None), await store.newest_position()
        feeding = asyncio.create_task(feed.run())
        await wait_until(lambda: feed._position == newest)  # nothing more is fed, so all comes from the pages
        reader = Reader(StreamPosition(0), "r1", 100_000_000, deltas=False)
        texts: list[bytes] = []

        async def read() -> None:
            async for text in feed.stream(reader, follow=True):
                texts.append(text)  # noqa: PERF401 (what came so far is looked at meanwhile)

        reading = asyncio.create_task(read())
        await wait_until(lambda: b"".join(texts).count(b"\ndata: ") == replies + 1 - damaged)
        feeding.cancel()
        reading.cancel()
        await asyncio.gather(feeding, reading, return_exceptions=True)
