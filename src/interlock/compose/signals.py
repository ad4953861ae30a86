"""Broadcasts for the program that embeds Interlock, the command line and the server: `box.signals`.

Rule 1: Interlock says who a broadcast is from: this process, unless it is asked for as somebody else by whoever may.
Rule 2: whoever listens reads the store, so that somebody slow misses nothing and holds up nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.new_ids import new_broadcast_id
from interlock.adapters.signal_import import Found
from interlock.broadcast.delayed import Dead, Delayed, checked_repeat_key, checked_time
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import (
    PROCESS,
    UNSET,
    Broadcast,
    Emission,
    Source,
    checked_data,
    checked_id,
    checked_source,
    checked_type,
)
from interlock.broadcast.schedules import Schedule, checked_schedule, next_after
from interlock.broadcast.subscriptions import Subscribed, checked_pattern
from interlock.crew.definition import Crew
from interlock.errors import BadBroadcast, UnknownSubscriber, UsageError, nearest
from interlock.limits import BROADCASTS_LISTED_MAX
from interlock.ports import Bus, Clock, of_file
from interlock.runtime.switchboard import Switchboard

# Read at a time by whoever listens.
PAGE = 500

Kept = TypeVar("Kept", Broadcast, Delayed)

# A crew as it was kept under its sha.
CrewOf = Callable[[str], Awaitable[Crew]]


class Signals:
    """Announce, listen, subscribe agents, and see to signals for later."""

    def __init__(
        self, board: Switchboard, clock: Clock, keys: KnownKeys, crew_of: CrewOf, own: Source = PROCESS
    ) -> None:
        self._board, self._clock, self._keys, self._crew_of, self._own = board, clock, keys, crew_of, own
        self._declared: dict[str, str] = {}

    @property
    def bus(self) -> Bus:
        return self._board.bus

    def as_process(self, name: str) -> "Signals":
        """The same, from a process of this name."""
        return self._as(Source(type="process", id=checked_id(name)))

    def as_webhook(self, name: str) -> "Signals":
        """The same, from a webhook; for the server that has verified it."""
        return self._as(Source(type="webhook", id=checked_id(name)))

    def _as(self, own: Source) -> "Signals":
        return Signals(self._board, self._clock, self._keys, self._crew_of, own)

    # Announcing and listening

    async def emit(self, type: str, data: Any = UNSET, *, source: Any = None) -> Broadcast:  # noqa: A002
        """It is kept, and before all who hear it, when this returns."""
        own = checked_source(source, self._own)
        broadcast, _ = await self.announce(new_broadcast_id(), type, data, own)
        return broadcast

    async def announce(self, id: str, type: str, data: Any, source: Source) -> tuple[Broadcast, bool]:  # noqa: A002
        """The same under an id, once however often it is asked for; with whether it is news."""
        broadcast = Broadcast(
            id=id,
            type=self._without_secret("type", checked_type(type)),
            source=source,
            data=self._keys.hidden_value(checked_data(data)),
            created_at=self._clock.now_ms(),
        )
        outcome = await self.bus.emit(Emission(broadcast=broadcast))
        self._board.announced(outcome)
        return broadcast, outcome.news

    def _without_secret(self, what: str, name: str) -> str:
        """A name is compared, so that nothing of it can be replaced: one that holds a secret is refused."""
        if self._keys.hidden(name) != name:
            raise BadBroadcast(what, self._keys.hidden(name)[:80], "holds a secret of this host")
        return name

    async def newest(self, limit: int = 200, pattern: str | None = None) -> Sequence[Broadcast]:
        """The oldest of them first."""
        _require_limit(limit)
        return await self.bus.newest(limit, None if pattern is None else checked_pattern(pattern))

    def newest_pages(self, limit: int = 200, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        """The same page by page, for lists that may be larger than should be held at once."""
        _require_limit(limit)
        return self.bus.newest_pages(limit, None if pattern is None else checked_pattern(pattern))

    async def subscribe(self, pattern: str, *, after: int | None = None) -> AsyncIterator[Broadcast]:
        """What is announced after a position, or from its first step on, by whomever; it ends with the box."""
        checked, position = checked_pattern(pattern), await self.bus.head() if after is None else after
        async for _, broadcast in self.stream(position):
            if matches(checked, broadcast.type):
                yield broadcast

    async def stream(self, position: int) -> AsyncIterator[tuple[int, Broadcast]]:
        """Everything after a position, each with its own."""
        with self._board.listening() as listener:
            while self._board.is_open:
                listener.clear()
                while page := await self.bus.since(position, PAGE):
                    for position, broadcast in page:
                        yield position, broadcast
                await listener.wait()

    # Who hears what

    async def add(self, crew: str, agent: str, pattern: str, *, silent: bool = True) -> Subscribed:
        """Subscribes an agent; `UnknownSubscriber` unless the crew was run, served or listened for in this folder."""
        pattern = self._without_secret("pattern", checked_pattern(pattern))
        subscribed = Subscribed(crew=crew, agent=agent, pattern=pattern, silent=silent)
        await self._require_agent(crew, agent)
        await self.bus.subscribe(subscribed)
        return subscribed

    async def _require_agent(self, crew: str, agent: str) -> None:
        sha = await self.bus.crew_sha(crew)
        if not sha:
            raise UnknownSubscriber(
                f"no crew '{crew[:80]}' is known here; run it once in this data folder, or serve it"
            )
        known = (await self._crew_of(sha)).agent_ids
        if agent not in known:
            advice = nearest(agent, known, f"its agents are {', '.join(known)}")
            raise UnknownSubscriber(f"crew '{crew}' has no agent '{agent[:80]}'; {advice}")

    async def remove(self, crew: str, agent: str, pattern: str) -> bool:
        """Whether there was such a subscription."""
        return await self.bus.unsubscribe(crew, agent, pattern.strip())  # also one that older versions took

    async def subscriptions(self) -> Sequence[Subscribed]:
        return await self.bus.subscriptions()

    async def declare(self, crew: Crew, sha: str) -> None:
        """What the file of a crew, and of those it calls, subscribes to. Asking again costs nothing."""
        crews = crew.whole_tree()
        shas = {id(entry.crew): entry.crew_sha for each in crews for entry in each.sub_crews.values()}
        for each in crews:
            own = shas.get(id(each), sha)
            if self._declared.get(each.name) != own:
                await self.bus.declare(each.name, own, of_file(each))
                self._declared[each.name] = own

    # Later

    async def schedule(
        self,
        type: str,  # noqa: A002
        data: Any = UNSET,
        *,
        at: int | None = None,
        in_ms: int | None = None,
        repeat: Schedule | None = None,
        repeat_key: str | None = None,
        source: Any = None,
        id: str = "",  # noqa: A002
    ) -> Delayed:
        """Queues a signal: `at` a time, in so many milliseconds, or when its schedule says first.

        What is scheduled twice under the same id is there once.
        """
        now = self._clock.now_ms()
        entry = Delayed(
            id=id or new_broadcast_id(),
            type=self._without_secret("type", checked_type(type)),
            source=checked_source(source, self._own),
            deliver_at=_first(at, in_ms, repeat, now),
            created_at=now,
            updated_at=now,
            data=self._keys.hidden_value(checked_data(data)),
            repeat_key=self._repeat_key(repeat_key),
            schedule=repeat,
        )
        await self.bus.schedule(entry)
        self._board.scheduled()
        return entry

    def _repeat_key(self, repeat_key: str | None) -> str | None:
        checked = checked_repeat_key(repeat_key)
        return checked if checked is None else self._without_secret("repeatKey", checked)

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> Delayed | None:  # noqa: A002
        """By id, or by type and repeatKey; gives what was cancelled."""
        if bool(id) == bool(type and repeat_key):
            raise UsageError("name either the id of a delayed signal, or its type and its repeatKey")
        gone = await self.bus.cancel(id, type=type, repeat_key=repeat_key)
        self._board.scheduled()
        return gone

    async def delayed(self, limit: int | None = None) -> Sequence[Delayed]:
        return await self.bus.delayed(limit)

    async def dead(self, limit: int = 200) -> Sequence[Dead]:
        """What could not be delivered, the newest first."""
        return await self.bus.dead(limit)

    async def revive(self, id: str) -> int:  # noqa: A002
        """Delivers dead letters again."""
        number = await self.bus.revive(id)
        self._board.scheduled()
        return number

    async def take_in(self, found: Found) -> tuple[int, int]:
        """What files of the original program hold: broadcasts that were not known, and signals for later."""
        new = await self.bus.restore([self._redacted(each) for each in found.broadcasts])
        await asyncio.gather(*(self.bus.schedule(self._redacted(entry)) for entry in found.delayed))
        self._board.scheduled()
        return new, len(found.delayed)

    def _redacted(self, kept: Kept) -> Kept:
        return msgspec.structs.replace(kept, data=self._keys.hidden_value(kept.data))


def _require_limit(limit: int) -> None:
    if not 1 <= limit <= BROADCASTS_LISTED_MAX:
        raise UsageError(f"a limit of {limit} is not between 1 and {BROADCASTS_LISTED_MAX}")


def _first(at: int | None, in_ms: int | None, repeat: Schedule | None, now: int) -> int:
    if repeat is not None:
        checked_schedule(repeat)
    if at is not None and in_ms is not None:
        raise UsageError("say when either by a time or by a delay, not by both")
    if at is None and in_ms is None:
        if repeat is None:
            raise UsageError("say when: at a time, after a delay, or by a schedule")
        return next_after(repeat, now)
    return checked_time(at if at is not None else now + (in_ms or 0), now)
