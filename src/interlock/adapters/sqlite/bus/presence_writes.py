"""Presence that is written with a record: as a part of it, or as broadcasts if they have subscribers."""

import sqlite3
from collections.abc import Sequence

import msgspec

from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.bus.record_presence import AgentsOfRecord, presence_column
from interlock.adapters.store_rules import bus_rules
from interlock.adapters.store_rules.positions import end_of_derived
from interlock.broadcast.presence import PresenceChange
from interlock.broadcast.record import Emission
from interlock.ports import NO_BROADCASTS, AtomicWrites, BroadcastOutcome, Record, RunRow


class PresenceWrite(msgspec.Struct, frozen=True):
    """The presence of a record, and the broadcasts that must be stored because they have subscribers."""

    stored: bytes | int | None = None
    emissions: Sequence[Emission] = ()
    is_news: bool = False


NO_PRESENCE = PresenceWrite()


def change_presence(
    connection: sqlite3.Connection,
    cache: BusCache,
    number: int,
    row: RunRow,
    record: Record,
    also: AtomicWrites,
    told: AgentsOfRecord,
) -> PresenceWrite:
    """Notes who is active, before the record is stored. `number` is that of the run; `told` its `agents_in_record`."""
    slept, woken = cache.active_agents(connection).change(row.crew, row.run, also.ended, also.begun)
    changed = slept + woken
    is_news = any(changed)
    emissions: Sequence[Emission] = ()
    if is_news and cache.directory(connection).by_key:
        emissions = _emissions(SqliteBusTables(connection, cache), row, record, also, slept, woken)
        changed = ("",) * len(changed) if emissions else changed
    return PresenceWrite(presence_column(also.ended, also.begun, changed, number, record, told), emissions, is_news)


def _emissions(
    tables: SqliteBusTables,
    row: RunRow,
    record: Record,
    also: AtomicWrites,
    slept: tuple[str, ...],
    woken: tuple[str, ...],
) -> Sequence[Emission]:
    """The broadcasts, if one of them has a subscriber."""
    activity = bus_rules.activity_of_record(row, record, also)
    change = PresenceChange(activity.name, activity.place, activity.at, slept, woken)
    if not bus_rules.has_presence_subscribers(tables, activity.crew, change):
        return ()
    return bus_rules.presence_emissions(activity, change)


def announce_presence(tables: SqliteBusTables, presence: PresenceWrite, position: int) -> BroadcastOutcome:
    """Stores the broadcasts that have subscribers, at the positions that they would be derived at."""
    if not presence.emissions:
        return bus_rules.PRESENCE_ONLY if presence.is_news else NO_BROADCASTS
    tables.place_after(end_of_derived(position) - len(presence.emissions))
    return bus_rules.announce(tables, presence.emissions)
