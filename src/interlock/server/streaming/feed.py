"""Feeds all streams with stored records: one reader of the store for all of them.

Rule 1: records come in the order of the store, whole, and only after they are stored. Records of this process are sent
at once. If positions are missing, because another process wrote or records came out of order, the store is read.
Rule 2: each reader has a buffer limit. A slow reader is disconnected with the reason, and can return to its position.
Rule 3: a reader first catches up with the store by itself. It joins when little is missing, and reads once more. New
records are held for it meanwhile.
Rule 4: the stream of a run has the events of the runs below it, with their path, and ends with its own last event.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from interlock.engine.events import RunFinished, RunStarted
from interlock.errors import StoreFailed
from interlock.ids import is_below, parent_of, root_of
from interlock.ports import RecordFeed as Records
from interlock.ports import StoredRecord
from interlock.runtime.following import PublicEvent, public_events
from interlock.server.streaming.positions import StreamPosition, event_id

# The interval of reading records of other processes, while there are readers.
POLL_MS = 250
PAGE = 200
# Bytes of small records that are sent together.
CHUNK_BYTES = 64 * 1024
# Cached paths and crews of runs.
PATHS_MAX = 10_000

# How soon a disconnected reader should return.
RETRY_MS = 1_000

SLOW_READER = "slow-reader"
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


class EncodedRecord(msgspec.Struct, frozen=True):
    """A record as streams send it, encoded once for all readers."""

    position: int
    run: str
    seq: int
    events: tuple[bytes, ...]
    ends_run: bool
    crew: str = ""  # the crew of the outermost run

    def bytes_after(self, place: StreamPosition, seq: int) -> bytes:
        """The texts that a reader at a position, interested in events after a seq, has not seen."""
        if self.position > place.position and self.position != place.record and self.seq > seq:
            return b"".join(self.events)
        numbered = enumerate(self.events)
        return b"".join(text for n, text in numbered if self.seq + n > seq and not place.has_seen(self.position, n))


def encode_record(stored: StoredRecord, path: Sequence[str], redact: Redact, crew: str = "") -> EncodedRecord:
    """Encodes a record; `path` is the sub-crew path of a run below another."""
    below = {"path": list(path)} if parent_of(stored.run) else {}
    events = [{**event, **below} for event in public_events(stored.run, stored.record)]
    count, at = len(events), stored.position
    texts = tuple(
        b"id: %s\ndata: %s\n\n" % (event_id(at, n, count).encode(), redact(_encode(event)))
        for n, event in enumerate(events)
    )
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


class Reader:
    """One stream and its buffer. `run` is the run that it shows; empty for all runs.

    `crews` are those whose runs it may show; None for all.
    """

    def __init__(
        self,
        place: StreamPosition,
        run: str,
        bytes_max: int,
        *,
        deltas: bool,
        after: int = 0,
        crews: frozenset[str] | None = None,
    ) -> None:
        self.crews = crews
        self.place, self.run, self.deltas, self._after = place, run, deltas, after
        self._bytes_max = bytes_max
        # Events of runs below, from before the first event of a reader, are not sent.
        self._has_begun = not after or place.position > 0
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._woken = asyncio.Event()
        self._held: list[EncodedRecord] | None = None
        self.is_over = False
        self.closing = ""

    def hold_records(self) -> None:
        self._held = []

    def release_held(self) -> None:
        """Moves held records to the buffer; new ones follow directly."""
        held, self._held, self._size = self._held or (), None, 0
        for record in held:
            self.enqueue(self.consume_record(record))

    def push_record(self, record: EncodedRecord) -> None:
        """Adds a new record."""
        if self._held is None:
            self.enqueue(self.consume_record(record))
            return
        self._held.append(record)
        self._size += sum(map(len, record.events))
        if self._size > self._bytes_max:
            self.close(SLOW_READER)

    def consume_record(self, record: EncodedRecord) -> bytes:
        """The texts of a record to send; advances the position."""
        is_own = record.run == self.run or not self.run
        if not is_own and not is_below(record.run, self.run):
            return b""
        if is_own and record.seq + len(record.events) > self._after + 1:
            self._has_begun = True
        is_shown = self._has_begun and self.can_show(record.crew)
        text = record.bytes_after(self.place, self._after if is_own else 0) if is_shown else b""
        if record.position > self.place.position:
            self.place = StreamPosition(record.position)
        self.is_over = self.is_over or (record.run == self.run and record.ends_run)
        return text

    def can_show(self, crew: str) -> bool:
        return self.crews is None or crew in self.crews

    def enqueue(self, text: bytes) -> None:
        """Adds texts to the buffer. One text always fits, however large: else a reader would never pass it."""
        if not text or self.closing:
            return
        if self._waiting and self._size + len(text) > self._bytes_max:
            self.close(SLOW_READER)
            return
        self._waiting.append(text)
        self._size += len(text)
        self._woken.set()

    def enqueue_delta(self, text: bytes) -> None:
        """Adds a piece of a reply, unless the reader lags: the whole reply follows."""
        if self._held is None and not self.is_over and 2 * self._size < self._bytes_max:
            self.enqueue(text)

    def close(self, reason: str) -> None:
        if not self.closing:
            self.closing = reason
            self._woken.set()

    async def read_waiting(self) -> bytes | None:
        """All buffered texts; None at the end of the stream."""
        while not self._waiting:
            if self.closing or self.is_over:
                return None
            self._woken.clear()
            await self._woken.wait()
        text = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return text


class EventFeed:
    """Sends records from the store and from the runner to readers."""

    def __init__(self, store: Records, on_drop: Callable[[], None], redact: Redact = bytes) -> None:
        self._store, self._on_drop, self._redact = store, on_drop, redact
        self._readers: dict[str, set[Reader]] = {}
        self._position = 0
        self._early: dict[int, StoredRecord] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._crews: dict[str, str] = {}  # crews of outermost runs
        self._woken = asyncio.Event()
        self._closing = ""

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

    async def stream(self, reader: Reader, *, follow: bool) -> AsyncIterator[bytes]:
        """Yields the texts of a stream; the last one is the reason of its end."""
        yield opening_frame(reader.place)
        async for text in self._stream_backlog(reader):
            yield text
        if follow and not reader.is_over:
            self._add_reader(reader)
            try:
                async for text in self._stream_backlog(reader):
                    yield text
                reader.release_held()
                while (waiting := await reader.read_waiting()) is not None:
                    yield waiting
            finally:
                self._remove_reader(reader)
        yield closing_frame(reader.closing or (RUN_OVER if reader.is_over else END))

    async def _stream_backlog(self, reader: Reader) -> AsyncIterator[bytes]:
        """Records of the store after the position of the reader."""
        position = reader.place.position
        while not reader.is_over and (page := await self._read_page(reader, position)):
            position = page[-1].position
            for text in _chunks([reader.consume_record(await self._load_and_encode(each)) for each in page]):
                yield text

    async def _load_and_encode(self, stored: StoredRecord) -> EncodedRecord:
        await self._load_path_of(stored)
        return self._encode_stored(stored)

    def _encode_stored(self, stored: StoredRecord) -> EncodedRecord:
        return encode_record(
            stored, self._paths.get(stored.run, ()), self._redact, self._crews.get(root_of(stored.run), "")
        )

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
