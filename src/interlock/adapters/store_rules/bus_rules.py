"""The rules of the bus over its tables. They are pure, and the same for every store.

Rule 1: a broadcast is stored once, however often it is emitted, and delivered only when it is new.
Rule 2: a silent subscription fills an inbox, any other the queue of deliveries. When one is full, its oldest broadcast
becomes a dead letter; none is lost.
Rule 3: a broadcast beyond a rate limit is stored, reaches no subscriber, and becomes a dead letter.
Rule 4: an agent wakes when its first turn in any run starts, and sleeps when its last one has ended. That is stored as
broadcasts only if one of them has subscribers.
"""

from collections.abc import Iterable, Sequence

import msgspec

from interlock.adapters.store_rules.bus_tables import AgentsWithHops, BusTables
from interlock.broadcast.delayed import (
    BroadcastDeadLetter,
)
from interlock.broadcast.naming import sleep_type, wake_type
from interlock.broadcast.presence import PresenceChange, broadcasts_of, presence_series
from interlock.broadcast.rate_limits import check_rate_limits, describe_refusal
from interlock.broadcast.record import SYSTEM, Broadcast, Emission, ReceivedBroadcast
from interlock.broadcast.subscriptions import AgentSubscription, Subscriber
from interlock.errors import AlreadyHeard, NoSuchSignal, UsageError
from interlock.limits import DELIVERY_PAUSES_MS, INBOX_MAX, INBOX_TAKEN_MAX, SUBSCRIPTIONS_PER_AGENT_MAX
from interlock.ports import (
    NO_BROADCASTS,
    Activity,
    AtomicWrites,
    BroadcastOutcome,
    InboxClaim,
    PruneResult,
    Record,
    RunRow,
)

# Rows per transaction of pruning; other writers wait for it.
PRUNE_BATCH_MAX = 1_000

PRESENCE_ONLY = BroadcastOutcome(news=True)

NO_RUNS: set[str] = set()

INBOX_FULL = "the inbox of this agent is full, and newer broadcasts arrived"


def announce(tables: BusTables, emissions: Iterable[Emission]) -> BroadcastOutcome:
    reached: list[Subscriber] = []
    withheld: list[tuple[Broadcast, str]] = []
    news = False
    for emission in emissions:
        position = tables.append_broadcast(emission.broadcast, emission.hops)
        if position is None:
            continue
        news = True
        subscribers = _subscribers_of_emission(tables, emission)
        reason = _check_rate_limits(tables, emission) if subscribers else ""
        if reason:
            tables.add_dead_letter(_dead_letter_of_withheld(emission, reason))
            withheld.append((emission.broadcast, reason))
        else:
            _deliver_to_subscribers(tables, subscribers, position, emission.broadcast.created_at)
            reached += subscribers
    return BroadcastOutcome(reached=tuple(reached), withheld=tuple(withheld), news=news)


def restore(tables: BusTables, broadcasts: Sequence[Broadcast]) -> int:
    known = tables.presence_ids_among([each.id for each in broadcasts if each.source == SYSTEM])
    return sum(each.id not in known and tables.append_broadcast(each, 0) is not None for each in broadcasts)


def prune(tables: BusTables, before: int, after: int) -> PruneResult:
    """Deletes old broadcasts of one page. The newest stays, so that no position is used twice; damaged ones stay too.

    Positions are in the order of time, except for imported broadcasts, so a page without an old one is the end.
    """
    page = tables.page(after, PRUNE_BATCH_MAX)
    if not page:
        return PruneResult(gone=0, further=None)
    first, last = page[0].position, page[-1].position
    stay = {*tables.pending_positions(first, last), tables.newest_row()}
    old = [each for each in page if each.created_at is not None and each.created_at < before]
    gone = [each for each in old if each.position not in stay]
    tables.delete_broadcasts([each.position for each in gone])
    return PruneResult(gone=sum(each.broadcasts for each in gone), further=last if old else None)


def _subscribers_of_emission(tables: BusTables, emission: Emission) -> tuple[Subscriber, ...]:
    subscribers = tables.subscribers_of(emission.broadcast.type, emission.crew, emission.agent)
    if not emission.told:
        return subscribers
    return tuple(each for each in subscribers if each.crew != emission.crew or each.agent not in emission.told)


def _check_rate_limits(tables: BusTables, emission: Emission) -> str:
    who, at = name_in_rate_counts(emission), emission.broadcast.created_at
    return check_rate_limits(tables, crew=emission.crew, agent=who, hops=emission.hops, at=at)


def name_in_rate_counts(emission: Emission) -> str:
    """The agent that a broadcast counts for. Broadcasts by an agent and about an agent are counted separately."""
    is_own = emission.broadcast.source.type == "agent"
    return emission.agent if is_own or not emission.agent else f"{emission.agent}:"


