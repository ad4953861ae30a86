"""Usage of a run by agent and by child, from its journal. The state keeps only the total."""

from collections.abc import Iterable, Sequence

import msgspec

from interlock.engine.events import (
    ChildReturned,
    ChildStarted,
    Event,
    ModelCallLost,
    ModelFailed,
    ModelReplied,
    Usage,
    WentStale,
)

ONE_CALL = Usage(calls=1)


def usage_by_agent(transitions: Iterable[Sequence[Event]]) -> dict[str, Usage]:
    """The cost of calls by agent, in the order of their first call; the sum is the run's own usage."""
    spent: dict[str, Usage] = {}
    for events in transitions:
        add_usage(spent, events)
    return spent


def add_usage(spent: dict[str, Usage], transition: Sequence[Event]) -> None:
    """Adds the cost of one transition."""
    incoming, *derived = transition
    if isinstance(incoming, ModelReplied | ModelFailed | ModelCallLost) and not _is_stale(derived):
        spent[incoming.agent] = spent.get(incoming.agent, Usage()) + incoming.usage + ONE_CALL


class CacheSavings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What caching saved, at the prices of each call's time; less than 0 if writing cost more than reading saved."""

    saved_micros: int = 0
    unknown_calls: int = 0  # calls with cached tokens whose saving is unknown; while there are any, the sum is unknown

    def __add__(self, other: "CacheSavings") -> "CacheSavings":
        return CacheSavings(
            saved_micros=self.saved_micros + other.saved_micros, unknown_calls=self.unknown_calls + other.unknown_calls
        )


NO_SAVINGS = CacheSavings()


def savings_by_agent(transitions: Iterable[Sequence[Event]]) -> dict[str, CacheSavings]:
    """What caching saved, by agent; without agents of which nothing was cached."""
    saved: dict[str, CacheSavings] = {}
    for incoming, *derived in transitions:
        if isinstance(incoming, ModelReplied) and _has_cached(incoming.usage) and not _is_stale(derived):
            saved[incoming.agent] = saved.get(incoming.agent, NO_SAVINGS) + _savings_of(incoming)
    return saved


def _has_cached(usage: Usage) -> bool:
    return bool(usage.cache_read_tokens or usage.cache_write_tokens)


def _savings_of(reply: ModelReplied) -> CacheSavings:
    """What was saved on one call: nothing if the model is free, and unknown where its prices are."""
    if reply.uncached_micros:
        return CacheSavings(saved_micros=reply.uncached_micros - reply.usage.cost_micros)
    is_free = not reply.usage.cost_micros and not reply.usage.unpriced_calls
    return NO_SAVINGS if is_free else CacheSavings(unknown_calls=1)


def usage_below(transitions: Iterable[Sequence[Event]]) -> dict[str, Usage]:
    """The cost of children by sub-crew name; the rest of the run's usage is its own."""
    spent: dict[str, Usage] = {}
    names: dict[str, str] = {}
    for incoming, *derived in transitions:
        names |= {event.call: event.crew for event in derived if isinstance(event, ChildStarted)}
        if isinstance(incoming, ChildReturned) and not _is_stale(derived):
            name = names[incoming.call]
            spent[name] = spent.get(name, Usage()) + incoming.usage
    return spent


def _is_stale(derived: Sequence[Event]) -> bool:
    """Whether the transition was stale: its cost was counted when the call was cancelled."""
    return any(isinstance(event, WentStale) for event in derived)
