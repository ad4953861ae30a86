"""SQL that writes broadcasts, subscriptions, inboxes, deliveries and delayed broadcasts.

Rule: subscriptions are cached beside the writing connection, and read again when another process changed them.
"""

import sqlite3
from collections.abc import Iterable, Sequence, Set
from itertools import islice

from interlock.adapters.sqlite.bus.active_agents import SqliteActiveAgents
from interlock.adapters.sqlite.bus.announcements import (
    newest_row,
    newest_stored,
    presence_positions,
    rows_after,
)
from interlock.adapters.sqlite.bus.bus_cache import BusCache
from interlock.adapters.sqlite.bus.bus_queries import (
    SELECT_DEAD_LETTER,
    SELECT_ENTRY,
    SELECT_INBOX,
    broadcasts_received,
    decode_dead_letter,
    deliveries,
    encode_json,
    entry_from_row,
    subscriptions,
)
from interlock.adapters.sqlite.bus.change_counts import increment_change_count
from interlock.adapters.sqlite.bus.record_presence import SELECT_AT, read_presence
from interlock.adapters.sqlite.runs.places import newest_position, positions_after
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.store_rules import bus_rules
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.adapters.store_rules.bus_tables import AgentsWithHops, BroadcastAge
from interlock.adapters.store_rules.positions import before_others, end_of_derived, record_at
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.presence import PresenceChange, broadcasts_of, encode_presence
from interlock.broadcast.record import Broadcast, ReceivedBroadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.limits import DEAD_LETTERS_MAX
from interlock.ports import Activity, BroadcastOutcome, Delivery


