"""Everything that happens, handed out to whoever reads: one reader of the store for all streams.

Rule 1: in the order of the store, whole, and only what is stored. What this process stores is handed out at once; where
positions are missing, because another process wrote or two of ours came out of order, the store is read.
Rule 2: a reader has a bound of its own. Whoever does not keep up is dropped, told why, and may come back to its place.
Rule 3: a reader first catches up with the store by itself; it joins when little is missing, and reads once more. What
comes while it does so is held for it.
Rule 4: a run's stream carries the events of the runs below it, with their path, and ends with its own last event.
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
from interlock.ports import Clock, StoredRecord
from interlock.ports import Feed as Records
from interlock.runtime.watching import Public, public_events
from interlock.server.places import Place, event_id

# How often the store is asked for what other processes wrote, while somebody reads.
LOOK_AGAIN_MS = 250
PAGE = 200
# Of small records that are sent together.
PIECE_BYTES = 64 * 1024
# Runs of which it is remembered where they are, or of which crew.
PATHS_MAX = 10_000

# How soon a reader that was cut off should come back.
RETRY_MS = 1_000

SLOW_READER = "slow-reader"
DRAINING = "draining"
RUN_OVER = "run-over"
END = "end"

WHY = {
    SLOW_READER: "what was said meanwhile did not fit the buffer; come back with Last-Event-ID",
    DRAINING: "the server is stopping; come back with Last-Event-ID",
    RUN_OVER: "the run is over, and this was its last event",
    END: "this was all there is now",
}

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")

Redact = Callable[[bytes], bytes]


class Written(msgspec.Struct, frozen=True):
    """A record as streams send it, made once for all who read it."""

    position: int
    run: str
    seq: int
    events: tuple[bytes, ...]
    ends_run: bool
    crew: str = ""  # of the outermost run

    def after(self, place: Place, seq: int) -> bytes:
        """What of it somebody who stands there, and wants only what is after this seq, has not seen."""
        if self.position > place.position and self.position != place.record and self.seq > seq:
            return b"".join(self.events)
        numbered = enumerate(self.events)
        return b"".join(text for n, text in numbered if self.seq + n > seq and not place.is_seen(self.position, n))


def written(stored: StoredRecord, path: Sequence[str], redact: Redact, crew: str = "") -> Written:
    """`path` says which sub-crew a run below another is of."""
    below = {"path": list(path)} if parent_of(stored.run) else {}
    events = [{**event, **below} for event in public_events(stored.run, stored.record)]
    count, at = len(events), stored.position
    texts = tuple(
        b"id: %s\ndata: %s\n\n" % (event_id(at, n, count).encode(), redact(_encode(event)))
        for n, event in enumerate(events)
    )
    ends = any(isinstance(event, RunFinished) for event in stored.record.events)
    return Written(at, stored.run, stored.record.seq, texts, ends, crew)


def opened(place: Place) -> bytes:
    """The first thing on a stream: where it begins, for whoever is cut off before the first event."""
    return b"id: %s\nretry: %d\n\n" % (str(place).encode(), RETRY_MS)


def closed(reason: str) -> bytes:
    data = _encode({"reason": reason, "detail": WHY[reason]})
    return b"event: stream.closed\nretry: %d\ndata: %s\n\n" % (RETRY_MS, data)


def _pieces(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Together where they are small; nothing is cut in two, as a comment may come in between."""
    waiting: list[bytes] = []
    for text in texts:
        if waiting and sum(map(len, waiting)) + len(text) > PIECE_BYTES:
            yield b"".join(waiting)
            waiting = []
        if text:
            waiting.append(text)
    if waiting:
        yield b"".join(waiting)


def _keep(known: dict[str, T], run: str, value: T) -> None:
    if len(known) >= PATHS_MAX:
        known.clear()
    known[run] = value


