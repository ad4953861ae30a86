"""Rules about placeholders: something fills each of them before it is used, on some way at least."""

from collections.abc import Iterator

from interlock.crew.checks.subject import Subject
from interlock.crew.definition import Crew, Route
from interlock.crew.graph import Spot, control, present
from interlock.crew.problem import Severity
from interlock.crew.templates import as_placeholder, fields_of_input, fields_of_prompt
from interlock.signals.definition import SignalBehavior

# What a sub-crew brings along from whoever called it.
_INHERITED = ("PreviousResults", "SharedMemory")


def fields_are_filled_before_use(s: Subject) -> None:
    """What no way fills is a warning, not an error: a host may give results and memory when it starts a run."""
    if s.is_misread(("routing",)) or s.is_misread(("delegation",)):
        return
    filled: dict[tuple[str, str], dict[Spot, Spot | None]] = {}
    for agent, route, path in s.routes():
        if not _is_reached(s, agent):
            continue
        for field, key in dict.fromkeys(fields_of_input(route.input_template)):
            if not _is_filled_on_the_way(s, field, key) or (s.source.is_called and field in _INHERITED):
                continue
            if (field, key) not in filled:
                filled[field, key] = s.graph.reached(list(_after_filling(s, field, key)))
            if filled[field, key].keys().isdisjoint((control(agent), present(agent))):
                s.at(
                    (*path, "input_template"),
                    "unfilled-field",
                    f"nothing fills {as_placeholder(field, key)} before agent '{agent}' emits '{route.signal}'",
                    _how_to_fill(field, key),
                    Severity.WARNING,
                )


def _is_reached(s: Subject, agent: str) -> bool:
    return control(agent) in s.reached or present(agent) in s.reached


def _is_filled_on_the_way(s: Subject, field: str, key: str) -> bool:
    """Whether it is a field that runs fill, rather than one that is there from the start or that nobody knows."""
    if field == "SharedMemory":
        return bool(key)
    return field == "PreviousResult" or (field == "PreviousResults" and key in s.crew.sub_crews)


def _how_to_fill(field: str, key: str) -> str:
    if field == "SharedMemory":
        return "give an agent before it the tool memory_write, or let the host fill it at start"
    return f"call {key or 'a sub-crew'} before it, or take the field out"


def _after_filling(s: Subject, field: str, key: str) -> Iterator[Spot]:
    """Where control may be right after something has filled the field."""
    crew = s.graph.crew
    for emitter, routes in crew.routes.items():
        for route in routes if _is_reached(s, emitter) else ():
            yield from _after_route(s, emitter, route, field, key)
    for agent in crew.agents:
        if field == "SharedMemory" and "memory_write" in agent.tools:
            yield from (control(agent.id), present(agent.id)) if control(agent.id) in s.reached else s.reached
    for parent, children in crew.delegation.children.items() if crew.delegation else ():
        if field != "PreviousResult" and any(_can_fill(crew, child, field, key) for child in children):
            yield from (control(parent), present(parent))


def _after_route(s: Subject, agent: str, route: Route, field: str, key: str) -> Iterator[Spot]:
    crew, group = s.graph.crew, s.graph.crew.groups.get(route.target)
    if route.behavior is SignalBehavior.SUB_CREW and _can_fill(crew, route.target_crew, field, key):
        yield control(route.return_to or agent)
        yield control(route.on_error)
    if group is None or route.behavior is not SignalBehavior.PARALLEL or field == "PreviousResult":
        return
    if any(_can_fill(crew, member, field, key) for member in group.agents):
        yield from s.graph.steps[Spot("join", route.target, agent)]


def _can_fill(crew: Crew, name: str, field: str, key: str) -> bool:
    """Whether what a sub-crew of this name brings back fills the field."""
    if name not in crew.sub_crews:
        return False
    if field == "SharedMemory":
        inner = crew.sub_crews[name].crew
        return inner is None or can_write_memory(inner)
    return field == "PreviousResult" or key == name


def can_write_memory(crew: Crew) -> bool:
    return any("memory_write" in agent.tools for each in crew.whole_tree() for agent in each.agents)


def prompts_have_values_for_their_fields(s: Subject) -> None:
    for agent in s.crew.agents:
        for field in dict.fromkeys(fields_of_prompt(agent.system_prompt)):
            if not str(getattr(agent, field)).strip() and agent.id not in s.source.unclear:
                s.at_agent(
                    agent.id,
                    ("system_prompt",),
                    "unfilled-field",
                    f"{{{{{field}}}}} in the prompt of agent '{agent.id}' is empty: it has no {field}",
                    f"write '{field}:', or take the field out",
                    Severity.WARNING,
                )
