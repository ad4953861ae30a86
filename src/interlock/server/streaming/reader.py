"""One reader of a stream: its position, its buffer and its frames.

Rule 1: a reader has a buffer limit. A slow reader is disconnected with the reason, and can return to its position.
Rule 2: it is sent what there is at once, and then once in each frame: a write to a socket costs more than the events
in it. The last events of a run are sent at once too.
"""

import asyncio
from collections import deque

import msgspec

from interlock.ids import is_below
from interlock.server.streaming.positions import StreamPosition

SLOW_READER = "slow-reader"


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
        self._is_in_frame = False
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
        if not self._is_in_frame or self.is_over:
            self._woken.set()

    def enqueue_delta(self, text: bytes) -> None:
        """Adds a piece of a reply, unless the reader lags: the whole reply follows."""
        if self._held is None and not self.is_over and 2 * self._size < self._bytes_max:
            self.enqueue(text)

    def close(self, reason: str) -> None:
        if not self.closing:
            self.closing = reason
            self._woken.set()

    def begin_frame(self) -> None:
        self._is_in_frame = True

    def end_frame(self) -> None:
        self._is_in_frame = False
        if self._waiting:
            self._woken.set()

    async def read_waiting(self) -> bytes | None:
        """All buffered texts, not before the end of a frame that has begun; None at the end of the stream."""
        while not self._waiting or self._is_in_frame:
            if self.closing or self.is_over:
                if not self._waiting:
                    return None
                break
            self._woken.clear()
            await self._woken.wait()
        text = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return text