class Reader:
    """One stream: what waits for it, up to a bound. `run` is the run it is about, or all of them if it is empty.

    `crews` are those whose runs it may show; None for all.
    """

    def __init__(
        self,
        place: Place,
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
        # What runs below did before the event that a reader begins with is not asked for.
        self._has_begun = not after or place.position > 0
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._woken = asyncio.Event()
        self._held: list[Written] | None = None
        self.is_over = False
        self.closing = ""

    def hold(self) -> None:
        self._held = []

    def let_go(self) -> None:
        """What was held is seen or waits now, and what comes waits too."""
        held, self._held, self._size = self._held or (), None, 0
        for record in held:
            self.offer(self.takes(record))

    def give(self, record: Written) -> None:
        """A record as it comes."""
        if self._held is None:
            self.offer(self.takes(record))
            return
        self._held.append(record)
        self._size += sum(map(len, record.events))
        if self._size > self._bytes_max:
            self.close(SLOW_READER)

    def takes(self, record: Written) -> bytes:
        """What of the record is to be sent; afterwards the reader stands behind it."""
        is_own = record.run == self.run or not self.run
        if not is_own and not is_below(record.run, self.run):
            return b""
        if is_own and record.seq + len(record.events) > self._after + 1:
            self._has_begun = True
        is_shown = self._has_begun and self.may_show(record.crew)
        text = record.after(self.place, self._after if is_own else 0) if is_shown else b""
        if record.position > self.place.position:
            self.place = Place(record.position)
        self.is_over = self.is_over or (record.run == self.run and record.ends_run)
        return text

    def may_show(self, crew: str) -> bool:
        return self.crews is None or crew in self.crews

    def offer(self, text: bytes) -> None:
        """One text always fits, however large: else a reader would never get past it."""
        if not text or self.closing:
            return
        if self._waiting and self._size + len(text) > self._bytes_max:
            self.close(SLOW_READER)
            return
        self._waiting.append(text)
        self._size += len(text)
        self._woken.set()

    def offer_delta(self, text: bytes) -> None:
        """Pieces of replies are left out for those who lag: the whole reply follows."""
        if self._held is None and not self.is_over and 2 * self._size < self._bytes_max:
            self.offer(text)

    def close(self, reason: str) -> None:
        if not self.closing:
            self.closing = reason
            self._woken.set()

    async def next(self) -> bytes | None:
        """All that waits; None when there is nothing more to come."""
        while not self._waiting:
            if self.closing or self.is_over:
                return None
            self._woken.clear()
            await self._woken.wait()
        text = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return text


class Feed:
    """Hands records out to readers, from the store and from the runner."""

    def __init__(self, store: Records, clock: Clock, on_drop: Callable[[], None], redact: Redact = bytes) -> None:
        self._store, self._clock, self._on_drop, self._redact = store, clock, on_drop, redact
        self._readers: dict[str, set[Reader]] = {}
        self._position = 0
        self._early: dict[int, StoredRecord] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._crews: dict[str, str] = {}  # of outermost runs
        self._woken = asyncio.Event()
        self._closing = ""

    @property
    def readers(self) -> int:
        return sum(len(each) for each in self._readers.values())

    # From the runner

    def observe(self, stored: StoredRecord) -> None:
        """Told by the runner of every record that is stored."""
        if not self._readers:
            self._position = max(self._position, stored.position)
        elif stored.position == self._position + 1 and self._knows_path_of(stored):
            self._hand_out(stored)
            while (following := self._early.get(self._position + 1)) is not None and self._knows_path_of(following):
                self._hand_out(self._early.pop(following.position))
        elif stored.position > self._position:
            self._early[stored.position] = stored
            self._woken.set()

    def hear(self, delta: Public) -> None:
        """A piece of a reply."""
        if not self._readers:
            return
        crew = self._crews.get(root_of(delta["run"]), "")
        listening = [each for each in self._readers_of(delta["run"]) if each.deltas and each.may_show(crew)]
        if listening:
            text = b"data: %s\n\n" % _encode(delta)
            for reader in listening:
                reader.offer_delta(text)

    # From the store

    async def run(self) -> None:
        """Reads what the runner does not tell of; ends by being cancelled."""
        self._position = max(self._position, await self._store.newest_position())
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_MS / 1000):
                    await self._woken.wait()
            self._woken.clear()
            if self._readers:
                with suppress(StoreFailed):  # it is away; whoever reads waits with us
                    await self._catch_up()

    async def _catch_up(self) -> None:
        while page := await self._store.since(self._position, PAGE):
            for stored in page:
                await self._learn_path_of(stored)
                if stored.position > self._position:
                    self._hand_out(stored)
        self._early = {at: stored for at, stored in self._early.items() if at > self._position}

    def _hand_out(self, stored: StoredRecord) -> None:
        self._position = stored.position
        to = self._readers_of(stored.run)
        if to:
            record = self._written(stored)
            for reader in to:
                reader.give(record)
                if reader.closing == SLOW_READER:
                    self._leave(reader)
                    self._on_drop()

    def _readers_of(self, run: str) -> list[Reader]:
        """Those of the run, of those above it, and of everything."""
        found = list(self._readers.get("", ()))
        while run:
            found += self._readers.get(run, ())
            run = parent_of(run)
        return found

    def _knows_path_of(self, stored: StoredRecord) -> bool:
        """Whether it is known where the run is, and of which crew the outermost one is."""
        started = stored.record.events[0]
        if isinstance(started, RunStarted):
            self._remember_path(stored.run, started)
        is_placed = not parent_of(stored.run) or stored.run in self._paths
        return is_placed and root_of(stored.run) in self._crews

    async def _learn_path_of(self, stored: StoredRecord) -> None:
        """How a run began says where it is; that may be long ago."""
        if self._knows_path_of(stored):
            return
        for run in dict.fromkeys((root_of(stored.run), stored.run)):
            (first, *_) = await self._store.of_run(run, 0, 1)
            started = first.record.events[0]
            assert isinstance(started, RunStarted), "a run begins with run.started"
            self._remember_path(run, started)

    def _remember_path(self, run: str, started: RunStarted) -> None:
        if parent_of(run):
            _keep(self._paths, run, tuple(started.path))
        else:
            _keep(self._crews, run, started.crew)

    # For streams

    async def stream(self, reader: Reader, *, follow: bool) -> AsyncIterator[bytes]:
        """All of it as texts to send; ends with the reason why."""
        yield opened(reader.place)
        async for text in self._stored(reader):
            yield text
        if follow and not reader.is_over:
            self._join(reader)
            try:
                async for text in self._stored(reader):
                    yield text
                reader.let_go()
                while (waiting := await reader.next()) is not None:
                    yield waiting
            finally:
                self._leave(reader)
        yield closed(reader.closing or (RUN_OVER if reader.is_over else END))

    async def _stored(self, reader: Reader) -> AsyncIterator[bytes]:
        """What the store has beyond the place of the reader."""
        position = reader.place.position
        while not reader.is_over and (page := await self._page(reader, position)):
            position = page[-1].position
            for stored in page:
                await self._learn_path_of(stored)
            for text in _pieces(reader.takes(self._written(each)) for each in page):
                yield text

    def _written(self, stored: StoredRecord) -> Written:
        return written(stored, self._paths.get(stored.run, ()), self._redact, self._crews.get(root_of(stored.run), ""))

    async def _page(self, reader: Reader, position: int) -> Sequence[StoredRecord]:
        if reader.run:
            return await self._store.of_run(reader.run, position, PAGE)
        return await self._store.since(position, PAGE)

    def _join(self, reader: Reader) -> None:
        reader.hold()
        if self._closing:
            reader.close(self._closing)
        self._readers.setdefault(reader.run, set()).add(reader)

    def _leave(self, reader: Reader) -> None:
        readers = self._readers.get(reader.run, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(reader.run, None)

    def close(self, reason: str) -> None:
        """Every stream ends once it has sent what waits for it, and so does every one that is opened yet."""
        self._closing = reason
        for readers in list(self._readers.values()):
            for reader in list(readers):
                reader.close(reason)