class SqliteBusTables:
    """`BusTables` on a connection that is in a transaction."""

    def __init__(self, connection: sqlite3.Connection, cache: BusCache) -> None:
        self._connection, self._cache = connection, cache
        self._execute = connection.execute
        # Broadcasts are stored after this position; None if it is not known yet.
        self._floor: int | None = None

    # Broadcasts

    def append_broadcast(self, broadcast: Broadcast, hops: int) -> int | None:
        body, position = encode_broadcast(broadcast), self._last_position() + 1
        done = self._execute(
            "insert or ignore into broadcasts (position, id, hops, crc, body) values (?, ?, ?, ?, ?)",
            (position, broadcast.id, hops, crc_as_int32(body, position), body),
        )
        if done.rowcount != 1:
            return None
        self._cache.head = position
        return position

    def position_of(self, id: str) -> int | None:  # noqa: A002 - ids are called id everywhere
        found = self._execute("select position from broadcasts where id = ?", (id,)).fetchone()
        return int(found[0]) if found is not None else None

    def place_after(self, position: int) -> None:
        """Sets where broadcasts are stored: after a position, and after all that are stored."""
        self._floor = position

    def _last_position(self) -> int:
        if self._floor is None:
            self._floor = before_others(newest_position(self._connection))
        if self._cache.head is None:
            self._cache.head = newest_stored(self._connection)
        return max(self._cache.head, self._floor)

    def newest_row(self) -> int:
        return newest_row(self._connection)

    def append_presence(self, lifecycle: PresenceChange) -> None:
        count = len(broadcasts_of(lifecycle))
        self.put_presence(lifecycle, self._last_position() + count)

    def put_presence(self, lifecycle: PresenceChange, position: int) -> None:
        """Stores presence changes at the position of their last one."""
        body = encode_presence(lifecycle)
        self._execute(
            "insert into lifecycle (position, crc, body) values (?, ?, ?)",
            (position, crc_as_int32(body, position), body),
        )
        if self._cache.head is not None:
            self._cache.head = max(position, self._cache.head)

    def presence_ids_among(self, ids: Sequence[str]) -> Set[str]:
        return presence_positions(self._connection, ids).keys()

    def page(self, after: int, limit: int) -> Sequence[BroadcastAge]:
        return [row.age for row in islice(rows_after(self._connection, after), limit)]

    def pending_positions(self, first: int, last: int) -> Set[int]:
        tables = ("select broadcast from inbox", "select broadcast from deliveries")
        query = " union ".join(f"{each} where broadcast between ? and ?" for each in tables)
        return {position for (position,) in self._execute(query, (first, last) * 2)}

    def delete_broadcasts(self, positions: Iterable[int]) -> None:
        records = [(record_at(each),) for each in positions if end_of_derived(record_at(each)) == each]
        if records:
            self.active.release_records(self._connection)
            self._connection.executemany("update records set presence = null where position = ?", records)
        for table in ("broadcasts", "lifecycle"):
            query = f"delete from {table} where position = ?"  # noqa: S608 - constants
            self._connection.executemany(query, [(each,) for each in positions])

    def has_subscribers(self) -> bool:
        return bool(self._cache.directory(self._connection).by_key)

    def subscribers_of(self, kind: str, crew: str, agent: str) -> tuple[Subscriber, ...]:
        return self._cache.directory(self._connection).subscribers_of(kind, crew=crew, agent=agent)

    # Inboxes

    def add_to_inbox(self, crew: str, agent: str, position: int) -> int:
        done = self._execute(
            "insert or ignore into inbox (crew, agent, broadcast, taken) values (?, ?, ?, '')", (crew, agent, position)
        )
        return self._add_unread(crew, agent, done.rowcount)

    def _add_unread(self, crew: str, agent: str, more: int) -> int:
        found = self._execute(
            "insert into mailboxes (crew, agent, unread) values (?, ?, ?)"
            " on conflict do update set unread = unread + excluded.unread returning unread",
            (crew, agent, more),
        ).fetchone()
        return int(found[0])

    def pop_oldest_unread(self, crew: str, agent: str) -> ReceivedBroadcast | None:
        found = self._execute(
            f"{SELECT_INBOX} and crew = ? and agent = ? and taken = '' order by inbox.broadcast limit 1", (crew, agent)
        ).fetchone()
        if found is None:
            return None
        self._execute("delete from inbox where crew = ? and agent = ? and broadcast = ?", (crew, agent, found[0]))
        self._add_unread(crew, agent, -1)
        received = list(broadcasts_received((found,)))
        return received[0] if received else None

    def claim(self, crew: str, agent: str, key: str, limit: int) -> None:
        done = self._execute(
            "update inbox set taken = ? where number in (select number from inbox"  # noqa: S608 - constants
            f" where crew = ? and agent = ? and taken = '' and {intact_condition('inbox')} order by broadcast limit ?)",
            (key, crew, agent, limit),
        )
        if done.rowcount:
            self._add_unread(crew, agent, -done.rowcount)

    def broadcasts_claimed_by(self, key: str) -> tuple[ReceivedBroadcast, ...]:
        found = self._execute(f"{SELECT_INBOX} and taken = ? order by inbox.broadcast", (key,)).fetchall()
        return tuple(broadcasts_received(found))

    def ack(self, key: str) -> None:
        self._execute("delete from inbox where taken = ?", (key,))

    def unclaim(self, key: str) -> None:
        found = self._execute(
            "select crew, agent, count(*) from inbox where taken = ? group by 1, 2", (key,)
        ).fetchall()
        self._execute("update inbox set taken = '' where taken = ?", (key,))
        for crew, agent, number in found:
            self._add_unread(crew, agent, number)

    # Deliveries

    def queue_delivery(self, crew: str, agent: str, position: int) -> int:
        self._execute(
            "insert or ignore into deliveries (crew, agent, broadcast, attempts, try_at) values (?, ?, ?, 0, 0)",
            (crew, agent, position),
        )
        query = "select count(*) from deliveries where crew = ? and agent = ?"
        return int(self._execute(query, (crew, agent)).fetchone()[0])

    def oldest_delivery(self, crew: str, agent: str) -> Delivery | None:
        return next(iter(deliveries(self._connection, "crew = ? and agent = ?", (crew, agent))), None)

    def delivery(self, number: int) -> Delivery | None:
        return next(iter(deliveries(self._connection, "number = ?", (number,))), None)

    def drop_delivery(self, number: int) -> None:
        self._execute("delete from deliveries where number = ?", (number,))

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None:
        self._execute("update deliveries set attempts = ?, try_at = ? where number = ?", (attempts, try_at, number))

    def clear_retries_after(self, after: int) -> None:
        self._execute("update deliveries set try_at = 0 where try_at > ?", (after,))

    # Presence, and counts of broadcasts

    def record_presence(self, activity: Activity) -> BroadcastOutcome:
        """Records presence without a record."""
        crew, run, ended, begun = activity.crew, activity.run, activity.ended, activity.begun
        is_known = not ended and self.active.are_active(crew, run, begun)
        announced = bus_rules.record_presence(self, activity)
        if not is_known:
            self.active.store_change(self._connection, crew, run, ended, begun)
        return announced

    def store_presence_of(self, crew: str, run: str, number: int) -> None:
        """Stores what is derived from the records of a run, which will be deleted, and removes it from the active."""
        for position in positions_after(self._connection, (number,), 0):
            for found in read_presence(self._connection, SELECT_AT, position):
                change = found.change
                if change is not None and broadcasts_of(change):
                    self.put_presence(change, end_of_derived(position))
        self.active.forget_run(self._connection, crew, run)

    @property
    def active(self) -> SqliteActiveAgents:
        return self._cache.active_agents(self._connection)

    def change_presence(
        self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.active.change(crew, run, ended, begun)

    def announcement_count(self, crew: str, agent: str) -> tuple[int, int]:
        query = f"select start, number from announced where crew = ? and agent = ? and {intact_condition('announced')}"  # noqa: S608 - constants
        found = self._execute(query, (crew, agent)).fetchone()
        return (found[0], found[1]) if found is not None else (0, 0)

    def set_announcement_count(self, crew: str, agent: str, start: int, number: int) -> None:
        self._execute(
            "insert or replace into announced (crew, agent, start, number) values (?, ?, ?, ?)",
            (crew, agent, start, number),
        )

    # Subscriptions

    def subscriptions_of(self, crew: str, agent: str | None = None) -> Sequence[AgentSubscription]:
        if agent is None:
            return subscriptions(self._connection, "and crew = ?", (crew,))
        return subscriptions(self._connection, "and crew = ? and agent = ?", (crew, agent))

    def put_subscription(self, subscribed: AgentSubscription) -> None:
        self._execute(
            "insert or replace into subscriptions (crew, agent, pattern, silent, origin) values (?, ?, ?, ?, ?)",
            (*subscribed.key, int(subscribed.silent), subscribed.origin),
        )
        self._cache.record_subscription_change(self._connection, added=subscribed)

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool:
        key = (crew, agent, pattern)
        done = self._execute("delete from subscriptions where crew = ? and agent = ? and pattern = ?", key)
        if done.rowcount:
            self._cache.record_subscription_change(self._connection, removed=key)
        return done.rowcount == 1

    def set_crew_sha(self, crew: str, sha: str) -> None:
        self._execute("insert or replace into crew_heads (crew, sha) values (?, ?)", (crew, sha))

    # Delayed broadcasts

    def entry(self, id: str) -> DelayedBroadcast | None:  # noqa: A002
        return self._entry("id = ?", (id,))

    def entry_by_repeat_key(self, kind: str, repeat_key: str) -> DelayedBroadcast | None:
        return self._entry("type = ? and repeat_key = ?", (kind, repeat_key))

    def _entry(self, test: str, values: tuple[object, ...]) -> DelayedBroadcast | None:
        found = self._execute(f"{SELECT_ENTRY} and {test}", values).fetchone()
        return entry_from_row(*found) if found is not None else None

    def put_entry(self, entry: DelayedBroadcast) -> None:
        body = encode_json(entry)
        self._execute(
            "insert or replace into delayed (id, type, repeat_key, due_at, crc, body) values (?, ?, ?, ?, ?, ?)",
            (entry.id, entry.type, entry.repeat_key, entry.due_at, crc_as_int32(body), body),
        )
        self._count_queue_change()

    def drop_entry(self, id: str) -> None:  # noqa: A002
        self._execute("delete from delayed where id = ?", (id,))
        self._count_queue_change()

    def entries_ahead(self, now: int) -> Sequence[DelayedBroadcast]:
        changed = "json_extract(cast(body as text), '$.updatedAt')"
        query = f"{SELECT_ENTRY} and due_at > ? and json_valid(cast(body as text)) and {changed} > ?"
        rows = self._execute(query, (now, now)).fetchall()
        return [each for each in (entry_from_row(*row) for row in rows) if each is not None]

    def _count_queue_change(self) -> None:
        increment_change_count(self._connection, "delayed")

    # Dead letters

    def add_dead_letter(self, dead: BroadcastDeadLetter) -> None:
        done = self._execute(
            "insert or replace into dead (id, crew, agent, body) values (?, ?, ?, ?)",
            (dead.id, dead.for_crew, dead.for_agent, encode_json(dead)),
        )
        self._execute("delete from dead where number <= ?", ((done.lastrowid or 0) - DEAD_LETTERS_MAX,))

    def dead_letters_of(self, id: str) -> Sequence[BroadcastDeadLetter]:  # noqa: A002
        found = self._execute(f"{SELECT_DEAD_LETTER} and id = ? order by number", (id,)).fetchall()
        return [decode_dead_letter(body) for (body,) in found]

    def remove_dead_letter(self, id: str) -> None:  # noqa: A002
        self._execute("delete from dead where id = ?", (id,))
