"""Feeds all streams with stored records: one reader of the store for all of them.

Rule 1: records come in the order of the store, whole, and only after they are stored. Records of this process are sent
at once. If positions are missing, because another process wrote or records came out of order, the store is read.
Rule 2: a reader first catches up with the store by itself. It joins when little is missing, and reads once more if
records were fed meanwhile. New records are held for it until then.
Rule 3: the stream of a run has the events of the runs below it, with their path, and ends with its own last event.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from interlock.engine.events import RunFinished, RunStarted
from interlock.errors import StoreFailed
from interlock.ids import parent_of, root_of
from interlock.ports import RecordFeed as Records
from interlock.ports import StoredRecord
from interlock.runtime.following import PublicEvent, public_events
from interlock.server.streaming.positions import StreamPosition, event_id
from interlock.server.streaming.reader import SLOW_READER, EncodedRecord, Reader

# The interval of reading records of other processes, while there are readers.
POLL_MS = 250
PAGE = 200
# Texts within this time are sent together; a person sees no difference.
FRAME_MS = 30
# Bytes of small records that are sent together.
CHUNK_BYTES = 64 * 1024
# Cached events.
CACHE_BYTES = 1024 * 1024
# Cached paths and crews of runs.
PATHS_MAX = 10_000

# How soon a disconnected reader should return.
RETRY_MS = 1_000

DRAINING = "draining"
RUN_OVER = "run-over"
END = "end"

CLOSE_DETAILS = {
    SLOW_READER: "the buffer is full; reconnect with Last-Event-ID",
    DRAINING: "the server is stopping; reconnect with Last-Event-ID",
    RUN_OVER: "the run is over, and this was its last event",
    END: "this was all there is now",
}

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")

Redact = Callable[[bytes], bytes]


def encode_events(stored: StoredRecord, path: Sequence[str]) -> list[bytes]:
    """The events of a record as JSON; `path` is the sub-crew path of a run below another."""
    below = {"path": list(path)} if parent_of(stored.run) else {}
    return [_encode({**event, **below}) for event in public_events(stored.run, stored.record)]


def encode_record(stored: StoredRecord, bodies: list[bytes], redact: Redact, crew: str = "") -> EncodedRecord:
    """A record as streams send it, without secrets."""
    whole = b"\n".join(bodies)
    if redact(whole) != whole:  # seldom: one search for secrets serves all events
        bodies = [redact(body) for body in bodies]
    count, at = len(bodies), stored.position
    texts = tuple(b"id: %s\ndata: %s\n\n" % (event_id(at, n, count).encode(), body) for n, body in enumerate(bodies))
    ends = any(isinstance(event, RunFinished) for event in stored.record.events)
    return EncodedRecord(at, stored.run, stored.record.seq, texts, ends, crew)


def opening_frame(place: StreamPosition) -> bytes:
    """The first text of a stream: its position, for a reader that is disconnected before the first event."""
    return b"id: %s\nretry: %d\n\n" % (str(place).encode(), RETRY_MS)


def closing_frame(reason: str) -> bytes:
    data = _encode({"reason": reason, "detail": CLOSE_DETAILS[reason]})
    return b"event: stream.closed\nretry: %d\ndata: %s\n\n" % (RETRY_MS, data)


def _chunks(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Joins small texts; none is split, because a comment may come in between."""
    waiting: list[bytes] = []
    for text in texts:
        if waiting and sum(map(len, waiting)) + len(text) > CHUNK_BYTES:
            yield b"".join(waiting)
            waiting = []
        if text:
            waiting.append(text)
    if waiting:
        yield b"".join(waiting)


def _cache_value(known: dict[str, T], run: str, value: T) -> None:
    if len(known) >= PATHS_MAX:
        known.clear()
    known[run] = value


