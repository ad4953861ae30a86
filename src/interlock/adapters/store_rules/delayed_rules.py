"""The rules of delayed broadcasts over the tables of the bus. They are pure, and the same for every store."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from interlock.adapters.store_rules.bus_rules import announce
from interlock.adapters.store_rules.bus_tables import BusTables
from interlock.broadcast.delayed import (
    BroadcastDeadLetter,
    DelayedBroadcast,
    after_clock_change,
    after_dispatch,
    after_failure,
    dead_letter_of,
    emission_of,
)
from interlock.broadcast.record import Emission
from interlock.errors import BadBroadcast
from interlock.limits import DELIVERY_PAUSES_MS
from interlock.ports import BroadcastOutcome

Announce = Callable[[Sequence[Emission]], BroadcastOutcome]


def schedule(tables: BusTables, entry: DelayedBroadcast) -> DelayedBroadcast | None:
    """Queues a delayed broadcast. An id that is queued already changes nothing: its answer was lost."""
    if tables.entry(entry.id) is not None:
        return None
    old = tables.entry_by_repeat_key(entry.type, entry.repeat_key) if entry.repeat_key is not None else None
    if old is not None:
        tables.drop_entry(old.id)
    tables.put_entry(entry)
    return old


def cancel(tables: BusTables, id: str, kind: str, repeat_key: str) -> DelayedBroadcast | None:  # noqa: A002
    found = tables.entry(id) if id else tables.entry_by_repeat_key(kind, repeat_key)
    if found is not None:
        tables.drop_entry(found.id)
    return found


def dispatch(
    tables: BusTables, entries: Iterable[DelayedBroadcast], now: int, announce_all: Announce | None = None
) -> BroadcastOutcome:
    """Emits entries that are unchanged in the queue; those replaced or cancelled meanwhile are left alone.

    `announce_all` is the way of a store to announce all of them at once, by the same rules.
    """
    due = [(entry, after_dispatch(entry, now)) for entry in entries if tables.entry(entry.id) == entry]
    emissions = [emission_of(entry, now) for entry, _ in due]
    announced = announce_all(emissions) if announce_all is not None else announce(tables, emissions)
    for entry, later in due:
        _reschedule_or_drop(tables, entry, later)
    return announced


def replan_after_clock_change(tables: BusTables, now: int) -> None:
    """Plans again what a clock that was ahead has postponed; entries that cannot be planned stay unchanged."""
    for entry in tables.entries_ahead(now):
        with suppress(BadBroadcast):
            if (again := after_clock_change(entry, now)) is not None:
                tables.put_entry(again)
    tables.clear_retries_after(now + max(DELIVERY_PAUSES_MS))


def _reschedule_or_drop(tables: BusTables, entry: DelayedBroadcast, later: DelayedBroadcast | None) -> None:
    if later is None:
        tables.drop_entry(entry.id)
    else:
        tables.put_entry(later)


def record_dispatch_failure(
    tables: BusTables, entry: DelayedBroadcast, reason: str, now: int
) -> BroadcastDeadLetter | None:
    if tables.entry(entry.id) != entry:
        return None
    again = after_failure(entry, now)
    if again is not None:
        tables.put_entry(again)
        return None
    letter = dead_letter_of(entry, reason, now)
    tables.add_dead_letter(letter)
    _reschedule_or_drop(tables, entry, _next_entry_or_none(entry, now))
    return letter


def _next_entry_or_none(entry: DelayedBroadcast, now: int) -> DelayedBroadcast | None:
    """The next entry of a schedule; None if it cannot be computed, because its time zone is unknown by now."""
    try:
        return after_dispatch(entry, now)
    except BadBroadcast:
        return None
