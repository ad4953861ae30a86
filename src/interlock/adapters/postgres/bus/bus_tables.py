"""SQL that writes broadcasts, subscriptions, inboxes, deliveries and delayed broadcasts.

Rule 1: the transaction holds the lock of the store from its start.
Rule 2: what goes with a record is written by SQL functions (`record_writes`); these tables are for all else.
"""

from collections.abc import Iterable, Sequence, Set
from itertools import islice

import msgspec

from interlock import limits
from interlock.adapters.postgres.bus import announcements, bus_queries
from interlock.adapters.postgres.bus.bus_queries import SELECT_DEAD_LETTER, SELECT_INBOX, encode_json
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.store_rules.broadcast_rows import crc_as_int32
from interlock.adapters.store_rules.bus_tables import AgentsWithHops, BroadcastAge
from interlock.adapters.store_rules.positions import before_others, end_of_derived, record_at
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.pattern import segments_of
from interlock.broadcast.presence import PresenceChange, broadcasts_of, encode_presence
from interlock.broadcast.record import SYSTEM, Broadcast, ReceivedBroadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.ports import Delivery

_ADD_BROADCAST = (
    "insert into broadcasts (position, id, hops, crc, body) values (%s, %s, %s, %s, %s) on conflict (id) do nothing"
)
_RESTORE = (
    "with given as (select id, crc, body, row_number() over (order by place) as place"
    " from (select distinct on (id) id, crc, body, place from unnest(%s::text[], %s::integer[], %s::bytea[])"
    " with ordinality as every (id, crc, body, place) order by id, place) as once"
    " where not exists (select from broadcasts where broadcasts.id = once.id))"
    " insert into broadcasts (position, id, hops, crc, body)"
    " select %s + place, id, 0, salted_crc(crc, %s + place), body from given order by place"
)
_PUT_SUBSCRIPTION = (
    "insert into subscriptions (crew, agent, pattern, silent, origin, segments) values (%s, %s, %s, %s, %s, %s)"
    " on conflict (crew, agent, pattern) do update"
    " set silent = excluded.silent, origin = excluded.origin, segments = excluded.segments"
)
_PUT_ENTRY = (
    "insert into delayed (id, type, repeat_key, due_at, updated_at, crc, body) values (%s, %s, %s, %s, %s, %s, %s)"
    " on conflict (id) do update set type = excluded.type, repeat_key = excluded.repeat_key, due_at = excluded.due_at,"
    " updated_at = excluded.updated_at, crc = excluded.crc, body = excluded.body"
)


