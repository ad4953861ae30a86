"""Rows of broadcasts as stores keep them, and reading them in the order of positions. Pure, shared by every store.

Rule 1: a row holds one broadcast or several, and has the position of its last one; the others are before it.
Rule 2: rows are read one at a time. A damaged row hides no other, and the doctor names it.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from interlock.adapters.store_rules.bus_tables import BroadcastAge
from interlock.broadcast.pattern import matches
from interlock.broadcast.presence import (
    PresenceChange,
    RecordPresence,
    broadcasts_of,
    change_in_record,
    decode_presence,
)
from interlock.broadcast.record import Broadcast, decode_broadcast, encode_broadcast
from interlock.limits import PAGE_BYTES_MAX

# A derived broadcast has no size of its own; this is that of its line, more or less.
_DERIVED_BYTES = 120


class PresentRecord(NamedTuple):
    """The presence of a record; `agents` is None if it is damaged."""

    position: int
    run: str
    crew: str
    seq: int
    at: int
    agents: RecordPresence | None

    @property
    def change(self) -> PresenceChange | None:
        return change_in_record(self.run, self.seq, self.at, self.agents) if self.agents is not None else None


class RowKind(IntEnum):
    """Where a row is: one broadcast, changes of presence, or changes of presence in a record."""

    BROADCAST = 0
    LIFECYCLE = 1
    RECORD = 2


class BroadcastRow(NamedTuple):
    """A row of broadcasts, not yet verified; `record` is that of the kind `RECORD`, which has no crc and body here."""

    position: int
    crc: int
    body: bytes
    kind: int
    record: PresentRecord | None = None

    @property
    def presence(self) -> PresenceChange | None:
        """The changes of presence in it; None if they are damaged."""
        if self.record is not None:
            return self.record.change
        if crc_as_int32(self.body, self.position) != self.crc:
            return None
        try:
            return decode_presence(self.body)
        except ValueError:
            return None

    @property
    def broadcasts(self) -> list[tuple[int, Broadcast]]:
        """The broadcasts in it, each with its position; none if it is damaged."""
        if self.kind == RowKind.BROADCAST:
            broadcast = broadcast_from_row(self.position, self.crc, self.body)
            return [(self.position, broadcast)] if broadcast is not None else []
        presence = self.presence
        found = broadcasts_of(presence) if presence is not None else []
        return list(enumerate(found, self.position - len(found) + 1))

    @property
    def lines(self) -> list[tuple[int, bytes]]:
        """The same as lines of JSON, without line ends."""
        if self.kind == RowKind.BROADCAST:
            return [(self.position, self.body)] if crc_as_int32(self.body, self.position) == self.crc else []
        return [(at, encode_broadcast(each)) for at, each in self.broadcasts]

    @property
    def age(self) -> BroadcastAge:
        if self.record is not None and self.record.agents is not None:
            return BroadcastAge(self.position, self.record.agents.broadcast_count, self.record.at)
        found = self.broadcasts
        return BroadcastAge(self.position, len(found), found[0][1].created_at if found else None)

    @property
    def is_damaged(self) -> bool:
        return self.presence is None if self.kind != RowKind.BROADCAST else not self.broadcasts


def crc_as_int32(body: bytes, salt: int = 0) -> int:
    crc = (crc32(body) ^ salt ^ salt >> 32) & 0xFFFF_FFFF
    return crc - 0x1_0000_0000 if crc & 0x8000_0000 else crc


def broadcast_from_row(position: int, crc: int, body: bytes) -> Broadcast | None:
    """A broadcast; None if it is damaged."""
    if crc_as_int32(body, position) != crc:
        return None
    try:
        return decode_broadcast(body)
    except ValueError:
        return None


def newest_in_rows(rows: Iterable[BroadcastRow], limit: int, pattern: str | None) -> list[Broadcast]:
    """The newest broadcasts, the oldest of them first, from rows with the newest first."""
    found = (each for row in rows for _, each in reversed(row.broadcasts))
    chosen = (each for each in found if pattern is None or matches(pattern, each.type))
    return list(islice(chosen, limit))[::-1]


def position_before_newest_in_rows(rows: Iterable[BroadcastRow], head: int, limit: int, pattern: str | None) -> int:
    """The position before the newest `limit` broadcasts, from rows with the newest first; holds one row at a time."""
    position, left = head, limit
    for row in rows:
        for at, broadcast in reversed(row.broadcasts):
            if left == 0:
                return position
            if pattern is None or matches(pattern, broadcast.type):
                left -= 1
            position = at - 1
    return position


def page_of_rows(rows: Iterable[BroadcastRow], position: int, limit: int) -> list[tuple[int, Broadcast]]:
    """The broadcasts after a position, until there is a page of them."""
    return list(islice(_broadcasts_of_page(rows, position), limit))


def _broadcasts_of_page(rows: Iterable[BroadcastRow], position: int) -> Iterator[tuple[int, Broadcast]]:
    """The broadcasts in rows, until there is a page of them."""
    size = 0
    for row in rows:
        found = [each for each in row.broadcasts if each[0] > position]
        yield from found
        size += max(len(row.body), _DERIVED_BYTES * len(found)) if found else 0
        if size >= PAGE_BYTES_MAX:
            return
