"""The feed reads the store for all streams."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from interlock import Interlock, load_crew
from interlock.errors import StoreFailed
from interlock.ports import RecordFeed, StoredRecord
from interlock.server.streaming.feed import EventFeed
from interlock.server.streaming.positions import StreamPosition
from interlock.server.streaming.reader import Reader
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