class PostgresBusTables:
    """`BusTables` on a connection that is in a transaction. Call `finish` when the rule is applied."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._execute = connection.execute
        # Broadcasts are stored after this position; None if it is not known yet.
        self._last: int | None = None
        self._has_dead_letters = False
        # Delayed broadcasts that were read before, and those to drop.
        self._entries: dict[str, DelayedBroadcast | None] = {}
        self._dropped: list[str] = []

    def finish(self) -> None:
        """Does at once what was gathered: dropped entries, and the bound of dead letters, of which the newest stay."""
        self._drop_entries()
        self._trim_dead_letters()

    def _number(self, query: str, values: Sequence[object]) -> int:
        found = self._execute(query, values).fetchone()
        assert found is not None, "the query has one row"
        return int(found[0])

    # Broadcasts

    def append_broadcast(self, broadcast: Broadcast, hops: int) -> int | None:
        body, position = encode_broadcast(broadcast), self._last_position() + 1
        row = (position, broadcast.id, hops, crc_as_int32(body, position), body)
        if self._execute(_ADD_BROADCAST, row).rowcount != 1:
            return None
        self._last = position
        return position

    def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        """The same as `bus_rules.restore`, in one statement."""
        known = self.presence_ids_among([each.id for each in broadcasts if each.source == SYSTEM])
        chosen = [each for each in broadcasts if each.id not in known]
        bodies = [encode_broadcast(each) for each in chosen]
        last = self._last_position()
        values = ([each.id for each in chosen], [crc_as_int32(body) for body in bodies], bodies, last, last)
        added = self._execute(_RESTORE, values).rowcount
        self._last = last + added
        return added

    def announce(self, bus: str, bodies: Sequence[bytes], rules: str) -> str:
        """Announces by the function that does so with a record; returns its answer."""
        query = "select answer::text from apply_bus(%s::json, %s::bytea[], null, '{1}', '{}', null, %s::json)"
        found = self._execute(query, (bus, list(bodies), rules)).fetchone()
        assert found is not None, "there is one transition"
        self._last = None
        return str(found[0])

    def position_of(self, id: str) -> int | None:  # noqa: A002 - ids are called id everywhere
        found = self._execute("select position from broadcasts where id = %s", (id,)).fetchone()
        return int(found[0]) if found is not None else None

    def _last_position(self) -> int:
        if self._last is None:
            floor = before_others(announcements.newest_record(self._connection))
            self._last = max(floor, announcements.newest_stored(self._connection))
        return self._last

    def newest_row(self) -> int:
        return announcements.newest_row(self._connection)

    def append_presence(self, lifecycle: PresenceChange) -> None:
        self._last = self._last_position() + len(broadcasts_of(lifecycle))
        self.put_presence(lifecycle, self._last)

    def put_presence(self, lifecycle: PresenceChange, position: int) -> None:
        """Stores presence changes at the position of their last one."""
        body = encode_presence(lifecycle)
        query = "insert into lifecycle (position, crc, body) values (%s, %s, %s)"
        self._execute(query, (position, crc_as_int32(body, position), body))

    def presence_ids_among(self, ids: Sequence[str]) -> Set[str]:
        return announcements.presence_positions(self._connection, ids).keys()

    def page(self, after: int, limit: int) -> Sequence[BroadcastAge]:
        return [row.age for row in islice(announcements.rows_after(self._connection, after), limit)]

    def pending_positions(self, first: int, last: int) -> Set[int]:
        tables = ("select broadcast from inbox", "select broadcast from deliveries")
        query = " union ".join(f"{each} where broadcast between %s and %s" for each in tables)
        return {position for (position,) in self._execute(query, (first, last) * 2)}

    def delete_broadcasts(self, positions: Iterable[int]) -> None:
        gone = list(positions)
        records = [record_at(each) for each in gone if end_of_derived(record_at(each)) == each]
        if records:
            self._execute("select clear_presence(%s)", (records,))
        self._execute("delete from broadcasts where position = any(%s)", (gone,))
        self._execute("delete from lifecycle where position = any(%s)", (gone,))

    def has_subscribers(self) -> bool:
        return bool(self._number("select exists (select from subscriptions)::integer", ()))

    def subscribers_of(self, kind: str, crew: str, agent: str) -> tuple[Subscriber, ...]:
        query = "select crew, agent, silent from subscribers_of(%s::text[], %s, %s)"
        return tuple([Subscriber(*row) for row in self._execute(query, (segments_of(kind), crew, agent))])

    # Inboxes

    def add_to_inbox(self, crew: str, agent: str, position: int) -> int:
        query = "insert into inbox (crew, agent, broadcast) values (%s, %s, %s) on conflict do nothing"
        return self._add_unread(crew, agent, self._execute(query, (crew, agent, position)).rowcount)

    def _add_unread(self, crew: str, agent: str, more: int) -> int:
        query = (
            "insert into mailboxes (crew, agent, unread) values (%s, %s, %s)"
            " on conflict (crew, agent) do update set unread = mailboxes.unread + excluded.unread returning unread"
        )
        return self._number(query, (crew, agent, more))

    def pop_oldest_unread(self, crew: str, agent: str) -> ReceivedBroadcast | None:
        query = f"{SELECT_INBOX} where crew = %s and agent = %s and taken = '' order by position limit 1"
        found = self._execute(query, (crew, agent)).fetchone()
        if found is None:
            return None
        query = "delete from inbox where crew = %s and agent = %s and broadcast = %s"
        self._execute(query, (crew, agent, found[0]))
        self._add_unread(crew, agent, -1)
        return next(bus_queries.broadcasts_received((found,)), None)

    def claim(self, crew: str, agent: str, key: str, limit: int) -> None:
        query = (
            "update inbox set taken = %s where crew = %s and agent = %s and broadcast in (select broadcast from inbox"
            " where crew = %s and agent = %s and taken = '' order by broadcast limit %s)"
        )
        if claimed := self._execute(query, (key, crew, agent, crew, agent, limit)).rowcount:
            self._add_unread(crew, agent, -claimed)

    def broadcasts_claimed_by(self, key: str) -> tuple[ReceivedBroadcast, ...]:
        found = self._execute(f"{SELECT_INBOX} where taken = %s order by position", (key,)).fetchall()
        return tuple(bus_queries.broadcasts_received(found))

    def ack(self, key: str) -> None:
        self._execute("delete from inbox where taken = %s", (key,))

    def unclaim(self, key: str) -> None:
        self._execute("select unclaim_inbox(%s)", (key,))

    # Deliveries

    def queue_delivery(self, crew: str, agent: str, position: int) -> int:
        query = "insert into deliveries (crew, agent, broadcast) values (%s, %s, %s) on conflict do nothing"
        self._execute(query, (crew, agent, position))
        return self._number("select count(*) from deliveries where crew = %s and agent = %s", (crew, agent))

    def oldest_delivery(self, crew: str, agent: str) -> Delivery | None:
        return bus_queries.first_delivery(self._connection, "crew = %s and agent = %s", (crew, agent))

    def delivery(self, number: int) -> Delivery | None:
        return bus_queries.first_delivery(self._connection, "number = %s", (number,))

    def drop_delivery(self, number: int) -> None:
        self._execute("delete from deliveries where number = %s", (number,))

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None:
        self._execute("update deliveries set attempts = %s, try_at = %s where number = %s", (attempts, try_at, number))

    def clear_retries_after(self, after: int) -> None:
        self._execute("update deliveries set try_at = 0 where try_at > %s", (after,))

    # Presence, and counts of broadcasts

    def change_presence(
        self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        agents = [agent for agent, _ in ended + begun]
        if not agents:
            return (), ()
        given = {"place": 1, "crew": crew, "run": run, "agents": agents, "ended": len(ended)}
        query = "select turned from change_presence(%s::json, '{1}')"
        found = self._execute(query, (msgspec.json.encode([given]).decode(),)).fetchone()
        turned = set(found[0]) if found is not None else set()
        changed = tuple([agent if place in turned else "" for place, agent in enumerate(agents)])
        return changed[: len(ended)], changed[len(ended) :]

    def forget_run(self, run: str, number: int) -> None:
        """Stores what is derived from the records of a run, which will be deleted, and removes it from the active."""
        for found in announcements.present_records(self._connection, "and records.run = %s order by position", number):
            change = found.change
            if change is not None and broadcasts_of(change):
                self.put_presence(change, end_of_derived(found.position))
        for crew, agents in self._execute("select crew, agents from active where run = %s", (run,)).fetchall():
            self.change_presence(crew, run, tuple((agent, 0) for agent in agents), ())

    def announcement_count(self, crew: str, agent: str) -> tuple[int, int]:
        query = "select start, number from announced where crew = %s and agent = %s"
        found = self._execute(query, (crew, agent)).fetchone()
        return (found[0], found[1]) if found is not None else (0, 0)

    def set_announcement_count(self, crew: str, agent: str, start: int, number: int) -> None:
        query = (
            "insert into announced (crew, agent, start, number) values (%s, %s, %s, %s)"
            " on conflict (crew, agent) do update set start = excluded.start, number = excluded.number"
        )
        self._execute(query, (crew, agent, start, number))

    # Subscriptions

    def subscriptions_of(self, crew: str, agent: str | None = None) -> Sequence[AgentSubscription]:
        if agent is None:
            return bus_queries.subscriptions(self._connection, "where crew = %s", (crew,))
        return bus_queries.subscriptions(self._connection, "where crew = %s and agent = %s", (crew, agent))

    def put_subscription(self, subscribed: AgentSubscription) -> None:
        segments = segments_of(subscribed.pattern)
        self._execute(_PUT_SUBSCRIPTION, (*subscribed.key, subscribed.silent, subscribed.origin, segments))

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool:
        query = "delete from subscriptions where crew = %s and agent = %s and pattern = %s"
        return self._execute(query, (crew, agent, pattern)).rowcount == 1

    def set_crew_sha(self, crew: str, sha: str) -> None:
        query = "insert into crew_heads (crew, sha) values (%s, %s) on conflict (crew) do update set sha = excluded.sha"
        self._execute(query, (crew, sha))

    # Delayed broadcasts

    def read_entries(self, ids: Sequence[str]) -> None:
        """Reads delayed broadcasts at once that a rule will ask for one by one."""
        found = bus_queries.entries(self._connection, "where id = any(%s)", (list(ids),))
        self._entries = dict.fromkeys(ids) | {each.id: each for each in found}

    def entry(self, id: str) -> DelayedBroadcast | None:  # noqa: A002
        if id in self._entries:
            return self._entries[id]
        return next(bus_queries.entries(self._connection, "where id = %s", (id,)), None)

    def entry_by_repeat_key(self, kind: str, repeat_key: str) -> DelayedBroadcast | None:
        test = "where type = %s and repeat_key = %s"
        return next(bus_queries.entries(self._connection, test, (kind, repeat_key)), None)

    def put_entry(self, entry: DelayedBroadcast) -> None:
        self._drop_entries()
        if entry.repeat_key is not None:
            query = "delete from delayed where type = %s and repeat_key = %s and id <> %s"
            self._execute(query, (entry.type, entry.repeat_key, entry.id))
        body = encode_json(entry)
        row = (entry.id, entry.type, entry.repeat_key, entry.due_at, entry.updated_at, crc_as_int32(body), body)
        self._execute(_PUT_ENTRY, row)
        self._entries.pop(entry.id, None)

    def drop_entry(self, id: str) -> None:  # noqa: A002
        """Drops it with all others, when the next entry is put or the rule is applied."""
        self._entries[id] = None
        self._dropped.append(id)

    def _drop_entries(self) -> None:
        if self._dropped:
            self._execute("delete from delayed where id = any(%s)", (self._dropped,))
            self._dropped = []

    def entries_ahead(self, now: int) -> Sequence[DelayedBroadcast]:
        test = "where due_at > %s and updated_at > %s order by number"
        return list(bus_queries.entries(self._connection, test, (now, now)))

    # Dead letters

    def add_dead_letter(self, dead: BroadcastDeadLetter) -> None:
        self._has_dead_letters = True
        place = (dead.id, dead.for_crew, dead.for_agent)
        self._execute("delete from dead where id = %s and crew = %s and agent = %s", place)
        query = "insert into dead (id, crew, agent, body) values (%s, %s, %s, %s)"
        self._execute(query, (*place, encode_json(dead)))

    def dead_letters_of(self, id: str) -> Sequence[BroadcastDeadLetter]:  # noqa: A002
        return bus_queries.letters_from_rows(
            self._execute(f"{SELECT_DEAD_LETTER} where id = %s order by number", (id,))
        )

    def _trim_dead_letters(self) -> None:
        if self._has_dead_letters:
            self._execute("select trim_dead_letters(%s::integer)", (limits.DEAD_LETTERS_MAX,))
            self._has_dead_letters = False

    def remove_dead_letter(self, id: str) -> None:  # noqa: A002
        self._trim_dead_letters()
        self._execute("delete from dead where id = %s", (id,))
