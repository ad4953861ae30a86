"""Whoever follows a run: records as they are acknowledged, its own and those of its children, and pieces of replies
as they come."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from interlock.engine.bounds import UNBOUNDED
from interlock.engine.events import NO_CONTEXT, BroadcastEmitted, Event, InputGiven, RunResumed, RunStarted, ToolCalled
from interlock.engine.in_full import in_full
from interlock.ids import parent_of
from interlock.ports import Record

# A watcher that lags this far behind misses what follows, and reads it in the journal.
QUEUE_MAX = 10_000

Public = dict[str, Any]


def public_events(run: str, record: Record) -> Iterator[Public]:
    """The events of a record as people and programs outside see them."""
    for n, event in enumerate(record.events):
        yield {"run": run, "seq": record.seq + n, "at": record.at, **_public(event, record.at)}


_UNSAID = {
    "context": NO_CONTEXT, "bounds": UNBOUNDED, "calls": {}, "entry": "", "heard": None, "delivery": 0, "hops": 0,
    "way": [], "messages": (), "by": "",
}  # fmt: skip


def _public(event: Event, at: int) -> Public:
    body = in_full(event)
    body.pop("worked_ms", None)
    body.pop("mail", None)
    if isinstance(event, ToolCalled):
        body["arguments"] = json_or_text(event.arguments)
    if isinstance(event, BroadcastEmitted):
        body["signal"]["createdAt"] = at
    if isinstance(event, RunResumed | InputGiven) and not event.by:
        del body["by"]
    if isinstance(event, RunStarted):  # most runs are told nothing but their input
        body = {name: value for name, value in body.items() if getattr(event, name) != _UNSAID.get(name, ...)}
    return {"type": event.__struct_config__.tag, **body}


def json_or_text(text: str) -> Any:
    """As an object where the model wrote one, else as it wrote it."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # a model may nest without end
        return text


# A stream ends with one of these.
LAST = ("run.finished", "run.paused")


class Told(NamedTuple):
    """An event with its seq, or a piece of a reply with the seq that its run had reached when it was said."""

    event: Public
    seq: int


class Watcher:
    """One who follows a run and all below it. What is in the queue comes in order; `missed` says that some is not."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Told | None] = asyncio.Queue()
        self.missed = False

    def tell(self, event: Public) -> None:
        if self.queue.qsize() < QUEUE_MAX:
            self.queue.put_nowait(Told(event, event["seq"]))
        else:
            self.missed = True

    def tell_piece(self, piece: Public, seq: int) -> None:
        """A piece that does not fit is left out: the whole reply follows."""
        if self.queue.qsize() < QUEUE_MAX:
            self.queue.put_nowait(Told(piece, seq))


class Watchers:
    """Those who follow runs of this process."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[Watcher]] = {}
        # Told of the pieces of every run's replies.
        self.ears: list[Callable[[Public], None]] = []

    def of(self, run: str) -> list[Watcher]:
        """Whoever follows the run, or one that it is below."""
        found: list[Watcher] = []
        while self._watchers and run:
            found += self._watchers.get(run, ())
            run = parent_of(run)
        return found

    def settle(self, run: str) -> None:
        """The run is over or paused: its watchers have seen all there is for now."""
        for watcher in self._watchers.get(run, ()):
            watcher.queue.put_nowait(None)

    @contextmanager
    def watching(self, run: str) -> Iterator[Watcher]:
        """What happens from now on, until a None says that the run has settled."""
        watcher = Watcher()
        self._watchers.setdefault(run, []).append(watcher)
        try:
            yield watcher
        finally:
            self._watchers[run].remove(watcher)
            if not self._watchers[run]:
                del self._watchers[run]


class Followed:
    """What somebody who follows a run has seen of it and of the runs below it: nothing twice, and in order.

    An event of a run below says on which `path` of sub-crews it is. `is_at_end` if the newest event of the run itself
    is one that a stream may end with.
    """

    def __init__(self, run: str, after: int) -> None:
        self.run, self.after, self.position = run, after, 0
        self.is_at_end = False
        self._seen = {run: after}
        self._paths: dict[str, list[str]] = {}

    @property
    def seq(self) -> int:
        return self._seen[self.run]

    def knows_path_of(self, run: str) -> bool:
        return run == self.run or run in self._paths

    def learn_path_of(self, run: str, path: Sequence[str]) -> None:
        self._paths[run] = list(path)

    def taken(self, told: Told) -> Public | None:
        """The event as it is shown, or nothing if it was seen before, or belongs before something that was."""
        event, run = told.event, told.event["run"]
        if not self._is_next(told):
            return None
        if event["type"] == "run.started":
            self.learn_path_of(run, event["path"])
        if run == self.run:
            self.is_at_end = event["type"] in LAST
            return event
        return {**event, "path": self._paths[run]}

    def _is_next(self, told: Told) -> bool:
        """A piece says nothing new to who has seen a later event in the journal: its reply may be among those."""
        run = told.event["run"]
        seen = self._seen.get(run, 0)
        if "seq" not in told.event:
            return told.seq >= seen
        self._seen[run] = max(seen, told.seq)
        return told.seq > seen
