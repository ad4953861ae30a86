"""Scheduled broadcasts. Pure rules, shared by all stores.

Rule 1: times are those of the wall clock, in milliseconds since 1970. Time arrives as a value.
Rule 2: a signal that is scheduled under the `(type, repeatKey)` of another one replaces it, in any state.
Rule 3: a signal keeps its id on every try. Each repetition has an id that is derived from the first.
Rule 4: a clock that was ahead and was set back delays no schedule and no retry: both are planned again.
Rule 5: repetitions that were missed while no process ran come once, not once each.
"""

from typing import Any

import msgspec

from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import UNSET, Broadcast, Emission, Source
from interlock.broadcast.schedules import Schedule, next_after
from interlock.errors import BadBroadcast
from interlock.limits import DELIVERY_PAUSES_MS, HORIZON_MS


class DelayedBroadcast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal in the queue. `try_at` is the time of the next try after a failure; `crew` is that of its agent."""

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


class BroadcastDeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An undelivered broadcast, with everything needed to retry it. `for_agent` is empty if it reached no agent.

    `from_crew` is the crew of the agent that sent it; `silent` tells that it was in an inbox.
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


def require_time(at: object, now: int) -> int:
    """Raises `BadBroadcast` if the value is not a time, or is too far away."""
    if isinstance(at, bool) or not isinstance(at, int):
        raise BadBroadcast("time", str(at)[:80], "is not a whole number of milliseconds since 1970")
    if at <= 0 or abs(at - now) > HORIZON_MS:
        raise BadBroadcast("time", str(at)[:80], "is more than ten years away; times are milliseconds since 1970")
    return at


def require_repeat_key(key: object) -> str | None:
    if key is None or (isinstance(key, str) and 0 < len(key) <= 256 and key.isprintable()):
        return key
    raise BadBroadcast("repeatKey", str(key)[:80], "is not a text of 1 to 256 characters that can be printed")


def replaces(new: DelayedBroadcast, old: DelayedBroadcast) -> bool:
    if new.id == old.id:
        return True
    return new.repeat_key is not None and (new.type, new.repeat_key) == (old.type, old.repeat_key)


def delivery_order(entry: DelayedBroadcast) -> tuple[int, str, str]:
    return entry.deliver_at, entry.type, entry.id


def emission_of(entry: DelayedBroadcast, now: int) -> Emission:
    """The emission of a queued signal: the same on every try, except for the time."""
    occurrence = entry.id if entry.schedule is None else stable_id(f"{entry.id}:{entry.deliver_at}")
    broadcast = Broadcast(id=occurrence, type=entry.type, source=entry.source, data=entry.data, created_at=now)
    agent = entry.source.id if entry.source.type == "agent" else ""
    return Emission(broadcast=broadcast, crew=entry.crew, agent=agent, hops=entry.hops)


def after_dispatch(entry: DelayedBroadcast, now: int) -> DelayedBroadcast | None:
    """The entry that stays in the queue: the next time of a schedule, after this one and after now."""
    if entry.schedule is None:
        return None
    then = next_after(entry.schedule, max(now, entry.deliver_at), entry.deliver_at)
    return msgspec.structs.replace(entry, deliver_at=then, updated_at=now, attempts=0, try_at=0)


def after_failure(entry: DelayedBroadcast, now: int) -> DelayedBroadcast | None:
    """The entry for the next try, or None if it was tried often enough."""
    if entry.attempts >= len(DELIVERY_PAUSES_MS):
        return None
    pause = DELIVERY_PAUSES_MS[entry.attempts]
    return msgspec.structs.replace(entry, attempts=entry.attempts + 1, try_at=now + pause, updated_at=now)


def after_clock_change(entry: DelayedBroadcast, now: int) -> DelayedBroadcast | None:
    """The corrected entry, if a clock that was ahead has moved or delayed it; None if it needs no correction."""
    if entry.updated_at == entry.created_at:
        return None
    then = entry.deliver_at
    if entry.schedule is not None:  # a signal that already went out has the same id, so it goes out once
        then = min(then, next_after(entry.schedule, now, then))
    return msgspec.structs.replace(entry, deliver_at=then, try_at=0, updated_at=now)


def dead_letter_of(entry: DelayedBroadcast, reason: str, now: int) -> BroadcastDeadLetter:
    broadcast = emission_of(entry, now).broadcast
    tries = entry.attempts + 1
    return BroadcastDeadLetter(
        id=broadcast.id, broadcast=broadcast, reason=reason, at=now, attempts=tries, from_crew=entry.crew
    )


def view_of(entry: DelayedBroadcast) -> dict[str, Any]:
    """The entry as people and programs see it, and as `delayed.json` contains it."""
    body: dict[str, Any] = msgspec.to_builtins(entry)
    body["attempts"] = entry.attempts
    for inner in ("tryAt", "crew", "hops"):
        body.pop(inner, None)
    if body.get("repeatKey", "") is None:
        del body["repeatKey"]
    return body
