"""The bus: broadcasts, subscriptions, inboxes, deliveries and delayed broadcasts."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from interlock.broadcast.delayed import BroadcastDeadLetter, DelayedBroadcast
from interlock.broadcast.record import Broadcast, Emission, ReceivedBroadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.crew.definition import CrewDefinition

# What another process has changed, for those who watch: broadcasts and deliveries, runs that can be claimed, orders for
# runs, schedules, providers that take no calls; or anything.
Topic = Literal["all", "bus", "claims", "orders", "schedules", "providers"]


class Activity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Agents of a run that started or ended work. An agent wakes at its first start and sleeps at its last end.

    Each comes with the hops of its broadcast. The ids of these broadcasts are made of `name` and `place`. With a record
    the run, its seq and its time give all but the agents (`AtomicWrites`).
    """

    name: str
    place: int
    crew: str
    run: str
    at: int
    ended: tuple[tuple[str, int], ...] = ()
    begun: tuple[tuple[str, int], ...] = ()


class InboxClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on the inbox of an agent. The same key gets the same answer."""

    key: str
    crew: str
    agent: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast that an agent must act on."""

    number: int
    crew: str
    agent: str
    heard: ReceivedBroadcast
    attempts: int = 0


class BroadcastOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The subscribers reached, and the broadcasts withheld, with the reason. `news`: something was stored."""

    reached: tuple[Subscriber, ...] = ()
    withheld: tuple[tuple[Broadcast, str], ...] = ()
    news: bool = False


NO_BROADCASTS = BroadcastOutcome()


def subscriptions_of_file(crew: CrewDefinition) -> list[AgentSubscription]:
    """The subscriptions in the file of a crew."""
    return [
        AgentSubscription(
            crew=crew.name, agent=each.agent, pattern=each.pattern.strip(), silent=each.silent, origin="file"
        )
        for each in crew.subscriptions
    ]


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """The number of deleted broadcasts, and the position after which there may be more old ones."""

    gone: int
    further: int | None


class Bus(Protocol):
    """Broadcasts, their subscribers, and delayed broadcasts. One transaction per call."""

    async def emit(self, emission: Emission) -> BroadcastOutcome:
        """Stores a broadcast and delivers it to its subscribers; once per id."""
        ...

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        """Stores broadcasts of another store without delivering them. Returns how many were new."""
        ...

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        """The newest broadcasts, the oldest of them first."""
        ...

    def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        """The same in pages that end at `PAGE_BYTES_MAX`, each read when it is requested."""
        ...

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        """The broadcasts after a position, each with its position; damaged ones are left out.

        It stops at `PAGE_BYTES_MAX`, and is never empty while there are more.
        """
        ...

    async def head(self) -> int:
        """The position of the newest."""
        ...

    async def prune(self, before: int, after: int = 0) -> PruneResult:
        """Deletes broadcasts before a time, of one page after a position; not those that wait for a subscriber."""
        ...

    async def subscribe(self, subscribed: AgentSubscription) -> None:
        """`UsageError` if the agent has the most subscriptions allowed."""
        ...

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        """Removes a subscription. Returns whether there was one."""
        ...

    async def declare_subscriptions(self, crew: str, sha: str, subscriptions: Sequence[AgentSubscription]) -> None:
        """Stores the subscriptions of the newest file of a crew, and removes those of older files."""
        ...

    async def crew_sha(self, crew: str) -> str:
        """The sha256 of the newest file of a crew; empty if none was declared."""
        ...

    async def subscriptions(self) -> Sequence[AgentSubscription]: ...

    async def schedule(self, entry: DelayedBroadcast) -> DelayedBroadcast | None:
        """Queues a delayed broadcast. Returns the one that it replaces."""
        ...

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> DelayedBroadcast | None:  # noqa: A002
        """Cancels by id, or by type and repeatKey. Returns what was cancelled."""
        ...

    async def list_delayed(self, limit: int | None = None) -> Sequence[DelayedBroadcast]:
        """The delayed broadcasts, the next due first."""
        ...

    def pages_of_delayed(self, limit: int) -> AsyncIterator[Sequence[DelayedBroadcast]]:
        """The same in pages, as `newest_pages`."""
        ...

    async def due_broadcasts(self, now: int, limit: int) -> Sequence[DelayedBroadcast]: ...

    async def next_due(self, now: int) -> int | None:
        """The next time after now when a delayed broadcast or a retry of a delivery is due."""
        ...

    async def replan_after_clock_change(self, now: int) -> None:
        """Plans again what was planned or postponed by a clock that was ahead of this one."""
        ...

    async def dispatch(self, entries: Sequence[DelayedBroadcast], now: int) -> BroadcastOutcome:
        """Emits each entry that is unchanged in the queue, and removes or replans it, in one transaction."""
        ...

    async def record_dispatch_failure(
        self, entry: DelayedBroadcast, reason: str, now: int
    ) -> BroadcastDeadLetter | None:
        """Plans another attempt; after the last one it becomes a dead letter."""
        ...

    async def agents_with_unread(self) -> Sequence[tuple[str, str]]:
        """Crews and agents with unread broadcasts in their inbox."""
        ...

    async def claim_inbox(self, claim: InboxClaim) -> tuple[ReceivedBroadcast, ...]:
        """Claims in a transaction of its own, if the answer to a claim was lost."""
        ...

    async def agents_with_deliveries(self, now: int) -> Sequence[tuple[str, str]]:
        """Crews and agents with a delivery due now."""
        ...

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        """The oldest delivery of an agent that is due now."""
        ...

    async def record_delivery_failure(self, number: int, reason: str, now: int) -> BroadcastDeadLetter | None: ...

    async def record_presence(self, activity: Activity) -> BroadcastOutcome:
        """Records presence in a transaction of its own, for runs that were resumed."""
        ...

    def dead_letter_pages(self, limit: int) -> AsyncIterator[Sequence[BroadcastDeadLetter]]:
        """The same as `dead_letters` in pages, as `newest_pages`."""
        ...

    async def dead_letters(self, limit: int) -> Sequence[BroadcastDeadLetter]:
        """The newest first."""
        ...

    async def retry_dead_letters(self, id: str) -> int:  # noqa: A002
        """Delivers the dead letters of this id again. Returns how many."""
        ...

    def version(self) -> int | None:
        """A number that changes when another process has changed the bus; None while it is unknown.

        It must be cheap: it is read before every record.
        """
        ...

    @property
    def tells_claims(self) -> bool:
        """Whether watchers of `claims` are called whenever a run can be claimed, also if its process died."""
        ...

    def watch(self, changed: Callable[[], None], about: Topic = "all") -> Callable[[], None]:
        """Calls back when another process has changed something. Returns a function that stops it.

        With a topic, at least for changes of that kind: a store may call back for others too.
        """
        ...
