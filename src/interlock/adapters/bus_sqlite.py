"""The bus in tables of the store's database.

Rule 1: what a run announces is written in the transaction of the record that caused it (`alongside_sqlite`); the rest
is written by the same writer, in transactions of its own.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.adapters import bus_rows, bus_rules
from interlock.adapters.bus_rows import SqliteTables
from interlock.adapters.sealed_tables import whole
from interlock.adapters.sqlite_rows import Tips
from interlock.adapters.store_sqlite import SqliteStore
from interlock.broadcast.delayed import Dead, Delayed
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast, Emission, Heard, encoded
from interlock.broadcast.subscriptions import Subscribed
from interlock.ports import Activity, Announced, Delivery, Pruned, Taking

# How often it is looked whether other processes of the data folder have announced or scheduled something.
LOOK_S = 0.25


class SqliteBus:
    """`Bus` beside the journal, in the same database, by the same writer."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def _change(self, doing: str, rule: Any, *values: Any, size: int = 0) -> Any:
        def work(connection: sqlite3.Connection, tips: Tips) -> Any:
            return rule(SqliteTables(connection, tips.bus), *values)

        return await self._store.write(doing, work, size)

    def version(self) -> int | None:
        return self._store.version()

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Looks four times a second whether another process has committed something."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        seen = self.version()

        def look() -> None:
            nonlocal timer, seen
            timer = loop.call_later(LOOK_S, look)
            before, now = seen, self.version()
            if now is not None:
                seen = now
                if before not in (None, now):
                    changed()

        def stop() -> None:
            if timer is not None:
                timer.cancel()

        look()
        return stop

    # Announcing

    async def emit(self, emission: Emission) -> Announced:
        size = len(encoded(emission.broadcast))
        announced: Announced = await self._change("announce a broadcast", bus_rules.announce, (emission,), size=size)
        return announced

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        size = sum(len(encoded(broadcast)) for broadcast in broadcasts)
        return int(await self._change("restore broadcasts", bus_rules.restore, broadcasts, size=size))

    async def work(self, activity: Activity) -> Announced:
        announced: Announced = await self._change("note who works", bus_rules.rouse, activity)
        return announced

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        assert limit > 0, "callers bound their pages"
        return await self._store.read("read broadcasts", partial(bus_rows.newest, limit=limit, pattern=pattern))

    async def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        work = partial(bus_rows.before_newest, limit=limit, pattern=pattern)
        position = await self._store.read("read broadcasts", work)
        while limit and (found := await self.since(position, limit)):
            position = found[-1][0]
            chosen = [each for _, each in found if pattern is None or matches(pattern, each.type)][:limit]
            limit -= len(chosen)
            yield chosen

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        return await self._store.read("read broadcasts", partial(bus_rows.since, position=position, limit=limit))

    async def head(self) -> int:
        return await self._store.read("read broadcasts", bus_rows.head)

    async def prune(self, before: int, after: int = 0) -> Pruned:
        pruned: Pruned = await self._change("forget old broadcasts", bus_rules.prune, before, after)
        return pruned

    # Subscribing

    async def subscribe(self, subscribed: Subscribed) -> None:
        await self._change("subscribe", bus_rules.subscribe, subscribed)

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        return bool(await self._change("unsubscribe", SqliteTables.drop_subscription, crew, agent, pattern))

    async def declare(self, crew: str, sha: str, subscriptions: Sequence[Subscribed]) -> None:
        await self._change("keep the subscriptions of a crew", bus_rules.declare, crew, sha, subscriptions)

    async def crew_sha(self, crew: str) -> str:
        def found(connection: sqlite3.Connection) -> str:
            query = f"select sha from crew_heads where crew = ? and {whole('crew_heads')}"  # noqa: S608 - constants
            row = connection.execute(query, (crew,)).fetchone()
            return str(row[0]) if row is not None else ""

        return await self._store.read("read the newest file of a crew", found)

    async def subscriptions(self) -> Sequence[Subscribed]:
        return await self._store.read("read subscriptions", bus_rows.subscriptions)

    # Later

    async def schedule(self, entry: Delayed) -> Delayed | None:
        old: Delayed | None = await self._change("schedule a signal", bus_rules.schedule, entry)
        return old

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> Delayed | None:  # noqa: A002
        gone: Delayed | None = await self._change("cancel a signal", bus_rules.cancel, id, type, repeat_key)
        return gone

    async def delayed(self, limit: int | None = None) -> Sequence[Delayed]:
        return await self._store.read("read delayed signals", partial(bus_rows.delayed, limit=limit))

    async def delayed_pages(self, limit: int) -> AsyncIterator[Sequence[Delayed]]:
        ids = await self._store.read("read delayed signals", partial(bus_rows.delayed_ids, limit=limit))
        while ids:
            page, taken = await self._store.read("read delayed signals", partial(bus_rows.delayed_of, ids=ids))
            ids = ids[taken:]
            yield page

    async def due(self, now: int, limit: int) -> Sequence[Delayed]:
        return await self._store.read("read delayed signals", partial(bus_rows.due, now=now, limit=limit))

    async def next_due(self, now: int) -> int | None:
        return await self._store.read("read delayed signals", partial(bus_rows.next_due, now=now))

    async def clock_was_set(self, now: int) -> None:
        await self._change("plan anew by a clock that was set", bus_rules.clock_was_set, now)

    async def dispatch(self, entries: Sequence[Delayed], now: int) -> Announced:
        size = sum(len(msgspec.json.encode(entry)) for entry in entries)
        announced: Announced = await self._change("dispatch signals", bus_rules.dispatch, entries, now, size=size)
        return announced

    async def dispatch_failed(self, entry: Delayed, reason: str, now: int) -> Dead | None:
        dead: Dead | None = await self._change("put a signal off", bus_rules.dispatch_failed, entry, reason, now)
        return dead

    # Delivering

    async def mail(self) -> Sequence[tuple[str, str]]:
        query = f"select crew, agent from mailboxes where unread > 0 and {whole('mailboxes')}"  # noqa: S608 - constants
        return await self._store.read("read who has mail", lambda connection: connection.execute(query).fetchall())

    async def take(self, taking: Taking) -> tuple[Heard, ...]:
        taken: tuple[Heard, ...] = await self._change("take mail", bus_rules.take, taking)
        return taken

    async def awaiting(self, now: int) -> Sequence[tuple[str, str]]:
        return await self._store.read("read deliveries", partial(bus_rows.awaiting, now=now))

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        test, values = "crew = ? and agent = ? and try_at <= ?", (crew, agent, now)
        found = await self._store.read("read deliveries", partial(bus_rows.deliveries, test=test, values=values))
        return found[0] if found else None

    async def delivery_failed(self, number: int, reason: str, now: int) -> Dead | None:
        dead: Dead | None = await self._change("put a delivery off", bus_rules.delivery_failed, number, reason, now)
        return dead

    async def dead(self, limit: int) -> Sequence[Dead]:
        return await self._store.read("read dead letters", partial(bus_rows.dead, limit=limit))

    async def dead_pages(self, limit: int) -> AsyncIterator[Sequence[Dead]]:
        numbers = await self._store.read("read dead letters", partial(bus_rows.dead_numbers, limit=limit))
        while numbers:
            page, taken = await self._store.read("read dead letters", partial(bus_rows.dead_of, ids=numbers))
            numbers = numbers[taken:]
            yield page

    async def revive(self, id: str) -> int:  # noqa: A002
        return int(await self._change("deliver dead letters again", bus_rules.revive, id))
