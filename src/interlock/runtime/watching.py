"""Whoever follows a run: records as they are acknowledged, and pieces of replies as they come."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from interlock.engine.events import Event, ToolCalled
from interlock.engine.in_full import in_full
from interlock.ports import Record

# A watcher that lags this far behind misses what follows, and reads it in the journal.
QUEUE_MAX = 10_000

Public = dict[str, Any]


def public_events(run: str, record: Record) -> Iterator[Public]:
    """The events of a record as people and programs outside see them."""
    for n, event in enumerate(record.events):
        yield {"run": run, "seq": record.seq + n, "at": record.at, **_public(event)}


def _public(event: Event) -> Public:
    body = in_full(event)
    body.pop("worked_ms", None)
    if isinstance(event, ToolCalled):
        body["arguments"] = _arguments(event.arguments)
    return {"type": event.__struct_config__.tag, **body}


def _arguments(text: str) -> Any:
    """As an object where the model wrote one, else as it wrote it."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # a model may nest without end
        return text


class Watchers:
    """Queues of those who follow runs of this process."""

    def __init__(self) -> None:
        self._queues: dict[str, list[asyncio.Queue[Public | None]]] = {}
        self._ears: list[Callable[[Public], None]] = []

    def are_there(self, run: str) -> bool:
        return run in self._queues

    def tell(self, run: str, event: Public) -> None:
        for queue in self._queues.get(run, ()):
            if queue.qsize() < QUEUE_MAX:
                queue.put_nowait(event)

    def overhear(self, ear: Callable[[Public], None]) -> None:
        """From now on it is told of the pieces of every run's replies."""
        self._ears.append(ear)

    def delta(self, piece: Public) -> None:
        self.tell(piece["run"], piece)
        for ear in self._ears:
            ear(piece)

    def settle(self, run: str) -> None:
        """The run is over or paused: its watchers have seen all there is for now."""
        for queue in self._queues.get(run, ()):
            queue.put_nowait(None)

    @contextmanager
    def watching(self, run: str) -> Iterator["asyncio.Queue[Public | None]"]:
        """What happens from now on, until a None says that the run has settled."""
        queue: asyncio.Queue[Public | None] = asyncio.Queue()
        self._queues.setdefault(run, []).append(queue)
        try:
            yield queue
        finally:
            self._queues[run].remove(queue)
            if not self._queues[run]:
                del self._queues[run]
