"""The bus in tables of the store's database.

Rule 1: a broadcast of a run is written in the transaction of the record that caused it (`atomic_writes`). All else is
written by the same writer, in transactions of its own.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.adapters.sqlite.bus import announcements, bus_queries
from interlock.adapters.sqlite.bus.bus_tables import SqliteBusTables
from interlock.adapters.sqlite.runs.writer_cache import WriterCache
from interlock.adapters.sqlite.sealed_tables import intact_condition
from interlock.adapters.sqlite.store import SqliteStore
from interlock.adapters.store_rules import bus_rules, delayed_rules
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.ports import Activity, BroadcastOutcome, Delivery, InboxClaim, PruneResult, Topic

# How often the bus checks for broadcasts and schedules of other processes of the data folder.
POLL_S = 0.25


class SqliteBus:
    """`Bus` beside the journal, in the same database, by the same writer."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def _apply_rule(self, doing: str, rule: Any, *values: Any, size: int = 0) -> Any:
        def work(connection: sqlite3.Connection, cache: WriterCache) -> Any:
            return rule(SqliteBusTables(connection, cache.bus), *values)

        return await self._store.write(doing, work, size)

    def version(self) -> int | None:
        return self._store.version()

    @property
    def tells_claims(self) -> bool:
        return False

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        """Checks four times a second for commits of other processes, of any topic."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        seen = self.version()

        def poll() -> None:
            nonlocal timer, seen
            timer = loop.call_later(POLL_S, poll)
            before, now = seen, self.version()
            if now is not None:
                seen = now
                if before not in (None, now):
                    changed()

        def stop() -> None:
            if timer is not None:
                timer.cancel()

        poll()
        return stop

    # Broadcasts

    async def emit(self, emission: Emission) -> BroadcastOutcome:
        size = len(encode_broadcast(emission.broadcast))
        announced: BroadcastOutcome = await self._apply_rule(
            "store a broadcast", bus_rules.announce, (emission,), size=size
        )
        return announced

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        size = sum(len(encode_broadcast(broadcast)) for broadcast in broadcasts)
        return int(await self._apply_rule("restore broadcasts", bus_rules.restore, broadcasts, size=size))

    async def record_presence(self, activity: Activity) -> BroadcastOutcome:
        announced: BroadcastOutcome = await self._apply_rule(
            "record presence", SqliteBusTables.record_presence, activity
        )
        return announced

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        assert limit > 0, "callers bound their pages"
        return await self._store.read("read broadcasts", partial(announcements.newest, limit=limit, pattern=pattern))

    async def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        work = partial(announcements.position_before_newest, limit=limit, pattern=pattern)
        position = await self._store.read("read broadcasts", work)
        while limit and (found := await self.since(position, limit)):
            position = found[-1][0]
            chosen = [each for _, each in found if pattern is None or matches(pattern, each.type)][:limit]
            limit -= len(chosen)
            yield chosen

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        return await self._store.read("read broadcasts", partial(announcements.since, position=position, limit=limit))

    async def head(self) -> int:
        return await self._store.read("read broadcasts", announcements.head)

    async def prune(self, before: int, after: int = 0) -> PruneResult:
        pruned: PruneResult = await self._apply_rule("delete old broadcasts", bus_rules.prune, before, after)
        return pruned

    # Subscriptions

    async def subscribe(self, subscribed: AgentSubscription) -> None:
        await self._apply_rule("subscribe", bus_rules.subscribe, subscribed)

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        return bool(await self._apply_rule("unsubscribe", SqliteBusTables.drop_subscription, crew, agent, pattern))

    async def declare_subscriptions(self, crew: str, sha: str, subscriptions: Sequence[AgentSubscription]) -> None:
        await self._apply_rule(
            "store the subscriptions of a crew", bus_rules.declare_subscriptions, crew, sha, subscriptions
        )

    async def crew_sha(self, crew: str) -> str:
        def select_sha(connection: sqlite3.Connection) -> str:
            query = f"select sha from crew_heads where crew = ? and {intact_condition('crew_heads')}"  # noqa: S608 - constants
            row = connection.execute(query, (crew,)).fetchone()
            return str(row[0]) if row is not None else ""

        return await self._store.read("read the newest file of a crew", select_sha)

    async def subscriptions(self) -> Sequence[AgentSubscription]:
        return await self._store.read("read subscriptions", bus_queries.subscriptions)

    # Delayed broadcasts

    async def schedule(self, entry: DelayedBroadcast) -> DelayedBroadcast | None:
        old: DelayedBroadcast | None = await self._apply_rule("schedule a signal", delayed_rules.schedule, entry)
        return old

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> DelayedBroadcast | None:  # noqa: A002
        gone: DelayedBroadcast | None = await self._apply_rule(
            "cancel a signal", delayed_rules.cancel, id, type, repeat_key
        )
        return gone

    async def list_delayed(self, limit: int | None = None) -> Sequence[DelayedBroadcast]:
        return await self._store.read("read delayed signals", partial(bus_queries.list_delayed, limit=limit))

    async def pages_of_delayed(self, limit: int) -> AsyncIterator[Sequence[DelayedBroadcast]]:
        ids = await self._store.read("read delayed signals", partial(bus_queries.ids_of_delayed, limit=limit))
        while ids:
            page, used = await self._store.read("read delayed signals", partial(bus_queries.page_of_delayed, ids=ids))
            ids = ids[used:]
            yield page

    async def due_broadcasts(self, now: int, limit: int) -> Sequence[DelayedBroadcast]:
        return await self._store.read("read delayed signals", partial(bus_queries.due_entries, now=now, limit=limit))

    async def next_due(self, now: int) -> int | None:
        return await self._store.read("read delayed signals", partial(bus_queries.next_due, now=now))

    async def replan_after_clock_change(self, now: int) -> None:
        await self._apply_rule("replan after a clock change", delayed_rules.replan_after_clock_change, now)

    async def dispatch(self, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        size = sum(len(msgspec.json.encode(entry)) for entry in entries)
        announced: BroadcastOutcome = await self._apply_rule(
            "dispatch signals", delayed_rules.dispatch, entries, now, size=size
        )
        return announced

    async def record_dispatch_failure(
        self, entry: DelayedBroadcast, reason: str, now: int
    ) -> BroadcastDeadLetter | None:
        dead: BroadcastDeadLetter | None = await self._apply_rule(
            "postpone a signal", delayed_rules.record_dispatch_failure, entry, reason, now
        )
        return dead

    # Inboxes and deliveries

    async def agents_with_unread(self) -> Sequence[tuple[str, str]]:
        query = f"select crew, agent from mailboxes where unread > 0 and {intact_condition('mailboxes')}"  # noqa: S608 - constants
        return await self._store.read("read inboxes", lambda connection: connection.execute(query).fetchall())

    async def claim_inbox(self, claim: InboxClaim) -> tuple[ReceivedBroadcast, ...]:
        claimed: tuple[ReceivedBroadcast, ...] = await self._apply_rule("claim an inbox", bus_rules.claim_inbox, claim)
        return claimed

    async def agents_with_deliveries(self, now: int) -> Sequence[tuple[str, str]]:
        return await self._store.read("read deliveries", partial(bus_queries.agents_with_deliveries, now=now))

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        test, values = "crew = ? and agent = ? and try_at <= ?", (crew, agent, now)
        found = await self._store.read("read deliveries", partial(bus_queries.deliveries, test=test, values=values))
        return found[0] if found else None

    async def record_delivery_failure(self, number: int, reason: str, now: int) -> BroadcastDeadLetter | None:
        dead: BroadcastDeadLetter | None = await self._apply_rule(
            "postpone a delivery", bus_rules.record_delivery_failure, number, reason, now
        )
        return dead

    async def dead_letters(self, limit: int) -> Sequence[BroadcastDeadLetter]:
        return await self._store.read("read dead letters", partial(bus_queries.dead_letters, limit=limit))

    async def dead_letter_pages(self, limit: int) -> AsyncIterator[Sequence[BroadcastDeadLetter]]:
        numbers = await self._store.read("read dead letters", partial(bus_queries.dead_letter_numbers, limit=limit))
        while numbers:
            page, used = await self._store.read(
                "read dead letters", partial(bus_queries.page_of_dead_letters, ids=numbers)
            )
            numbers = numbers[used:]
            yield page

    async def retry_dead_letters(self, id: str) -> int:  # noqa: A002
        return int(await self._apply_rule("deliver dead letters again", bus_rules.retry_dead_letters, id))
