"""Where a reader stands in the records of all runs: the ids of a stream.

A record holds several events, and a stream may break off between any two of them. So the last event of a record has
the record's position as its id, `17`, and the ones before it say how many of that record a reader has: `17.1`, `17.2`.
"""

import re

import msgspec

from interlock.errors import RequestRefused

_PLACE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")


class Place(msgspec.Struct, frozen=True):
    """Everything up to `position` was seen, and `seen` events of the record after that."""

    position: int
    record: int = 0
    seen: int = 0

    def __str__(self) -> str:
        return f"{self.record}.{self.seen}" if self.seen else str(self.position)

    def is_seen(self, record: int, n: int) -> bool:
        """Whether the reader has the nth event, counted from 0, of the record at this position."""
        return record <= self.position or (record == self.record and n < self.seen)


def place_of(text: str) -> Place:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise RequestRefused("bad-event-id", f"{text[:40]!r} is no id of an event; begin without Last-Event-ID")
    position, seen = int(found[1]), int(found[2] or 0)
    return Place(position - 1, position, seen) if seen else Place(position)


def event_id(position: int, n: int, count: int) -> str:
    """The id of the nth of so many events of a record, counted from 0."""
    return str(position) if n == count - 1 else f"{position}.{n + 1}"
