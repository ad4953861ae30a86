"""The column `presence` of a record: who ended and began work with it.

Rule 1: nearly always the events of the record tell, and no agent works elsewhere: then it is `TOLD`, and readers derive
the agents from the events. The writer compares before it writes that.
Rule 2: all else is written out, with the time, behind a crc. The crc is mixed with the run's number and the seq, so
that a presence that ends up at another record is noticed.
Rule 3: a damaged one is left out, and the doctor reports it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from typing import Any
from zlib import crc32

from interlock.adapters.sqlite.bus.change_counts import PRESENCE_FILLED, PRESENCE_NEWEST, change_count_or_none
from interlock.adapters.store_rules.broadcast_rows import PresentRecord
from interlock.adapters.store_rules.bus_tables import AgentsWithHops
from interlock.adapters.store_rules.record_format import decode_record
from interlock.broadcast.presence import (
    RecordPresence,
    decode_record_presence,
    encode_record_presence,
)
from interlock.engine.flow.waits import agents_in_record
from interlock.ports import Record

_LAST_POSITION = 2**63 - 1

# Who ended and who began work, as the events of a record tell it (`agents_in_record`).
AgentsOfRecord = tuple[tuple[str, ...], tuple[str, ...]]

# In place of a presence that follows from the events.
TOLD = 1

_CRC_BYTES, _TIME_BYTES = 4, 6

# Encoded presences that are cached: one for each route of a few large crews.
WRITTEN_OUT_CACHED = 1_000

_SELECT = (
    "select position, runs.run, runs.crew, number, records.seq, presence,"
    " case typeof(presence) when 'integer' then records.crc end, case typeof(presence) when 'integer' then body end"
    " from records cross join runs on number = records.run where {} and presence is not null order by position {}"
)
SELECT_AFTER = _SELECT.format("position > ?", "")
_SELECT_UP = _SELECT.format("position between ? and ?", "")
_SELECT_DOWN = _SELECT.format("position between ? and ?", "desc")
SELECT_AT = _SELECT.format("position = ?", "")


def presence_column(
    ended: AgentsWithHops,
    begun: AgentsWithHops,
    changed: tuple[str, ...],
    number: int,
    record: Record,
    told: AgentsOfRecord,
) -> bytes | int:
    """The value of the column. `changed` are those who slept and woke, with "" for the others.

    `told` are the `agents_in_record`.
    """
    told_ended, told_begun = told
    if told_ended + told_begun == changed and len(told_ended) == len(ended):
        return TOLD
    return _seal_presence(record.at, _encode_agents(ended, begun, changed), number, record.seq)


@lru_cache(WRITTEN_OUT_CACHED)
def _encode_agents(ended: AgentsWithHops, begun: AgentsWithHops, changed: tuple[str, ...]) -> bytes:
    """With many runs of a crew nearly every handoff is between agents that are at work elsewhere."""
    names = [tuple([agent for agent, _ in each]) for each in (ended, begun)]
    quiet = tuple([place for place, agent in enumerate(changed) if not agent])
    return encode_record_presence(RecordPresence(names[0], names[1], quiet))


def write_presence(at: int, agents: RecordPresence, number: int, seq: int) -> bytes:
    """The column where it is written out."""
    return _seal_presence(at, encode_record_presence(agents), number, seq)


def _seal_presence(at: int, agents: bytes, number: int, seq: int) -> bytes:
    body = at.to_bytes(_TIME_BYTES) + agents
    return _crc_of(body, number, seq).to_bytes(_CRC_BYTES) + body


def read_presence(connection: sqlite3.Connection, query: str, *values: int) -> Iterator[PresentRecord]:
    """The records with presence, one at a time."""
    with closing(connection.execute(query, values)) as found:
        for position, run, crew, number, seq, presence, crc, body in found:
            known = (
                _from_events(number, seq, crc, body) if presence == TOLD else presence_in_column(presence, number, seq)
            )
            yield PresentRecord(position, run, crew, seq, *known)


def presence_from(connection: sqlite3.Connection, position: int) -> Iterator[PresentRecord]:
    """The records with presence from a position on."""
    for first, last in _stretches(connection):
        yield from read_presence(connection, _SELECT_UP, max(first, position), last)


def presence_below(connection: sqlite3.Connection, position: int) -> Iterator[PresentRecord]:
    """Those before a position, the newest first."""
    for first, last in reversed(_stretches(connection)):
        yield from read_presence(connection, _SELECT_DOWN, first, min(last, position - 1))


def _stretches(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """The positions among which there are records with presence: all but those after the newest that is known."""
    newest, filled = (change_count_or_none(connection, each) for each in (PRESENCE_NEWEST, PRESENCE_FILLED))
    if newest is None or filled is None or newest >= filled:
        return [(0, _LAST_POSITION)]
    return [(0, newest), (filled + 1, _LAST_POSITION)]


def _from_events(number: int, seq: int, crc: int, body: bytes) -> tuple[int, RecordPresence | None]:
    if (crc ^ number) & 0xFFFF_FFFF != crc32(body):
        return 0, None
    try:
        record = decode_record(body)
    except (ValueError, RecursionError):
        return 0, None
    if record.seq != seq:
        return 0, None
    return record.at, RecordPresence(*agents_in_record(record.events))


def presence_in_column(presence: Any, number: int, seq: int) -> tuple[int, RecordPresence | None]:
    """Time and agents of a column that is written out; None in place of the agents if it is damaged."""
    if not isinstance(presence, bytes):
        return 0, None
    body = presence[_CRC_BYTES:]
    if int.from_bytes(presence[:_CRC_BYTES]) != _crc_of(body, number, seq):
        return 0, None
    try:
        return int.from_bytes(body[:_TIME_BYTES]), decode_record_presence(body[_TIME_BYTES:])
    except ValueError:
        return 0, None


def _crc_of(body: bytes, number: int, seq: int) -> int:
    return crc32(body) ^ ((number << 12 ^ seq) & 0xFFFF_FFFF)