def _dead_letter_of_withheld(emission: Emission, reason: str) -> BroadcastDeadLetter:
    broadcast, at = emission.broadcast, emission.broadcast.created_at
    return BroadcastDeadLetter(
        id=broadcast.id, broadcast=broadcast, reason=describe_refusal(reason), at=at, from_crew=emission.crew
    )


def _deliver_to_subscribers(tables: BusTables, subscribers: Iterable[Subscriber], position: int, at: int) -> None:
    for subscriber in subscribers:
        keep = tables.add_to_inbox if subscriber.silent else tables.queue_delivery
        if keep(subscriber.crew, subscriber.agent, position) > INBOX_MAX:
            _evict_oldest(tables, subscriber, at)


def _evict_oldest(tables: BusTables, subscriber: Subscriber, at: int) -> None:
    oldest = (
        tables.pop_oldest_unread(subscriber.crew, subscriber.agent)
        if subscriber.silent
        else _pop_oldest_delivery(tables, subscriber)
    )
    if oldest is not None:
        broadcast = oldest.broadcast
        tables.add_dead_letter(
            BroadcastDeadLetter(
                id=broadcast.id,
                broadcast=broadcast,
                reason=INBOX_FULL,
                at=at,
                for_crew=subscriber.crew,
                for_agent=subscriber.agent,
                silent=subscriber.silent,
            )
        )


def _pop_oldest_delivery(tables: BusTables, subscriber: Subscriber) -> ReceivedBroadcast | None:
    oldest = tables.oldest_delivery(subscriber.crew, subscriber.agent)
    if oldest is None:
        return None
    tables.drop_delivery(oldest.number)
    return oldest.heard


def merge_announcements(one: BroadcastOutcome, other: BroadcastOutcome) -> BroadcastOutcome:
    if not one.news or not other.news:
        return one if one.news else other
    return BroadcastOutcome(reached=one.reached + other.reached, withheld=one.withheld + other.withheld, news=True)


def apply_bus_writes(
    tables: BusTables, also: AtomicWrites
) -> tuple[tuple[tuple[ReceivedBroadcast, ...], ...], BroadcastOutcome]:
    """Applies the bus writes of a record, without presence. Returns the answers to its inbox claims, and the
    subscribers reached."""
    for number, name in also.heard:
        if _is_queued(tables, number, name):
            tables.drop_delivery(number)
    for key in also.taken:
        tables.ack(key)
    for key in also.put_back:
        tables.unclaim(key)
    for crew, agent, name in also.handed_back:
        if (position := tables.position_of(name)) is not None:
            tables.queue_delivery(crew, agent, position)
    claimed = tuple([claim_inbox(tables, claim) for claim in also.taking]) if also.taking else ()
    return claimed, announce(tables, also.broadcasts) if also.broadcasts else NO_BROADCASTS


def require_queued(tables: BusTables, run: str, also: AtomicWrites) -> None:
    """`AlreadyHeard` if another run has already started with this delivery."""
    for number, name in also.heard:
        if not _is_queued(tables, number, name):
            raise AlreadyHeard(run, name)


def _is_queued(tables: BusTables, number: int, name: str) -> bool:
    """Whether a delivery is queued. Numbers are reused, so the broadcast must be the same too."""
    delivery = tables.delivery(number)
    return delivery is not None and delivery.heard.broadcast.id == name


# Presence


class ActiveAgents:
    """The runs in which each agent of a crew is at work."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], set[str]] = {}

    def change(
        self, crew: str, run: str, ended: AgentsWithHops, begun: AgentsWithHops
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes who ended and began work in a run. Returns who fell asleep and who woke, with "" for all others.

        It is one function because every handoff calls it.
        """
        at_work, slept, woken = self.runs, [], []
        for agent, _ in ended:
            runs = at_work.get((crew, agent), NO_RUNS)
            if run in runs and len(runs) == 1:
                del at_work[crew, agent]
                slept.append(agent)
            else:
                runs.discard(run)
                slept.append("")
        for agent, _ in begun:
            if (crew, agent) in at_work:
                at_work[crew, agent].add(run)
                woken.append("")
            else:
                at_work[crew, agent] = {run}
                woken.append(agent)
        return tuple(slept), tuple(woken)

    def are_active(self, crew: str, run: str, agents: AgentsWithHops) -> bool:
        """Whether all of them are known to work in a run."""
        return all(run in self.runs.get((crew, agent), NO_RUNS) for agent, _ in agents)


def activity_of_record(row: RunRow, record: Record, also: AtomicWrites) -> Activity:
    """The agents that ended and began work with a record, as their broadcasts are named."""
    return Activity(
        name=presence_series(row.run),
        place=record.seq,
        crew=row.crew,
        run=row.run,
        at=record.at,
        ended=also.ended,
        begun=also.begun,
    )


