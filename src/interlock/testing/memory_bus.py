"""A `Bus` in memory, for tests: the same rules as on disk, over dictionaries."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence, Set
from itertools import islice
from typing import TypeVar

import msgspec

from interlock.adapters import bus_rules
from interlock.adapters.bus_rules import Aged
from interlock.broadcast.delayed import Dead, Delayed, in_order
from interlock.broadcast.lifecycle import Lifecycle, broadcasts_of
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast, Emission, Heard, decoded, encoded
from interlock.broadcast.subscriptions import Directory, Hearer, Subscribed
from interlock.limits import DEAD_LETTERS_MAX, PAGE_BYTES_MAX
from interlock.ports import Activity, Announced, Delivery, Pruned, Taking

T = TypeVar("T")


class _Letter(msgspec.Struct, kw_only=True):
    """Something in an inbox."""

    crew: str
    agent: str
    position: int
    taken: str = ""


class MemoryTables:
    """`bus_rules.Tables` in memory. Broadcasts are kept as the bytes that a real store would write."""

    def __init__(self) -> None:
        self.broadcasts: dict[int, tuple[bytes, int]] = {}
        self.lifecycle: dict[int, Lifecycle] = {}
        self.newest = 0
        self.positions: dict[str, int] = {}
        self.directory = Directory()
        self.crews: dict[str, str] = {}
        self.inbox: dict[tuple[str, str, int], _Letter] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.try_at: dict[int, int] = {}
        self.queued = 0
        self.active: dict[tuple[str, str], set[str]] = {}  # the runs in which an agent is at work
        self.announced: dict[tuple[str, str], tuple[int, int]] = {}
        self.delayed: dict[str, Delayed] = {}
        self.dead: dict[tuple[str, str, str], Dead] = {}
        self.watchers: list[tuple[MemoryBus, Callable[[], None]]] = []
        self.changes = 0  # by any process

    def heard(self, position: int) -> Heard:
        body, hops = self.broadcasts[position]
        return Heard(broadcast=decoded(body), hops=hops)

    def keep(self, broadcast: Broadcast, hops: int) -> int | None:
        if broadcast.id in self.positions:
            return None
        self.newest += 1
        self.broadcasts[self.newest] = (encoded(broadcast), hops)
        self.positions[broadcast.id] = self.newest
        return self.newest

    def keep_quietly(self, lifecycle: Lifecycle) -> None:
        self.newest += lifecycle.count
        self.lifecycle[self.newest] = lifecycle

    def kept_quietly(self, ids: Sequence[str]) -> Set[str]:
        return {each.id for lifecycle in self.lifecycle.values() for each in broadcasts_of(lifecycle)}.intersection(ids)

    def head(self) -> int:
        return self.newest

    def since(self, after: int) -> Iterator[list[tuple[int, Broadcast]]]:
        """What is kept after a position; in lists of what is kept as one."""
        for position in sorted({**self.broadcasts, **self.lifecycle}):
            if position > after:
                together = (
                    broadcasts_of(self.lifecycle[position])
                    if position in self.lifecycle
                    else [self.heard(position).broadcast]
                )
                yield list(enumerate(together, position - len(together) + 1))

    def page(self, after: int, limit: int) -> Sequence[Aged]:
        return [Aged(each[-1][0], len(each), each[0][1].created_at) for each in islice(self.since(after), limit)]

    def awaited(self, first: int, last: int) -> Set[int]:
        queued = {self.positions[each.heard.broadcast.id] for each in self.deliveries.values()}
        return {each for each in {*queued, *(place[2] for place in self.inbox)} if first <= each <= last}

    def forget(self, positions: Iterable[int]) -> None:
        for position in positions:
            if self.lifecycle.pop(position, None) is None:
                body, _ = self.broadcasts.pop(position)
                del self.positions[decoded(body).id]

    def position_of(self, id: str) -> int | None:  # noqa: A002 - ids are called id everywhere
        return self.positions.get(id)

    def has_hearers(self) -> bool:
        return len(self.directory) > 0

    def hearers(self, kind: str, crew: str, agent: str) -> tuple[Hearer, ...]:
        return self.directory.hearers(kind, crew=crew, agent=agent)

    def _unread(self, crew: str, agent: str) -> list[_Letter]:
        own = [each for each in self.inbox.values() if (each.crew, each.agent) == (crew, agent) and not each.taken]
        return sorted(own, key=lambda each: each.position)

    def put(self, crew: str, agent: str, position: int) -> int:
        self.inbox.setdefault((crew, agent, position), _Letter(crew=crew, agent=agent, position=position))
        return len(self._unread(crew, agent))

    def oldest_unread(self, crew: str, agent: str) -> Heard | None:
        unread = self._unread(crew, agent)
        if not unread:
            return None
        del self.inbox[crew, agent, unread[0].position]
        return self.heard(unread[0].position)

    def mark(self, crew: str, agent: str, key: str, limit: int) -> None:
        for letter in self._unread(crew, agent)[:limit]:
            letter.taken = key

    def marked(self, key: str) -> tuple[Heard, ...]:
        return tuple(
            self.heard(position) for position in sorted(e.position for e in self.inbox.values() if e.taken == key)
        )

    def strike(self, key: str) -> None:
        self.inbox = {place: letter for place, letter in self.inbox.items() if letter.taken != key}

    def unmark(self, key: str) -> None:
        for letter in self.inbox.values():
            if letter.taken == key:
                letter.taken = ""

    def queue(self, crew: str, agent: str, position: int) -> int:
        heard = self.heard(position)
        own = [each for each in self.deliveries.values() if (each.crew, each.agent) == (crew, agent)]
        if any(each.heard == heard for each in own):
            return len(own)
        self.queued += 1
        self.deliveries[self.queued] = Delivery(number=self.queued, crew=crew, agent=agent, heard=heard)
        self.try_at[self.queued] = 0
        return len(own) + 1

    def oldest_queued(self, crew: str, agent: str) -> Delivery | None:
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

    def retry_at_once(self, after: int) -> None:
        self.try_at = {number: 0 if at > after else at for number, at in self.try_at.items()}

    def activate(self, crew: str, agent: str, run: str) -> bool:
        runs = self.active.setdefault((crew, agent), set())
        is_new = run not in runs
        runs.add(run)
        return is_new

    def deactivate(self, crew: str, agent: str, run: str) -> bool:
        runs = self.active.get((crew, agent), set())
        was_there = run in runs
        runs.discard(run)
        return was_there

    def is_active_elsewhere(self, crew: str, agent: str, run: str) -> bool:
        runs = self.active.get((crew, agent), ())
        return len(runs) > (run in runs)

    def counted(self, crew: str, agent: str) -> tuple[int, int]:
        return self.announced.get((crew, agent), (0, 0))

    def count(self, crew: str, agent: str, start: int, number: int) -> None:
        self.announced[crew, agent] = (start, number)

    def subscribed(self, crew: str, agent: str | None = None) -> Sequence[Subscribed]:
        return [each for each in self.directory.all() if each.crew == crew and agent in (None, each.agent)]

    def put_subscription(self, subscribed: Subscribed) -> None:
        self.directory.add(subscribed)

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool:
        return self.directory.remove((crew, agent, pattern))

    def set_crew(self, crew: str, sha: str) -> None:
        self.crews[crew] = sha

    def entry(self, id: str) -> Delayed | None:  # noqa: A002
        return self.delayed.get(id)

    def entry_of(self, kind: str, repeat_key: str) -> Delayed | None:
        wanted = (kind, repeat_key)
        return next((each for each in self.delayed.values() if (each.type, each.repeat_key) == wanted), None)

    def put_entry(self, entry: Delayed) -> None:
        self.delayed[entry.id] = entry

    def entries_ahead(self, now: int) -> Sequence[Delayed]:
        return [each for each in self.delayed.values() if each.due_at > now and each.updated_at > now]

    def drop_entry(self, id: str) -> None:  # noqa: A002
        self.delayed.pop(id, None)

    def bury(self, dead: Dead) -> None:
        self.dead.pop((dead.id, dead.for_crew, dead.for_agent), None)
        self.dead[dead.id, dead.for_crew, dead.for_agent] = dead
        if len(self.dead) > DEAD_LETTERS_MAX:
            del self.dead[next(iter(self.dead))]

    def dead_under(self, id: str) -> Sequence[Dead]:  # noqa: A002
        return [each for each in self.dead.values() if each.id == id]

    def dig_up(self, id: str) -> None:  # noqa: A002
        self.dead = {place: each for place, each in self.dead.items() if each.id != id}


class MemoryBus:
    """`Bus` beside a `MemoryStore`; the check says whether that is still open."""

    def __init__(self, tables: MemoryTables, require_open: Callable[[], None]) -> None:
        self.tables, self._require_open = tables, require_open

    @property
    def _tables(self) -> MemoryTables:
        self._require_open()
        return self.tables

    def version(self) -> int | None:
        return self.tables.changes

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        watching = (self, changed)
        self.tables.watchers.append(watching)
        return lambda: self.tables.watchers.remove(watching)

    def changed(self) -> None:
        """Other processes hear of it."""
        self.tables.changes += 1
        for bus, call in list(self.tables.watchers):
            if bus is not self:
                call()

    async def emit(self, emission: Emission) -> Announced:
        done = bus_rules.announce(self._tables, (emission,))
        self.changed()
        return done

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        return bus_rules.restore(self._tables, broadcasts)

    async def work(self, activity: Activity) -> Announced:
        done = bus_rules.rouse(self._tables, activity)
        self.changed()
        return done

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        assert limit > 0, "callers bound their pages"
        kept = [each for together in self._tables.since(0) for _, each in together]
        return [each for each in kept if pattern is None or matches(pattern, each.type)][-limit:]

    async def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        for page in _paged(await self.newest(limit, pattern)):
            yield page

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        kept = (each for together in self._tables.since(position) for each in together if each[0] > position)
        return next(_paged(islice(kept, limit)), [])

    async def head(self) -> int:
        return self._tables.head()

    async def prune(self, before: int, after: int = 0) -> Pruned:
        return bus_rules.prune(self._tables, before, after)

    async def subscribe(self, subscribed: Subscribed) -> None:
        bus_rules.subscribe(self._tables, subscribed)

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        return self._tables.drop_subscription(crew, agent, pattern)

    async def declare(self, crew: str, sha: str, subscriptions: Sequence[Subscribed]) -> None:
        bus_rules.declare(self._tables, crew, sha, subscriptions)

    async def crew_sha(self, crew: str) -> str:
        return self._tables.crews.get(crew, "")

    async def subscriptions(self) -> Sequence[Subscribed]:
        return self._tables.directory.all()

    async def schedule(self, entry: Delayed) -> Delayed | None:
        done = bus_rules.schedule(self._tables, entry)
        self.changed()
        return done

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> Delayed | None:  # noqa: A002
        return bus_rules.cancel(self._tables, id, type, repeat_key)

    async def delayed(self, limit: int | None = None) -> Sequence[Delayed]:
        return sorted(self._tables.delayed.values(), key=in_order)[:limit]

    async def delayed_pages(self, limit: int) -> AsyncIterator[Sequence[Delayed]]:
        entries = sorted(self._tables.delayed.values(), key=lambda each: (each.due_at, each.type, each.id))
        for page in _paged(entries[:limit]):
            yield page

    async def due(self, now: int, limit: int) -> Sequence[Delayed]:
        due = [each for each in self._tables.delayed.values() if each.due_at <= now]
        return sorted(sorted(due, key=lambda each: each.due_at)[:limit], key=in_order)

    async def next_due(self, now: int) -> int | None:
        times = (*(each.due_at for each in self._tables.delayed.values()), *self._tables.try_at.values())
        return min((each for each in times if each > now), default=None)

    async def clock_was_set(self, now: int) -> None:
        bus_rules.clock_was_set(self._tables, now)

    async def dispatch(self, entries: Sequence[Delayed], now: int) -> Announced:
        done = bus_rules.dispatch(self._tables, entries, now)
        self.changed()
        return done

    async def dispatch_failed(self, entry: Delayed, reason: str, now: int) -> Dead | None:
        return bus_rules.dispatch_failed(self._tables, entry, reason, now)

    async def mail(self) -> Sequence[tuple[str, str]]:
        unread = (letter for letter in self._tables.inbox.values() if not letter.taken)
        return sorted({(letter.crew, letter.agent) for letter in unread})

    async def take(self, taking: Taking) -> tuple[Heard, ...]:
        return bus_rules.take(self._tables, taking)

    async def awaiting(self, now: int) -> Sequence[tuple[str, str]]:
        return sorted({(each.crew, each.agent) for each in self._ready(now)})

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        own = [each for each in self._ready(now) if (each.crew, each.agent) == (crew, agent)]
        return min(own, key=lambda each: self._tables.positions[each.heard.broadcast.id], default=None)

    def _ready(self, now: int) -> list[Delivery]:
        tables = self._tables
        return [each for each in tables.deliveries.values() if tables.try_at[each.number] <= now]

    async def delivery_failed(self, number: int, reason: str, now: int) -> Dead | None:
        return bus_rules.delivery_failed(self._tables, number, reason, now)

    async def dead(self, limit: int) -> Sequence[Dead]:
        return list(reversed(self._tables.dead.values()))[:limit]

    async def dead_pages(self, limit: int) -> AsyncIterator[Sequence[Dead]]:
        for page in _paged(await self.dead(limit)):
            yield page

    async def revive(self, id: str) -> int:  # noqa: A002
        done = bus_rules.revive(self._tables, id)
        self.changed()
        return done


def _paged(found: Iterable[T]) -> Iterator[list[T]]:
    """Pages that end once they have as many bytes as a page of a real store."""
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
