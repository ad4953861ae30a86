"""The bus in tables of the store's database.

Rule 1: a broadcast of a run is written in the statement of the record that caused it (`record_writes`). All else is
written by the same writer, in transactions of its own, under the lock of the store.
Rule 2: the rules are those in Python. Announcing is the function that announces with a record: it is one round trip
however many subscribers there are, while all other writers wait.
Rule 3: times come from the caller, who has them from the clock of the store.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.adapters.postgres.bus import announcements, bus_queries, record_writes
from interlock.adapters.postgres.bus.bus_tables import PostgresBusTables
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.store import PostgresStore
from interlock.adapters.store_rules import bus_rules, delayed_rules
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast, encode_broadcast
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.ports import NO_BROADCASTS, Activity, BroadcastOutcome, Delivery, InboxClaim, PruneResult, Topic


class PostgresBus:
    """`Bus` beside the journal, in the same database, by the same writer."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def _apply_rule(self, doing: str, rule: Any, *values: Any, size: int = 0) -> Any:
        def work(connection: PostgresConnection) -> Any:
            connection.execute("select lock_store()")
            tables = PostgresBusTables(connection)
            result = rule(tables, *values)
            tables.finish()
            connection.execute("select notify_others(%s, 'bus')", (self._store.session.id,))
            return result

        return await self._store.write(doing, work, size)

    def version(self) -> int | None:
        return self._store.version()

    @property
    def tells_claims(self) -> bool:
        return True

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        return self._store.watch(changed, about)

    # Broadcasts

    async def emit(self, emission: Emission) -> BroadcastOutcome:
        size = len(encode_broadcast(emission.broadcast))
        announced: BroadcastOutcome = await self._apply_rule(
            "store a broadcast", record_writes.announce, (emission,), size=size
        )
        return announced

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        size = sum(len(encode_broadcast(broadcast)) for broadcast in broadcasts)
        return int(await self._apply_rule("restore broadcasts", PostgresBusTables.restore, broadcasts, size=size))

    async def record_presence(self, activity: Activity) -> BroadcastOutcome:
        """Mostly the presence of a run that was claimed is known. Reading that holds up no other process."""
        if not activity.ended:
            query = partial(bus_queries.active_agents, run=activity.run, crew=activity.crew)
            known = await self._store.read_statement("read presence", query)
            if known.issuperset(agent for agent, _ in activity.begun):
                return NO_BROADCASTS
        announced: BroadcastOutcome = await self._apply_rule("record presence", bus_rules.record_presence, activity)
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
        return bool(await self._apply_rule("unsubscribe", PostgresBusTables.drop_subscription, crew, agent, pattern))

    async def declare_subscriptions(self, crew: str, sha: str, subscriptions: Sequence[AgentSubscription]) -> None:
        await self._apply_rule(
            "store the subscriptions of a crew", bus_rules.declare_subscriptions, crew, sha, subscriptions
        )

    async def crew_sha(self, crew: str) -> str:
        return await self._store.read_statement(
            "read the newest file of a crew", partial(bus_queries.crew_sha, crew=crew)
        )

    async def subscriptions(self) -> Sequence[AgentSubscription]:
        return await self._store.read_statement("read subscriptions", bus_queries.subscriptions)

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
        return await self._store.read_statement("read delayed signals", partial(bus_queries.next_due, now=now))

    async def replan_after_clock_change(self, now: int) -> None:
        await self._apply_rule("replan after a clock change", delayed_rules.replan_after_clock_change, now)

    async def dispatch(self, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        def dispatch_at_once(tables: PostgresBusTables) -> BroadcastOutcome:
            tables.read_entries([entry.id for entry in entries])
            return delayed_rules.dispatch(tables, entries, now, partial(record_writes.announce, tables))

        size = sum(len(msgspec.json.encode(entry)) for entry in entries)
        announced: BroadcastOutcome = await self._apply_rule("dispatch signals", dispatch_at_once, size=size)
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
        return await self._store.read_statement("read inboxes", bus_queries.agents_with_unread)

    async def claim_inbox(self, claim: InboxClaim) -> tuple[ReceivedBroadcast, ...]:
        claimed: tuple[ReceivedBroadcast, ...] = await self._apply_rule("claim an inbox", bus_rules.claim_inbox, claim)
        return claimed

    async def agents_with_deliveries(self, now: int) -> Sequence[tuple[str, str]]:
        return await self._store.read_statement("read deliveries", partial(bus_queries.agents_with_deliveries, now=now))

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        test, values = "crew = %s and agent = %s and try_at <= %s", (crew, agent, now)
        return await self._store.read("read deliveries", partial(bus_queries.first_delivery, test=test, values=values))

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
