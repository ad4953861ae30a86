"""Usage of a run by agent and by child, from its journal. The state keeps only the total."""

from collections.abc import Iterable, Sequence

from interlock.engine.events import ChildReturned, ChildStarted, Event, ModelFailed, ModelReplied, Usage, WentStale

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
    if isinstance(incoming, ModelReplied | ModelFailed) and not _is_stale(derived):
        spent[incoming.agent] = spent.get(incoming.agent, Usage()) + incoming.usage + ONE_CALL


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
