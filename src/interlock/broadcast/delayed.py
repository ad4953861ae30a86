"""Signals for later. Pure rules, shared by every store.

Rule 1: times are those of the wall clock, in milliseconds since 1970. Time arrives as a value.
Rule 2: a signal that is scheduled under the `(type, repeatKey)` of another one takes its place, whatever is being done
with the other one at the moment.
Rule 3: a signal keeps its id on every try. Of one that comes again every time has an id that follows from its own.
Rule 4: a clock that was ahead, and was set back, holds up no schedule and no next try: both are planned anew.
Rule 5: those that a schedule missed while nobody was there come once, not once each.
"""

from typing import Any

import msgspec

from interlock.broadcast.naming import derived_id
from interlock.broadcast.record import UNSET, Broadcast, Emission, Source
from interlock.broadcast.schedules import Schedule, next_after
from interlock.errors import BadBroadcast
from interlock.limits import DELIVERY_PAUSES_MS, HORIZON_MS


class Delayed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal in the queue. `try_at` is when it is tried next, after a failure; `crew` is that of its agent."""

    id: str
    type: str
    source: Source
    deliver_at: int = msgspec.field(name="deliverAt")
    created_at: int = msgspec.field(name="createdAt")
    updated_at: int = msgspec.field(name="updatedAt")
    data: Any = UNSET
    repeat_key: str | None = msgspec.field(name="repeatKey", default=None)
    schedule: Schedule | None = None
    attempts: int = 0
    try_at: int = msgspec.field(name="tryAt", default=0)
    crew: str = ""
    hops: int = 0

    @property
    def due_at(self) -> int:
        return max(self.deliver_at, self.try_at)


class Dead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What could not be delivered, with all that is needed to try again. `for_agent` is empty if it reached nobody.

    `from_crew` is that of the agent whose own it is; `silent` says that it was in an inbox.
    """

    id: str
    broadcast: Broadcast
    reason: str
    at: int
    attempts: int = 0
    for_crew: str = msgspec.field(name="crew", default="")
    for_agent: str = msgspec.field(name="agent", default="")
    from_crew: str = msgspec.field(name="fromCrew", default="")
    silent: bool = False


def checked_time(at: object, now: int) -> int:
    """`BadBroadcast` for what is no time, or one that nobody means."""
    if isinstance(at, bool) or not isinstance(at, int):
        raise BadBroadcast("time", str(at)[:80], "is not a whole number of milliseconds since 1970")
    if at <= 0 or abs(at - now) > HORIZON_MS:
        raise BadBroadcast("time", str(at)[:80], "is more than ten years away; times are milliseconds since 1970")
    return at


def checked_repeat_key(key: object) -> str | None:
    if key is None or (isinstance(key, str) and 0 < len(key) <= 256 and key.isprintable()):
        return key
    raise BadBroadcast("repeatKey", str(key)[:80], "is not a text of 1 to 256 characters that can be printed")


def replaces(new: Delayed, old: Delayed) -> bool:
    if new.id == old.id:
        return True
    return new.repeat_key is not None and (new.type, new.repeat_key) == (old.type, old.repeat_key)


def in_order(entry: Delayed) -> tuple[int, str, str]:
    return entry.deliver_at, entry.type, entry.id


def emission_of(entry: Delayed, now: int) -> Emission:
    """What goes out. The same whenever it is tried, but for the time."""
    occurrence = entry.id if entry.schedule is None else derived_id(f"{entry.id}:{entry.deliver_at}")
    broadcast = Broadcast(id=occurrence, type=entry.type, source=entry.source, data=entry.data, created_at=now)
    agent = entry.source.id if entry.source.type == "agent" else ""
    return Emission(broadcast=broadcast, crew=entry.crew, agent=agent, hops=entry.hops)


def after_dispatch(entry: Delayed, now: int) -> Delayed | None:
    """What stays in the queue: the next time of a schedule, after this one and after now."""
    if entry.schedule is None:
        return None
    then = next_after(entry.schedule, max(now, entry.deliver_at), entry.deliver_at)
    return msgspec.structs.replace(entry, deliver_at=then, updated_at=now, attempts=0, try_at=0)


def after_failure(entry: Delayed, now: int) -> Delayed | None:
    """The entry as it is tried again, or None if it was tried often enough."""
    if entry.attempts >= len(DELIVERY_PAUSES_MS):
        return None
    pause = DELIVERY_PAUSES_MS[entry.attempts]
    return msgspec.structs.replace(entry, attempts=entry.attempts + 1, try_at=now + pause, updated_at=now)


def planned_anew(entry: Delayed, now: int) -> Delayed | None:
    """As it should stand, if a clock that was ahead has moved it on or put it off; None for what is as it was made."""
    if entry.updated_at == entry.created_at:
        return None
    then = entry.deliver_at
    if entry.schedule is not None:  # what went out already has the same id again, and so goes out once
        then = min(then, next_after(entry.schedule, now, then))
    return msgspec.structs.replace(entry, deliver_at=then, try_at=0, updated_at=now)


def buried(entry: Delayed, reason: str, now: int) -> Dead:
    broadcast = emission_of(entry, now).broadcast
    tries = entry.attempts + 1
    return Dead(id=broadcast.id, broadcast=broadcast, reason=reason, at=now, attempts=tries, from_crew=entry.crew)


def view_of(entry: Delayed) -> dict[str, Any]:
    """As people and programs see it, and as `delayed.json` holds it."""
    body: dict[str, Any] = msgspec.to_builtins(entry)
    body["attempts"] = entry.attempts
    for inner in ("tryAt", "crew", "hops"):
        body.pop(inner, None)
    if body.get("repeatKey", "") is None:
        del body["repeatKey"]
    return body