class EventCache:
    """Events as JSON, of the records that were encoded last: readers that come together read the same ones."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[int, str, int], list[bytes]] = {}
        self._size = 0

    def bodies_of(self, stored: StoredRecord, path: Sequence[str]) -> list[bytes]:
        key = (stored.position, stored.run, stored.record.seq)
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = encode_events(stored, path)
            self._size += sum(map(len, found))
            while self._size > CACHE_BYTES:
                self._size -= sum(map(len, self._bodies.pop(next(iter(self._bodies)))))
        return found


class EventFeed:
    """Sends records from the store and from the runner to readers."""

    def __init__(self, store: Records, on_drop: Callable[[], None], redact: Redact = bytes) -> None:
        self._store, self._on_drop, self._redact = store, on_drop, redact
        self._readers: dict[str, set[Reader]] = {}
        self._position = 0
        self._early: dict[int, StoredRecord] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._crews: dict[str, str] = {}  # crews of outermost runs
        self._cache = EventCache()
        self._woken = asyncio.Event()
        self._closing = ""
        # Readers that were sent something in this frame.
        self._in_frame: list[Reader] = []

    @property
    def readers(self) -> int:
        return sum(len(each) for each in self._readers.values())

    # From the runner

    def on_record_stored(self, stored: StoredRecord) -> None:
        """Called by the runner with every stored record."""
        if not self._readers:
            self._position = max(self._position, stored.position)
        elif stored.position == self._position + 1 and self._has_path_of(stored):
            self._deliver_record(stored)
            while (following := self._early.get(self._position + 1)) is not None and self._has_path_of(following):
                self._deliver_record(self._early.pop(following.position))
        elif stored.position > self._position:
            self._early[stored.position] = stored
            self._woken.set()

    def on_delta(self, delta: PublicEvent) -> None:
        """Called by the runner with a piece of a reply."""
        if not self._readers:
            return
        crew = self._crews.get(root_of(delta["run"]), "")
        listening = [each for each in self._readers_of(delta["run"]) if each.deltas and each.can_show(crew)]
        if listening:
            text = b"data: %s\n\n" % _encode(delta)
            for reader in listening:
                reader.enqueue_delta(text)

    # From the store

    async def run(self) -> None:
        """Reads records of other processes until it is cancelled. A store that fails is read again after POLL_MS."""
        has_position = False
        while True:
            with suppress(StoreFailed):  # unavailable; readers wait too
                if not has_position:
                    self._position = max(self._position, await self._first_position())
                    has_position = True
                if self._readers:
                    await self._catch_up()
            await self._wait_for_records()

    async def _first_position(self) -> int:
        """Where to begin: at the newest record, but not after one that a reader of the feed still lacks."""
        newest = await self._store.newest_position()
        places = [reader.place.position for readers in self._readers.values() for reader in readers]
        return min([newest, *places])

    async def _wait_for_records(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_MS / 1000):
                await self._woken.wait()
        self._woken.clear()

    async def _catch_up(self) -> None:
        while page := await self._store.since(self._position, PAGE):
            for stored in page:
                await self._load_path_of(stored)
                if stored.position > self._position:
                    self._deliver_record(stored)
        self._early = {at: stored for at, stored in self._early.items() if at > self._position}

    def _deliver_record(self, stored: StoredRecord) -> None:
        self._position = stored.position
        to = self._readers_of(stored.run)
        if to:
            record = self._encode_stored(stored)
            for reader in to:
                reader.push_record(record)
                if reader.closing == SLOW_READER:
                    self._remove_reader(reader)
                    self._on_drop()

    def _readers_of(self, run: str) -> list[Reader]:
        """Readers of the run, of the runs above it, and of all runs."""
        found = list(self._readers.get("", ()))
        while run:
            found += self._readers.get(run, ())
            run = parent_of(run)
        return found

    def _has_path_of(self, stored: StoredRecord) -> bool:
        """True if the path of the run, and the crew of its outermost run, are cached."""
        started = stored.record.events[0]
        if isinstance(started, RunStarted):
            self._cache_path(stored.run, started)
        is_placed = not parent_of(stored.run) or stored.run in self._paths
        return is_placed and root_of(stored.run) in self._crews

    async def _load_path_of(self, stored: StoredRecord) -> None:
        """Reads the first record of a run for its path; it may be old."""
        if self._has_path_of(stored):
            return
        runs = tuple(dict.fromkeys((root_of(stored.run), stored.run)))
        for run, started in [(run, await self._how_began(run)) for run in runs]:
            self._cache_path(run, started)

    async def _how_began(self, run: str) -> RunStarted | None:
        """The first record of a run; None if it is damaged, or deleted meanwhile."""
        first = next(iter(await self._store.of_run(run, 0, 1)), None)
        if first is None or first.run != run:
            return None
        started = first.record.events[0]
        return started if isinstance(started, RunStarted) else None

    def _cache_path(self, run: str, started: RunStarted | None) -> None:
        """Caches an unknown path and crew for a run whose first record is lost: keys limited to crews do not see it."""
        if parent_of(run):
            _cache_value(self._paths, run, tuple(started.path) if started is not None else ())
        else:
            _cache_value(self._crews, run, started.crew if started is not None else "")

    # For streams

    async def stream(self, reader: Reader, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yields the texts of a stream; the last one is the reason of its end."""
        yield opening_frame(reader.place)
        async for text in self._stream_backlog(reader, joins=follow):
            yield text
        if follow and not reader.is_over:
            self._add_reader(reader)
            try:
                async for text in self._stream_backlog(reader):  # what the first pages did not have
                    yield text
                reader.release_held()
                while (waiting := await reader.read_waiting()) is not None:
                    yield waiting
                    self._begin_frame(reader)
            finally:
                self._remove_reader(reader)
        yield closing_frame(reader.closing or (RUN_OVER if reader.is_over else END))

    def _begin_frame(self, reader: Reader) -> None:
        """Lets a reader wait for the end of the frame; one timer serves all readers."""
        reader.begin_frame()
        if not self._in_frame:
            asyncio.get_running_loop().call_later(FRAME_MS / 1000, self._end_frame)
        self._in_frame.append(reader)

    def _end_frame(self) -> None:
        readers, self._in_frame = self._in_frame, []
        for reader in readers:
            reader.end_frame()

    async def _stream_backlog(self, reader: Reader, *, joins: bool = False) -> AsyncIterator[bytes]:
        """Records of the store after the position of the reader; if it `joins` next, until little is missing."""
        position = reader.place.position
        while not reader.is_over and (page := await self._read_page(reader, position)):
            position = page[-1].position
            for text in _chunks([reader.consume_record(await self._load_and_encode(each)) for each in page]):
                yield text
            if joins and len(page) < PAGE:
                return

    async def _load_and_encode(self, stored: StoredRecord) -> EncodedRecord:
        await self._load_path_of(stored)
        return self._encode_stored(stored)

    def _encode_stored(self, stored: StoredRecord) -> EncodedRecord:
        bodies = self._cache.bodies_of(stored, self._paths.get(stored.run, ()))
        return encode_record(stored, bodies, self._redact, self._crews.get(root_of(stored.run), ""))

    async def _read_page(self, reader: Reader, position: int) -> Sequence[StoredRecord]:
        if reader.run:
            return await self._store.of_run(reader.run, position, PAGE)
        return await self._store.since(position, PAGE)

    def _add_reader(self, reader: Reader) -> None:
        reader.hold_records()
        if self._closing:
            reader.close(self._closing)
        self._readers.setdefault(reader.run, set()).add(reader)

    def _remove_reader(self, reader: Reader) -> None:
        readers = self._readers.get(reader.run, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(reader.run, None)

    def close(self, reason: str) -> None:
        """Ends every stream after its buffered texts, and every stream that is opened later."""
        self._closing = reason
        for readers in list(self._readers.values()):
            for reader in list(readers):
                reader.close(reason)
