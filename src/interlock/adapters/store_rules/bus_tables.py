"""The tables that the rules of the bus work on. Every store has its own."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple, Protocol

from interlock.broadcast.delayed import (
    BroadcastDeadLetter,
    DelayedBroadcast,
)
from interlock.broadcast.presence import PresenceChange
from interlock.broadcast.rate_limits import AnnouncementCounts
from interlock.broadcast.record import Broadcast, ReceivedBroadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.ports import Delivery

AgentsWithHops = tuple[tuple[str, int], ...]


class BroadcastAge(NamedTuple):
    """Broadcasts stored in one row: their last position, their number, and their time; None if damaged."""

    position: int
    broadcasts: int
    created_at: int | None


class BusTables(AnnouncementCounts, Protocol):
    """The tables of the bus in a store."""

    def append_broadcast(self, broadcast: Broadcast, hops: int) -> int | None:
        """Appends a broadcast. Returns its position; None if the id is stored already."""
        ...

    def position_of(self, id: str) -> int | None: ...  # noqa: A002

    def newest_row(self) -> int:
        """The position of the newest row of broadcasts; 0 if there is none."""
        ...

    def append_presence(self, lifecycle: PresenceChange) -> None:
        """Appends presence changes without subscribers, in one row."""
        ...

    def presence_ids_among(self, ids: Sequence[str]) -> Set[str]:
        """Those ids that are presence changes without subscribers."""
        ...

    def page(self, after: int, limit: int) -> Sequence[BroadcastAge]:
        """The rows after a position."""
        ...

    def pending_positions(self, first: int, last: int) -> Set[int]:
        """The positions between two that still wait for a subscriber."""
        ...

    def delete_broadcasts(self, positions: Iterable[int]) -> None: ...

    def has_subscribers(self) -> bool:
        """Whether there is any subscription."""
        ...

    def subscribers_of(self, kind: str, crew: str, agent: str) -> tuple[Subscriber, ...]: ...

    def add_to_inbox(self, crew: str, agent: str, position: int) -> int:
        """Adds to an inbox. Returns how many are unread then."""
        ...

    def pop_oldest_unread(self, crew: str, agent: str) -> ReceivedBroadcast | None:
        """Removes the oldest unread broadcast from an inbox and returns it."""
        ...

    def claim(self, crew: str, agent: str, key: str, limit: int) -> None:
        """Claims the oldest unread broadcasts under a key."""
        ...

    def broadcasts_claimed_by(self, key: str) -> tuple[ReceivedBroadcast, ...]: ...

    def ack(self, key: str) -> None: ...

    def unclaim(self, key: str) -> None:
        """Makes the broadcasts claimed under a key unread again."""
        ...

    def queue_delivery(self, crew: str, agent: str, position: int) -> int:
        """Queues a delivery. Returns how many this agent has."""
        ...

    def oldest_delivery(self, crew: str, agent: str) -> Delivery | None: ...

    def delivery(self, number: int) -> Delivery | None: ...

    def drop_delivery(self, number: int) -> None: ...

    def retry_delivery(self, number: int, attempts: int, try_at: int) -> None: ...

    def clear_retries_after(self, after: int) -> None:
        """Makes deliveries due now that would be retried after a time."""
        ...

    def change_presence(
        self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes who ended and began work in a run, as `ActiveAgents.change`."""
        ...

    def subscriptions_of(self, crew: str, agent: str | None = None) -> Sequence[AgentSubscription]:
        """The subscriptions of a crew, or of one of its agents."""
        ...

    def put_subscription(self, subscribed: AgentSubscription) -> None: ...

    def drop_subscription(self, crew: str, agent: str, pattern: str) -> bool: ...

    def set_crew_sha(self, crew: str, sha: str) -> None: ...

    def entry(self, id: str) -> DelayedBroadcast | None: ...  # noqa: A002

    def entry_by_repeat_key(self, kind: str, repeat_key: str) -> DelayedBroadcast | None: ...

    def put_entry(self, entry: DelayedBroadcast) -> None: ...

    def drop_entry(self, id: str) -> None: ...  # noqa: A002

    def entries_ahead(self, now: int) -> Sequence[DelayedBroadcast]:
        """Delayed broadcasts that are not due yet and were changed after now."""
        ...

    def add_dead_letter(self, dead: BroadcastDeadLetter) -> None: ...

    def dead_letters_of(self, id: str) -> Sequence[BroadcastDeadLetter]: ...  # noqa: A002

    def remove_dead_letter(self, id: str) -> None: ...  # noqa: A002
