"""A `Bus` in memory, for tests: the same rules as on disk, over dictionaries.

Rule 1: while there are no subscribers, wake and sleep of records are derived on first use: most tests never need them.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import TypeVar

import msgspec

from interlock.adapters.store_rules import bus_rules, delayed_rules
from interlock.adapters.store_rules.bus_rules import ActiveAgents
from interlock.adapters.store_rules.bus_tables import BroadcastAge
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast, delivery_order
from interlock.broadcast.pattern import matches
from interlock.broadcast.presence import PresenceChange, broadcasts_of
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast, decode_broadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber, SubscriptionIndex
from interlock.limits import DEAD_LETTERS_MAX, PAGE_BYTES_MAX
from interlock.ports import Activity, BroadcastOutcome, Delivery, InboxClaim, PruneResult, Topic

T = TypeVar("T")


class _InboxEntry(msgspec.Struct, kw_only=True):
    """A broadcast in an inbox."""

    crew: str
    agent: str
    position: int
    taken: str = ""


class MemoryTables:
    """`BusTables` in memory. Broadcasts are stored as the bytes that a real store would write."""

    def __init__(self) -> None:
        self.broadcasts: dict[int, tuple[bytes, int]] = {}
        self.lifecycle: dict[int, PresenceChange] = {}
        self.newest = 0
        self.positions: dict[str, int] = {}
        self.directory = SubscriptionIndex()
        self.crews: dict[str, str] = {}
        self.inbox: dict[tuple[str, str, int], _InboxEntry] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.try_at: dict[int, int] = {}
        self.queued = 0
        self.active = ActiveAgents()
        self.change_presence = self.active.change
        self._told: list[Activity] = []  # the presence of records, not derived yet
        self.announced: dict[tuple[str, str], tuple[int, int]] = {}
        self.delayed: dict[str, DelayedBroadcast] = {}
        self.dead: dict[tuple[str, str, str], BroadcastDeadLetter] = {}
        self.watchers: list[tuple[MemoryBus, Callable[[], None]]] = []
        self.changes = 0  # by any process

    def note_presence(self, activity: Activity) -> BroadcastOutcome:
        """Records presence, now or when it is asked for."""
        if self.directory.by_key:
            return bus_rules.record_presence(self, activity)
        self._told.append(activity)
        return bus_rules.PRESENCE_ONLY

    def derive_presence(self) -> None:
        """Records all presence that was not asked for yet. It comes before anything else that is done with the bus."""
        told, self._told = self._told, []
        for activity in told:
            bus_rules.record_presence(self, activity)

    def at_position(self, position: int) -> ReceivedBroadcast:
        body, hops = self.broadcasts[position]
        return ReceivedBroadcast(broadcast=decode_broadcast(body), hops=hops)

    def append_broadcast(self, broadcast: Broadcast, hops: int) -> int | None:
        if broadcast.id in self.positions:
            return None
        self.newest += 1
        self.broadcasts[self.newest] = (encode_broadcast(broadcast), hops)
        self.positions[broadcast.id] = self.newest
        return self.newest

    def append_presence(self, lifecycle: PresenceChange) -> None:
        changed = lifecycle.slept + lifecycle.woken
        self.newest += len(changed) - changed.count("")
        self.lifecycle[self.newest] = lifecycle

    def presence_ids_among(self, ids: Sequence[str]) -> Set[str]:
        return {each.id for lifecycle in self.lifecycle.values() for each in broadcasts_of(lifecycle)}.intersection(ids)

    def newest_row(self) -> int:
        return self.newest

    def since(self, after: int) -> Iterator[list[tuple[int, Broadcast]]]:
        """The broadcasts after a position, one list per row."""
        for position in sorted({**self.broadcasts, **self.lifecycle}):
            if position > after:
                together = (
                    broadcasts_of(self.lifecycle[position])
                    if position in self.lifecycle
                    else [self.at_position(position).broadcast]
                )
                yield list(enumerate(together, position - len(together) + 1))

    def page(self, after: int, limit: int) -> Sequence[BroadcastAge]:
        return [
            BroadcastAge(each[-1][0], len(each), each[0][1].created_at) for each in islice(self.since(after), limit)
        ]

    def pending_positions(self, first: int, last: int) -> Set[int]:
        queued = {self.positions[each.heard.broadcast.id] for each in self.deliveries.values()}
        return {each for each in {*queued, *(place[2] for place in self.inbox)} if first <= each <= last}

    def delete_broadcasts(self, positions: Iterable[int]) -> None:
        for position in positions:
            if self.lifecycle.pop(position, None) is None:
                body, _ = self.broadcasts.pop(position)
                del self.positions[decode_broadcast(body).id]

    def position_of(self, id: str) -> int | None:  # noqa: A002 - ids are called id everywhere
        return self.positions.get(id)

    def has_subscribers(self) -> bool:
        return bool(self.directory.by_key)

    def subscribers_of(self, kind: str, crew: str, agent: str) -> tuple[Subscriber, ...]:
        return self.directory.subscribers_of(kind, crew=crew, agent=agent)

    def _inbox_entries(self, crew: str, agent: str) -> list[_InboxEntry]:
        own = [each for each in self.inbox.values() if (each.crew, each.agent) == (crew, agent) and not each.taken]
        return sorted(own, key=lambda each: each.position)

    def add_to_inbox(self, crew: str, agent: str, position: int) -> int:
        self.inbox.setdefault((crew, agent, position), _InboxEntry(crew=crew, agent=agent, position=position))
        return len(self._inbox_entries(crew, agent))

    def pop_oldest_unread(self, crew: str, agent: str) -> ReceivedBroadcast | None:
        unread = self._inbox_entries(crew, agent)
        if not unread:
            return None
        del self.inbox[crew, agent, unread[0].position]
        return self.at_position(unread[0].position)

    def claim(self, crew: str, agent: str, key: str, limit: int) -> None:
        for entry in self._inbox_entries(crew, agent)[:limit]:
            entry.taken = key

    def broadcasts_claimed_by(self, key: str) -> tuple[ReceivedBroadcast, ...]:
        return tuple(
            self.at_position(position) for position in sorted(e.position for e in self.inbox.values() if e.taken == key)
        )

    def ack(self, key: str) -> None:
        self.inbox = {place: entry for place, entry in self.inbox.items() if entry.taken != key}

    def unclaim(self, key: str) -> None:
        for entry in self.inbox.values():
            if entry.taken == key:
                entry.taken = ""

    def queue_delivery(self, crew: str, agent: str, position: int) -> int:
        received = self.at_position(position)
        own = [each for each in self.deliveries.values() if (each.crew, each.agent) == (crew, agent)]
        if any(each.heard == received for each in own):
            return len(own)
        self.queued += 1
        self.deliveries[self.queued] = Delivery(number=self.queued, crew=crew, agent=agent, heard=received)
        self.try_at[self.queued] = 0
        return len(own) + 1

    def oldest_delivery(self, crew: str, agent: str) -> Delivery | None:
        own = [each for each in self.deliveries.values() if (each.crew, each.agent) == (crew, agent)]
        return min(own, key=lambda each: self.positions[each.heard.broadcast.id], default=None)

    def delivery(self, number: int) -> Delivery | None:
        return self.deliveries.get(number)

    def drop_delivery(self, number: int) -> None:
        self.deliveries.pop(number, None)
        self.try_at.pop(number, None)

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None:
        self.deliveries[number] = msgspec.structs.replace(self.deliveries[number], attempts=attempts)
        self.try_at[number] = try_at

    def clear_retries_after(self, after: int) -> None:
        self.try_at = {number: 0 if at > after else at for number, at in self.try_at.items()}

    def announcement_count(self, crew: str, agent: str) -> tuple[int, int]:
        return self.announced.get((crew, agent), (0, 0))

    def set_announcement_count(self, crew: str, agent: str, start: int, number: int) -> None:
        self.announced[crew, agent] = (start, number)

    def subscriptions_of(self, crew: str, agent: str | None = None) -> Sequence[AgentSubscription]:
        return [each for each in self.directory.all() if each.crew == crew and agent in (None, each.agent)]

    def put_subscription(self, subscribed: AgentSubscription) -> None:
        self.directory.add(subscribed)

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool:
        return self.directory.remove((crew, agent, pattern))

    def set_crew_sha(self, crew: str, sha: str) -> None:
        self.crews[crew] = sha

    def entry(self, id: str) -> DelayedBroadcast | None:  # noqa: A002
        return self.delayed.get(id)

    def entry_by_repeat_key(self, kind: str, repeat_key: str) -> DelayedBroadcast | None:
        wanted = (kind, repeat_key)
        return next((each for each in self.delayed.values() if (each.type, each.repeat_key) == wanted), None)

    def put_entry(self, entry: DelayedBroadcast) -> None:
        self.delayed[entry.id] = entry

    def entries_ahead(self, now: int) -> Sequence[DelayedBroadcast]:
        return [each for each in self.delayed.values() if each.due_at > now and each.updated_at > now]

    def drop_entry(self, id: str) -> None:  # noqa: A002
        self.delayed.pop(id, None)

    def add_dead_letter(self, dead: BroadcastDeadLetter) -> None:
        self.dead.pop((dead.id, dead.for_crew, dead.for_agent), None)
        self.dead[dead.id, dead.for_crew, dead.for_agent] = dead
        if len(self.dead) > DEAD_LETTERS_MAX:
            del self.dead[next(iter(self.dead))]

    def dead_letters_of(self, id: str) -> Sequence[BroadcastDeadLetter]:  # noqa: A002
        return [each for each in self.dead.values() if each.id == id]

    def remove_dead_letter(self, id: str) -> None:  # noqa: A002
        self.dead = {place: each for place, each in self.dead.items() if each.id != id}


class MemoryBus:
    """`Bus` of a `MemoryStore`; `check` raises if that is closed."""

    def __init__(self, tables: MemoryTables, require_open: Callable[[], None]) -> None:
        self._stored, self._require_open = tables, require_open

    @property
    def tables(self) -> MemoryTables:
        self._stored.derive_presence()
        return self._stored

    @property
    def _tables(self) -> MemoryTables:
        self._require_open()
        return self.tables

    def version(self) -> int | None:
        return self._stored.changes

    @property
    def tells_claims(self) -> bool:
        return False

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        watching = (self, changed)
        self._stored.watchers.append(watching)
        return lambda: self._stored.watchers.remove(watching)

    def notify_change(self) -> None:
        """Calls the watchers of other processes."""
        self._stored.changes += 1
        for bus, call in list(self._stored.watchers):
            if bus is not self:
                call()

    async def emit(self, emission: Emission) -> BroadcastOutcome:
        done = bus_rules.announce(self._tables, (emission,))
        self.notify_change()
        return done

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        return bus_rules.restore(self._tables, broadcasts)

    async def record_presence(self, activity: Activity) -> BroadcastOutcome:
        done = bus_rules.record_presence(self._tables, activity)
        self.notify_change()
        return done

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        assert limit > 0, "callers bound their pages"
        kept = [each for together in self._tables.since(0) for _, each in together]
        return [each for each in kept if pattern is None or matches(pattern, each.type)][-limit:]

    async def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        for page in _pages_of(await self.newest(limit, pattern)):
            yield page

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        kept = (each for together in self._tables.since(position) for each in together if each[0] > position)
        return next(_pages_of(islice(kept, limit)), [])

    async def head(self) -> int:
        return self._tables.newest

    async def prune(self, before: int, after: int = 0) -> PruneResult:
        return bus_rules.prune(self._tables, before, after)

    async def subscribe(self, subscribed: AgentSubscription) -> None:
        bus_rules.subscribe(self._tables, subscribed)

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        return self._tables.drop_subscription(crew, agent, pattern)

    async def declare_subscriptions(self, crew: str, sha: str, subscriptions: Sequence[AgentSubscription]) -> None:
        bus_rules.declare_subscriptions(self._tables, crew, sha, subscriptions)

    async def crew_sha(self, crew: str) -> str:
        return self._tables.crews.get(crew, "")

    async def subscriptions(self) -> Sequence[AgentSubscription]:
        return self._tables.directory.all()

    async def schedule(self, entry: DelayedBroadcast) -> DelayedBroadcast | None:
        done = delayed_rules.schedule(self._tables, entry)
        self.notify_change()
        return done

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> DelayedBroadcast | None:  # noqa: A002
        return delayed_rules.cancel(self._tables, id, type, repeat_key)

    async def list_delayed(self, limit: int | None = None) -> Sequence[DelayedBroadcast]:
        return sorted(self._tables.delayed.values(), key=delivery_order)[:limit]

    async def pages_of_delayed(self, limit: int) -> AsyncIterator[Sequence[DelayedBroadcast]]:
        entries = sorted(self._tables.delayed.values(), key=lambda each: (each.due_at, each.type, each.id))
        for page in _pages_of(entries[:limit]):
            yield page

    async def due_broadcasts(self, now: int, limit: int) -> Sequence[DelayedBroadcast]:
        due = [each for each in self._tables.delayed.values() if each.due_at <= now]
        return sorted(sorted(due, key=lambda each: each.due_at)[:limit], key=delivery_order)

    async def next_due(self, now: int) -> int | None:
        times = (*(each.due_at for each in self._tables.delayed.values()), *self._tables.try_at.values())
        return min((each for each in times if each > now), default=None)

    async def replan_after_clock_change(self, now: int) -> None:
        delayed_rules.replan_after_clock_change(self._tables, now)

    async def dispatch(self, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        done = delayed_rules.dispatch(self._tables, entries, now)
        self.notify_change()
        return done

    async def record_dispatch_failure(
        self, entry: DelayedBroadcast, reason: str, now: int
    ) -> BroadcastDeadLetter | None:
        return delayed_rules.record_dispatch_failure(self._tables, entry, reason, now)

    async def agents_with_unread(self) -> Sequence[tuple[str, str]]:
        unread = (entry for entry in self._tables.inbox.values() if not entry.taken)
        return sorted({(entry.crew, entry.agent) for entry in unread})

    async def claim_inbox(self, claim: InboxClaim) -> tuple[ReceivedBroadcast, ...]:
        return bus_rules.claim_inbox(self._tables, claim)

    async def agents_with_deliveries(self, now: int) -> Sequence[tuple[str, str]]:
        return sorted({(each.crew, each.agent) for each in self._ready_deliveries(now)})

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        own = [each for each in self._ready_deliveries(now) if (each.crew, each.agent) == (crew, agent)]
        return min(own, key=lambda each: self._tables.positions[each.heard.broadcast.id], default=None)

    def _ready_deliveries(self, now: int) -> list[Delivery]:
        tables = self._tables
        return [each for each in tables.deliveries.values() if tables.try_at[each.number] <= now]

    async def record_delivery_failure(self, number: int, reason: str, now: int) -> BroadcastDeadLetter | None:
        return bus_rules.record_delivery_failure(self._tables, number, reason, now)

    async def dead_letters(self, limit: int) -> Sequence[BroadcastDeadLetter]:
        return list(reversed(self._tables.dead.values()))[:limit]

    async def dead_letter_pages(self, limit: int) -> AsyncIterator[Sequence[BroadcastDeadLetter]]:
        for page in _pages_of(await self.dead_letters(limit)):
            yield page

    async def retry_dead_letters(self, id: str) -> int:  # noqa: A002
        done = bus_rules.retry_dead_letters(self._tables, id)
        self.notify_change()
        return done


def _pages_of(found: Iterable[T]) -> Iterator[list[T]]:
    """Pages with as many bytes as those of a real store."""
    page: list[T] = []
    size = 0
    for each in found:
        page.append(each)
        size += len(msgspec.json.encode(each))
        if size >= PAGE_BYTES_MAX:
            yield page
            page, size = [], 0
    if page:
        yield page
