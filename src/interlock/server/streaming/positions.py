"""Positions of a reader in the records of all runs: the ids of a stream.

A record has several events, and a stream may break between any two of them. So the last event of a record has the
position of the record as its id, `17`, and the ones before it count the events of the record: `17.1`, `17.2`.
"""

import re

import msgspec

from interlock.errors import RequestRefused

_POSITION = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")


class StreamPosition(msgspec.Struct, frozen=True):
    """A position: all records up to `position` were seen, and `seen` events of the next one."""

    position: int
    record: int = 0
    seen: int = 0

    def __str__(self) -> str:
        return f"{self.record}.{self.seen}" if self.seen else str(self.position)

    def has_seen(self, record: int, n: int) -> bool:
        """True if the reader has seen the nth event, counted from 0, of the record at this position."""
        return record <= self.position or (record == self.record and n < self.seen)


def parse_position(text: str) -> StreamPosition:
    found = _POSITION.fullmatch(text)
    if found is None:
        raise RequestRefused("bad-event-id", f"{text[:40]!r} is not the id of an event; start without Last-Event-ID")
    position, seen = int(found[1]), int(found[2] or 0)
    return StreamPosition(position - 1, position, seen) if seen else StreamPosition(position)


def event_id(position: int, n: int, count: int) -> str:
    """The id of the nth of so many events of a record, counted from 0."""
    return str(position) if n == count - 1 else f"{position}.{n + 1}"
