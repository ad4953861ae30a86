"""Who spent what in a run, by its journal. The state keeps only the whole: by the parts nobody decides."""

from collections.abc import Iterable, Sequence

from interlock.engine.events import ChildReturned, ChildStarted, Event, ModelFailed, ModelReplied, Usage, WentStale

ONE_CALL = Usage(calls=1)


def usage_by_agent(transitions: Iterable[Sequence[Event]]) -> dict[str, Usage]:
    """What calls have cost, agent by agent in the order of their first; together it is the run's own usage."""
    spent: dict[str, Usage] = {}
    for events in transitions:
        add_usage(spent, events)
    return spent


def add_usage(spent: dict[str, Usage], transition: Sequence[Event]) -> None:
    """What one transition has cost, added to what those before it have."""
    incoming, *derived = transition
    if isinstance(incoming, ModelReplied | ModelFailed) and not _is_in_vain(derived):
        spent[incoming.agent] = spent.get(incoming.agent, Usage()) + incoming.usage + ONE_CALL


def usage_below(transitions: Iterable[Sequence[Event]]) -> dict[str, Usage]:
    """What children have cost, by the names that the crew has for them; the rest of the run's usage is its own."""
    spent: dict[str, Usage] = {}
    names: dict[str, str] = {}
    for incoming, *derived in transitions:
        names |= {event.call: event.crew for event in derived if isinstance(event, ChildStarted)}
        if isinstance(incoming, ChildReturned) and not _is_in_vain(derived):
            name = names[incoming.call]
            spent[name] = spent.get(name, Usage()) + incoming.usage
    return spent


def _is_in_vain(derived: Sequence[Event]) -> bool:
    """An answer that nobody waited for any more was accounted for when the call was given up."""
    return any(isinstance(event, WentStale) for event in derived)
