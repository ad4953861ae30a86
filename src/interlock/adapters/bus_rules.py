"""What happens to broadcasts in a store. Pure rules over tables, the same for every store.

Rule 1: a broadcast is kept once, whoever asks again; only when it is new it is put before those who hear it.
Rule 2: a silent one goes into an inbox, another one into the queue of deliveries; an inbox that is full loses its
oldest to the dead letters, never to nobody.
Rule 3: what is beyond a bound of storms is kept, reaches nobody, and is a dead letter.
Rule 4: an agent wakes when the first of its turns begins anywhere, and sleeps when the last one has ended.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from interlock.broadcast.delayed import Dead, Delayed, after_dispatch, after_failure, buried, emission_of, planned_anew
from interlock.broadcast.lifecycle import Lifecycle, broadcasts_of
from interlock.broadcast.naming import sleep_type, wake_type
from interlock.broadcast.record import SYSTEM, Broadcast, Emission, Heard
from interlock.broadcast.storms import Allowances, why, withheld
from interlock.broadcast.subscriptions import Hearer, Subscribed
from interlock.errors import AlreadyHeard, BadBroadcast, NoSuchSignal, UsageError
from interlock.limits import DELIVERY_PAUSES_MS, INBOX_MAX, INBOX_TAKEN_MAX, SUBSCRIPTIONS_PER_AGENT_MAX
from interlock.ports import NOTHING_ANNOUNCED, Activity, Alongside, Announced, Delivery, Pruned, Taking

# Broadcasts looked at in one transaction, which others wait for.
PRUNED_AT_ONCE = 1_000

KEPT_QUIETLY = Announced(news=True)

INBOX_FULL = "too many are waiting for this agent, and newer ones came"


class Aged(NamedTuple):
    """How many broadcasts are kept as one, their last position, and when they were made; None if that is damaged."""

    position: int
    broadcasts: int
    created_at: int | None


class Tables(Allowances, Protocol):
    """Where a store keeps what the rules are about."""

    def keep(self, broadcast: Broadcast, hops: int) -> int | None:
        """Its position; None if one with this id is kept already."""
        ...

    def position_of(self, id: str) -> int | None: ...  # noqa: A002

    def head(self) -> int:
        """The position of the newest; 0 if there is none."""
        ...

    def keep_quietly(self, lifecycle: Lifecycle) -> None:
        """What nobody hears, as one thing."""
        ...

    def kept_quietly(self, ids: Sequence[str]) -> Set[str]:
        """Those of the ids that are kept so."""
        ...

    def page(self, after: int, limit: int) -> Sequence[Aged]:
        """What is kept after a position."""
        ...

    def awaited(self, first: int, last: int) -> Set[int]:
        """Those positions, from one to another, that somebody is still to hear."""
        ...

    def forget(self, positions: Iterable[int]) -> None: ...

    def has_hearers(self) -> bool:
        """Whether anybody hears anything."""
        ...

    def hearers(self, kind: str, crew: str, agent: str) -> tuple[Hearer, ...]: ...

    def put(self, crew: str, agent: str, position: int) -> int:
        """Into the inbox; how many are unread then."""
        ...

    def oldest_unread(self, crew: str, agent: str) -> Heard | None:
        """Taken out of the inbox."""
        ...

    def mark(self, crew: str, agent: str, key: str, limit: int) -> None:
        """The oldest unread are taken under the key."""
        ...

    def marked(self, key: str) -> tuple[Heard, ...]: ...

    def strike(self, key: str) -> None: ...

    def unmark(self, key: str) -> None:
        """What was taken under the key is unread again."""
        ...

    def queue(self, crew: str, agent: str, position: int) -> int:
        """To be delivered; how many are, to this agent."""
        ...

    def oldest_queued(self, crew: str, agent: str) -> Delivery | None: ...

    def delivery(self, number: int) -> Delivery | None: ...

    def drop_delivery(self, number: int) -> None: ...

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None: ...

    def retry_at_once(self, after: int) -> None:
        """Deliveries that are to be tried after a time, which is too far off."""
        ...

    def activate(self, crew: str, agent: str, run: str) -> bool:
        """Whether it was not active in this run before."""
        ...

    def deactivate(self, crew: str, agent: str, run: str) -> bool: ...

    def is_active_elsewhere(self, crew: str, agent: str, run: str) -> bool: ...

    def subscribed(self, crew: str, agent: str | None = None) -> Sequence[Subscribed]:
        """Of the crew, or of one agent of it."""
        ...

    def put_subscription(self, subscribed: Subscribed) -> None: ...

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool: ...

    def set_crew(self, crew: str, sha: str) -> None: ...

    def entry(self, id: str) -> Delayed | None: ...  # noqa: A002

    def entry_of(self, kind: str, repeat_key: str) -> Delayed | None: ...

    def put_entry(self, entry: Delayed) -> None: ...

    def drop_entry(self, id: str) -> None: ...  # noqa: A002

    def entries_ahead(self, now: int) -> Sequence[Delayed]:
        """Those that are not due yet, and were changed after now."""
        ...

    def bury(self, dead: Dead) -> None: ...

    def dead_under(self, id: str) -> Sequence[Dead]: ...  # noqa: A002

    def dig_up(self, id: str) -> None: ...  # noqa: A002


def announce(tables: Tables, emissions: Iterable[Emission]) -> Announced:
    reached: list[Hearer] = []
    held_back: list[tuple[Broadcast, str]] = []
    news = False
    for emission in emissions:
        position = tables.keep(emission.broadcast, emission.hops)
        if position is None:
            continue
        news = True
        hearers = _hearers(tables, emission)
        reason = _withheld(tables, emission) if hearers else ""
        if reason:
            tables.bury(_withheld_letter(emission, reason))
            held_back.append((emission.broadcast, reason))
        else:
            _put_before(tables, hearers, position, emission.broadcast.created_at)
            reached += hearers
    return Announced(reached=tuple(reached), withheld=tuple(held_back), news=news)


def restore(tables: Tables, broadcasts: Sequence[Broadcast]) -> int:
    known = tables.kept_quietly([each.id for each in broadcasts if each.source == SYSTEM])
    return sum(each.id not in known and tables.keep(each, 0) is not None for each in broadcasts)


def prune(tables: Tables, before: int, after: int) -> Pruned:
    """The newest stays, so that no position is given again; what is damaged stays for the doctor.

    Positions are in the order of time but for what was taken in from elsewhere, so a page without anything old enough
    is the end.
    """
    page = tables.page(after, PRUNED_AT_ONCE)
    if not page:
        return Pruned(gone=0, further=None)
    first, last = page[0].position, page[-1].position
    stay = {*tables.awaited(first, last), tables.head()}
    old = [each for each in page if each.created_at is not None and each.created_at < before]
    gone = [each for each in old if each.position not in stay]
    tables.forget([each.position for each in gone])
    return Pruned(gone=sum(each.broadcasts for each in gone), further=last if old else None)


def _hearers(tables: Tables, emission: Emission) -> tuple[Hearer, ...]:
    hearers = tables.hearers(emission.broadcast.type, emission.crew, emission.agent)
    if not emission.told:
        return hearers
    return tuple(each for each in hearers if each.crew != emission.crew or each.agent not in emission.told)


def _withheld(tables: Tables, emission: Emission) -> str:
    """What an agent says and what is said of it are counted apart."""
    is_own = emission.broadcast.source.type == "agent"
    who = emission.agent if is_own or not emission.agent else f"{emission.agent}:"
    at = emission.broadcast.created_at
    return withheld(tables, crew=emission.crew, agent=who, hops=emission.hops, at=at)


def _withheld_letter(emission: Emission, reason: str) -> Dead:
    broadcast, at = emission.broadcast, emission.broadcast.created_at
    return Dead(id=broadcast.id, broadcast=broadcast, reason=why(reason), at=at, from_crew=emission.crew)


def _put_before(tables: Tables, hearers: Iterable[Hearer], position: int, at: int) -> None:
    for hearer in hearers:
        keep = tables.put if hearer.silent else tables.queue
        if keep(hearer.crew, hearer.agent, position) > INBOX_MAX:
            _evict(tables, hearer, at)


def _evict(tables: Tables, hearer: Hearer, at: int) -> None:
    oldest = tables.oldest_unread(hearer.crew, hearer.agent) if hearer.silent else _oldest_queued(tables, hearer)
    if oldest is not None:
        letter = oldest.broadcast
        tables.bury(
            Dead(
                id=letter.id,
                broadcast=letter,
                reason=INBOX_FULL,
                at=at,
                for_crew=hearer.crew,
                for_agent=hearer.agent,
                silent=hearer.silent,
            )
        )


def _oldest_queued(tables: Tables, hearer: Hearer) -> Heard | None:
    oldest = tables.oldest_queued(hearer.crew, hearer.agent)
    if oldest is None:
        return None
    tables.drop_delivery(oldest.number)
    return oldest.heard


def both(one: Announced, other: Announced) -> Announced:
    if not other.news:
        return one
    return Announced(reached=one.reached + other.reached, withheld=one.withheld + other.withheld, news=True)


def carry_out_on_bus(tables: Tables, also: Alongside) -> tuple[tuple[tuple[Heard, ...], ...], Announced]:
    """What goes with a record: answers of takings, and whom it reached."""
    for number, name in also.heard:
        if _is_queued(tables, number, name):
            tables.drop_delivery(number)
    for key in also.taken:
        tables.strike(key)
    for key in also.put_back:
        tables.unmark(key)
    for crew, agent, name in also.handed_back:
        if (position := tables.position_of(name)) is not None:
            tables.queue(crew, agent, position)
    mail = tuple([take(tables, taking) for taking in also.taking])
    announced = announce(tables, also.broadcasts) if also.broadcasts else NOTHING_ANNOUNCED
    return mail, both(announced, rouse(tables, also.activity)) if also.activity is not None else announced


def require_queued(tables: Tables, run: str, also: Alongside) -> None:
    """`AlreadyHeard` if another run has taken in what a new one is to begin with."""
    for number, name in also.heard:
        if not _is_queued(tables, number, name):
            raise AlreadyHeard(run, name)


def _is_queued(tables: Tables, number: int, name: str) -> bool:
    """Numbers are given again, so that the broadcast must be the same too."""
    delivery = tables.delivery(number)
    return delivery is not None and delivery.heard.broadcast.id == name


# Waking and sleeping


def rouse(tables: Tables, activity: Activity) -> Announced:
    """What follows from turns that end and begin, unless others are under way, or it was known."""
    slept = _turned(tables, tables.deactivate, activity, activity.ended)
    woken = _turned(tables, tables.activate, activity, activity.begun)
    if not any(slept) and not any(woken):
        return NOTHING_ANNOUNCED
    lifecycle = Lifecycle(activity.name, activity.place, activity.at, slept, woken)
    if tables.has_hearers() and _is_heard(tables, activity.crew, lifecycle):
        return announce(tables, _emissions(activity, lifecycle))
    tables.keep_quietly(lifecycle)
    return KEPT_QUIETLY


def _turned(
    tables: Tables, change: Callable[[str, str, str], bool], activity: Activity, agents: tuple[tuple[str, int], ...]
) -> tuple[str, ...]:
    """The agents, with "" in place of those for whom nothing has changed."""
    crew, run = activity.crew, activity.run
    elsewhere = tables.is_active_elsewhere
    return tuple([agent if change(crew, agent, run) and not elsewhere(crew, agent, run) else "" for agent, _ in agents])


def _is_heard(tables: Tables, crew: str, lifecycle: Lifecycle) -> bool:
    asleep = [agent and tables.hearers(sleep_type(agent), crew, agent) for agent in lifecycle.slept]
    awake = [agent and tables.hearers(wake_type(agent), crew, agent) for agent in lifecycle.woken]
    return any(asleep) or any(awake)


def _emissions(activity: Activity, lifecycle: Lifecycle) -> list[Emission]:
    changes = zip((*activity.ended, *activity.begun), (*lifecycle.slept, *lifecycle.woken), strict=True)
    about = [(agent, hops) for (agent, hops), turned in changes if turned]
    return [
        Emission(broadcast=broadcast, crew=activity.crew, agent=agent, hops=hops)
        for broadcast, (agent, hops) in zip(broadcasts_of(lifecycle), about, strict=True)
    ]


# Inboxes and deliveries


def take(tables: Tables, taking: Taking) -> tuple[Heard, ...]:
    before = tables.marked(taking.key)
    if not before:
        tables.mark(taking.crew, taking.agent, taking.key, INBOX_TAKEN_MAX)
    return before or tables.marked(taking.key)


def delivery_failed(tables: Tables, number: int, reason: str, now: int) -> Dead | None:
    delivery = tables.delivery(number)
    if delivery is None:
        return None
    if delivery.attempts < len(DELIVERY_PAUSES_MS):
        tables.retry_delivery(number, delivery.attempts + 1, now + DELIVERY_PAUSES_MS[delivery.attempts])
        return None
    broadcast = delivery.heard.broadcast
    letter = Dead(
        id=broadcast.id,
        broadcast=broadcast,
        reason=reason,
        at=now,
        attempts=delivery.attempts + 1,
        for_crew=delivery.crew,
        for_agent=delivery.agent,
    )
    tables.bury(letter)
    tables.drop_delivery(number)
    return letter


def revive(tables: Tables, id: str) -> int:  # noqa: A002 - ids are called id everywhere
    letters = tables.dead_under(id)
    if not letters:
        raise NoSuchSignal(f"there is no dead letter '{id}'; 'interlock broadcast dead' lists those there are")
    for letter in letters:
        position = tables.position_of(letter.broadcast.id)
        if position is None:
            position = tables.keep(letter.broadcast, 0)
        assert position is not None, "it is kept, or it was just now"
        _put_before(tables, _hearers_of_letter(tables, letter), position, letter.at)
    tables.dig_up(id)
    return len(letters)


def _hearers_of_letter(tables: Tables, letter: Dead) -> tuple[Hearer, ...]:
    """The one that it was for, or all if it reached nobody."""
    if letter.for_agent:
        return (Hearer(letter.for_crew, letter.for_agent, letter.silent),)
    own = letter.broadcast.source
    return tables.hearers(letter.broadcast.type, letter.from_crew, own.id if own.type == "agent" else "")


# Subscriptions


def subscribe(tables: Tables, subscribed: Subscribed) -> None:
    known = {each.pattern: each for each in tables.subscribed(subscribed.crew, subscribed.agent)}
    if subscribed.pattern not in known and len(known) >= SUBSCRIPTIONS_PER_AGENT_MAX:
        raise UsageError(
            f"agent '{subscribed.agent}' of crew '{subscribed.crew}' has {len(known)} subscriptions already, and may"
            " have no more; use a pattern with '*', or unsubscribe from some"
        )
    before = known.get(subscribed.pattern)
    if before is not None and before.origin == "file":  # it stays the file's, and goes with it
        subscribed = msgspec.structs.replace(subscribed, origin="file")
    if before != subscribed:
        tables.put_subscription(subscribed)


def declare(tables: Tables, crew: str, sha: str, subscriptions: Sequence[Subscribed]) -> None:
    wanted = {(each.agent, each.pattern): each for each in subscriptions}
    for old in tables.subscribed(crew):
        if old.origin == "file" and (old.agent, old.pattern) not in wanted:
            tables.drop_subscription(crew, old.agent, old.pattern)
        elif wanted.get((old.agent, old.pattern)) == old:
            del wanted[old.agent, old.pattern]
    for new in wanted.values():
        tables.put_subscription(new)
    tables.set_crew(crew, sha)


# Signals for later


def schedule(tables: Tables, entry: Delayed) -> Delayed | None:
    """What is scheduled again under the same id, because an answer was lost, is there already."""
    if tables.entry(entry.id) is not None:
        return None
    old = tables.entry_of(entry.type, entry.repeat_key) if entry.repeat_key is not None else None
    if old is not None:
        tables.drop_entry(old.id)
    tables.put_entry(entry)
    return old


def cancel(tables: Tables, id: str, kind: str, repeat_key: str) -> Delayed | None:  # noqa: A002
    found = tables.entry(id) if id else tables.entry_of(kind, repeat_key)
    if found is not None:
        tables.drop_entry(found.id)
    return found


def dispatch(tables: Tables, entries: Iterable[Delayed], now: int) -> Announced:
    """Only what is in the queue as it was seen: what was replaced or cancelled meanwhile stays as it is now."""
    due = [(entry, after_dispatch(entry, now)) for entry in entries if tables.entry(entry.id) == entry]
    announced = announce(tables, [emission_of(entry, now) for entry, _ in due])
    for entry, later in due:
        _move_on(tables, entry, later)
    return announced


def clock_was_set(tables: Tables, now: int) -> None:
    """What a clock that was ahead has put off is planned anew; what cannot be stays as it is."""
    for entry in tables.entries_ahead(now):
        with suppress(BadBroadcast):
            if (again := planned_anew(entry, now)) is not None:
                tables.put_entry(again)
    tables.retry_at_once(now + max(DELIVERY_PAUSES_MS))


def _move_on(tables: Tables, entry: Delayed, later: Delayed | None) -> None:
    if later is None:
        tables.drop_entry(entry.id)
    else:
        tables.put_entry(later)


def dispatch_failed(tables: Tables, entry: Delayed, reason: str, now: int) -> Dead | None:
    if tables.entry(entry.id) != entry:
        return None
    again = after_failure(entry, now)
    if again is not None:
        tables.put_entry(again)
        return None
    letter = buried(entry, reason, now)
    tables.bury(letter)
    _move_on(tables, entry, _later_if_any(entry, now))
    return letter


def _later_if_any(entry: Delayed, now: int) -> Delayed | None:
    """A schedule whose next time nobody can tell, as its time zone is unknown by now, ends with the letter."""
    try:
        return after_dispatch(entry, now)
    except BadBroadcast:
        return None
