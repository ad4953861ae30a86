"""Broadcasts for the program that embeds Interlock, the command line and the server: `box.signals`.

Rule 1: Interlock sets the source of a broadcast: this process, unless an authorized caller asks for another one.
Rule 2: subscribers read the store, so that a slow one misses nothing and delays no other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.files.signal_import import SignalImport
from interlock.adapters.new_ids import new_broadcast_id
from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast, require_repeat_key, require_time
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import (
    PROCESS,
    UNSET,
    Broadcast,
    Emission,
    Source,
    require_broadcast_data,
    require_broadcast_type,
    require_own_source,
    require_source_id,
)
from interlock.broadcast.schedules import Schedule, next_after, require_schedule
from interlock.broadcast.subscriptions import AgentSubscription, require_pattern
from interlock.crew.definition import CrewDefinition
from interlock.errors import BadBroadcast, UnknownSubscriber, UsageError, nearest
from interlock.limits import BROADCASTS_LISTED_MAX
from interlock.ports import Bus, Clock, subscriptions_of_file
from interlock.runtime.broadcasts import BroadcastHub

# Broadcasts per read of a stream.
PAGE = 500

Kept = TypeVar("Kept", Broadcast, DelayedBroadcast)

# Returns a stored crew by its sha.
CrewOf = Callable[[str], Awaitable[CrewDefinition]]


class Signals:
    """Emits broadcasts, reads them, subscribes agents, and manages delayed signals."""

    def __init__(
        self, hub: BroadcastHub, clock: Clock, keys: KnownSecrets, crew_of: CrewOf, own: Source = PROCESS
    ) -> None:
        self._hub, self._clock, self._keys, self._crew_of, self._own = hub, clock, keys, crew_of, own
        self._declared: dict[str, str] = {}
        self._declaring = asyncio.Lock()

    @property
    def bus(self) -> Bus:
        return self._hub.bus

    def as_process(self, name: str) -> "Signals":
        """The same signals, with a named process as the source."""
        return self._with_source(Source(type="process", id=require_source_id(name)))

    def as_webhook(self, name: str) -> "Signals":
        """The same signals, with a webhook as the source; for the server, which has verified it."""
        return self._with_source(Source(type="webhook", id=require_source_id(name)))

    def _with_source(self, own: Source) -> "Signals":
        return Signals(self._hub, self._clock, self._keys, self._crew_of, own)

    # Announcing and listening

    async def emit(self, type: str, data: Any = UNSET, *, source: Any = None) -> Broadcast:  # noqa: A002
        """Emits a broadcast; when this returns it is stored and queued for all subscribers."""
        own = require_own_source(source, self._own)
        broadcast, _ = await self.announce(new_broadcast_id(), type, data, own)
        return broadcast

    async def announce(self, id: str, type: str, data: Any, source: Source) -> tuple[Broadcast, bool]:  # noqa: A002
        """Emits a broadcast with an id, at most once; also returns True if it is new."""
        broadcast = Broadcast(
            id=id,
            type=self._require_no_secret("type", require_broadcast_type(type)),
            source=source,
            data=self._keys.redact_value(require_broadcast_data(data)),
            created_at=self._clock.now_ms(),
        )
        outcome = await self.bus.emit(Emission(broadcast=broadcast))
        self._hub.on_broadcasts(outcome)
        return broadcast, outcome.news

    def _require_no_secret(self, what: str, name: str) -> str:
        """Refuses a name that contains a secret: names are compared, so they cannot be redacted."""
        if self._keys.redact(name) != name:
            raise BadBroadcast(what, self._keys.redact(name)[:80], "contains a secret of this host")
        return name

    async def newest(self, limit: int = 200, pattern: str | None = None) -> Sequence[Broadcast]:
        """The newest broadcasts, the oldest of them first."""
        _require_limit(limit)
        return await self.bus.newest(limit, None if pattern is None else require_pattern(pattern))

    def newest_pages(self, limit: int = 200, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        """The newest broadcasts page by page, for lists too large for memory."""
        _require_limit(limit)
        return self.bus.newest_pages(limit, None if pattern is None else require_pattern(pattern))

    async def subscribe(self, pattern: str, *, after: int | None = None) -> AsyncIterator[Broadcast]:
        """Broadcasts after a position, or from now on, from any process; ends when the box closes."""
        checked, position = require_pattern(pattern), await self.bus.head() if after is None else after
        async for _, broadcast in self.stream(position):
            if matches(checked, broadcast.type):
                yield broadcast

    async def stream(self, position: int) -> AsyncIterator[tuple[int, Broadcast]]:
        """Broadcasts after a position, each with its own position."""
        with self._hub.open_listener() as listener:
            while self._hub.is_open:
                listener.clear()
                while page := await self.bus.since(position, PAGE):
                    for position, broadcast in page:
                        yield position, broadcast
                await listener.wait()

    # Subscriptions

    async def add(self, crew: str, agent: str, pattern: str, *, silent: bool = True) -> AgentSubscription:
        """Subscribes an agent; raises `UnknownSubscriber` unless the crew was run, served or listened for here."""
        pattern = self._require_no_secret("pattern", require_pattern(pattern))
        subscribed = AgentSubscription(crew=crew, agent=agent, pattern=pattern, silent=silent)
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
        """Removes a subscription; False if there was none."""
        return await self.bus.unsubscribe(crew, agent, pattern.strip())  # also one that older versions accepted

    async def subscriptions(self) -> Sequence[AgentSubscription]:
        return await self.bus.subscriptions()

    async def declare_subscriptions(self, crew: CrewDefinition, sha: str) -> None:
        """Stores the subscriptions of a crew's file and of its sub-crews. Repeating it costs nothing."""
        crews = crew.whole_tree()
        shas = {id(entry.crew): entry.crew_sha for each in crews for entry in each.sub_crews.values()}
        for each in crews:
            own = shas.get(id(each), sha)
            if self._declared.get(each.name) != own:
                async with self._declaring:  # starts that come together declare theirs once
                    await self._declare(each, own)

    async def _declare(self, crew: CrewDefinition, sha: str) -> None:
        if self._declared.get(crew.name) != sha:
            await self.bus.declare_subscriptions(crew.name, sha, subscriptions_of_file(crew))
            self._declared[crew.name] = sha

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
    ) -> DelayedBroadcast:
        """Queues a signal: `at` a time, after `in_ms`, or at the first time of its schedule.

        A signal that is scheduled twice with the same id is queued once.
        """
        now = self._clock.now_ms()
        entry = DelayedBroadcast(
            id=id or new_broadcast_id(),
            type=self._require_no_secret("type", require_broadcast_type(type)),
            source=require_own_source(source, self._own),
            deliver_at=_first_time(at, in_ms, repeat, now),
            created_at=now,
            updated_at=now,
            data=self._keys.redact_value(require_broadcast_data(data)),
            repeat_key=self._repeat_key(repeat_key),
            schedule=repeat,
        )
        await self.bus.schedule(entry)
        self._hub.on_queue_changed()
        return entry

    def _repeat_key(self, repeat_key: str | None) -> str | None:
        checked = require_repeat_key(repeat_key)
        return checked if checked is None else self._require_no_secret("repeatKey", checked)

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> DelayedBroadcast | None:  # noqa: A002
        """Cancels delayed signals by id, or by type and repeatKey; returns the cancelled ones."""
        if bool(id) == bool(type and repeat_key):
            raise UsageError("give either the id of a delayed signal, or its type and its repeatKey")
        gone = await self.bus.cancel(id, type=type, repeat_key=repeat_key)
        self._hub.on_queue_changed()
        return gone

    async def list_delayed(self, limit: int | None = None) -> Sequence[DelayedBroadcast]:
        return await self.bus.list_delayed(limit)

    async def dead_letters(self, limit: int = 200) -> Sequence[BroadcastDeadLetter]:
        """Dead letters, the newest first."""
        return await self.bus.dead_letters(limit)

    async def retry_dead_letters(self, id: str) -> int:  # noqa: A002
        """Delivers dead letters again."""
        number = await self.bus.retry_dead_letters(id)
        self._hub.on_queue_changed()
        return number

    async def import_signals(self, found: SignalImport) -> tuple[int, int]:
        """Imports files of the original program; counts new broadcasts and delayed signals."""
        new = await self.bus.restore([self._redact(each) for each in found.broadcasts])
        await asyncio.gather(*(self.bus.schedule(self._redact(entry)) for entry in found.delayed))
        self._hub.on_queue_changed()
        return new, len(found.delayed)

    def _redact(self, kept: Kept) -> Kept:
        return msgspec.structs.replace(kept, data=self._keys.redact_value(kept.data))


def _require_limit(limit: int) -> None:
    if not 1 <= limit <= BROADCASTS_LISTED_MAX:
        raise UsageError(f"a limit of {limit} is not between 1 and {BROADCASTS_LISTED_MAX}")


def _first_time(at: int | None, in_ms: int | None, repeat: Schedule | None, now: int) -> int:
    if repeat is not None:
        require_schedule(repeat)
    if at is not None and in_ms is not None:
        raise UsageError("give either a time or a delay, not both")
    if at is None and in_ms is None:
        if repeat is None:
            raise UsageError("give one of --in, --at, --every, --daily (in Python: in_ms, at or repeat)")
        return next_after(repeat, now)
    return require_time(at if at is not None else now + (in_ms or 0), now)