def record_presence(tables: BusTables, activity: Activity) -> BroadcastOutcome:
    """Emits wake and sleep broadcasts for agents whose presence changed."""
    slept, woken = tables.change_presence(activity.crew, activity.run, activity.ended, activity.begun)
    if not any(slept) and not any(woken):
        return NO_BROADCASTS
    lifecycle = PresenceChange(activity.name, activity.place, activity.at, slept, woken)
    if tables.has_subscribers() and has_presence_subscribers(tables, activity.crew, lifecycle):
        return announce(tables, presence_emissions(activity, lifecycle))
    tables.append_presence(lifecycle)
    return PRESENCE_ONLY


def has_presence_subscribers(tables: BusTables, crew: str, lifecycle: PresenceChange) -> bool:
    asleep = [agent and tables.subscribers_of(sleep_type(agent), crew, agent) for agent in lifecycle.slept]
    awake = [agent and tables.subscribers_of(wake_type(agent), crew, agent) for agent in lifecycle.woken]
    return any(asleep) or any(awake)


def presence_emissions(activity: Activity, lifecycle: PresenceChange) -> list[Emission]:
    changes = zip((*activity.ended, *activity.begun), (*lifecycle.slept, *lifecycle.woken), strict=True)
    about = [(agent, hops) for (agent, hops), turned in changes if turned]
    return [
        Emission(broadcast=broadcast, crew=activity.crew, agent=agent, hops=hops)
        for broadcast, (agent, hops) in zip(broadcasts_of(lifecycle), about, strict=True)
    ]


# Inboxes and deliveries


def claim_inbox(tables: BusTables, claim: InboxClaim) -> tuple[ReceivedBroadcast, ...]:
    before = tables.broadcasts_claimed_by(claim.key)
    if not before:
        tables.claim(claim.crew, claim.agent, claim.key, INBOX_TAKEN_MAX)
    return before or tables.broadcasts_claimed_by(claim.key)


def record_delivery_failure(tables: BusTables, number: int, reason: str, now: int) -> BroadcastDeadLetter | None:
    delivery = tables.delivery(number)
    if delivery is None:
        return None
    if delivery.attempts < len(DELIVERY_PAUSES_MS):
        tables.retry_delivery(number, delivery.attempts + 1, now + DELIVERY_PAUSES_MS[delivery.attempts])
        return None
    broadcast = delivery.heard.broadcast
    letter = BroadcastDeadLetter(
        id=broadcast.id,
        broadcast=broadcast,
        reason=reason,
        at=now,
        attempts=delivery.attempts + 1,
        for_crew=delivery.crew,
        for_agent=delivery.agent,
    )
    tables.add_dead_letter(letter)
    tables.drop_delivery(number)
    return letter


def retry_dead_letters(tables: BusTables, id: str) -> int:  # noqa: A002 - ids are called id everywhere
    letters = tables.dead_letters_of(id)
    if not letters:
        raise NoSuchSignal(f"there is no dead letter '{id}'; 'interlock broadcast dead' lists all dead letters")
    for letter in letters:
        position = tables.position_of(letter.broadcast.id)
        if position is None:
            position = tables.append_broadcast(letter.broadcast, 0)
        assert position is not None, "it is kept, or it was just now"
        _deliver_to_subscribers(tables, _subscribers_of_dead_letter(tables, letter), position, letter.at)
    tables.remove_dead_letter(id)
    return len(letters)


def _subscribers_of_dead_letter(tables: BusTables, letter: BroadcastDeadLetter) -> tuple[Subscriber, ...]:
    """The subscriber of a dead letter, or all if it reached none."""
    if letter.for_agent:
        return (Subscriber(letter.for_crew, letter.for_agent, letter.silent),)
    own = letter.broadcast.source
    return tables.subscribers_of(letter.broadcast.type, letter.from_crew, own.id if own.type == "agent" else "")


# Subscriptions


def subscribe(tables: BusTables, subscribed: AgentSubscription) -> None:
    known = {each.pattern: each for each in tables.subscriptions_of(subscribed.crew, subscribed.agent)}
    if subscribed.pattern not in known and len(known) >= SUBSCRIPTIONS_PER_AGENT_MAX:
        raise UsageError(
            f"agent '{subscribed.agent}' of crew '{subscribed.crew}' has {len(known)} subscriptions, which is the"
            " most allowed; use a pattern with '*', or unsubscribe from some"
        )
    before = known.get(subscribed.pattern)
    if before is not None and before.origin == "file":  # the file still owns it, and removes it
        subscribed = msgspec.structs.replace(subscribed, origin="file")
    if before != subscribed:
        tables.put_subscription(subscribed)


def declare_subscriptions(tables: BusTables, crew: str, sha: str, subscriptions: Sequence[AgentSubscription]) -> None:
    wanted = {(each.agent, each.pattern): each for each in subscriptions}
    for old in tables.subscriptions_of(crew):
        if old.origin == "file" and (old.agent, old.pattern) not in wanted:
            tables.drop_subscription(crew, old.agent, old.pattern)
        elif wanted.get((old.agent, old.pattern)) == old:
            del wanted[old.agent, old.pattern]
    for new in wanted.values():
        tables.put_subscription(new)
    tables.set_crew_sha(crew, sha)
