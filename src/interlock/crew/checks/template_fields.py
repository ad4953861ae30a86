"""Rules about placeholders: on at least one path each is filled before it is used."""

from collections.abc import Iterator

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import CrewDefinition, RouteDefinition
from interlock.crew.graph import ControlPoint, control, present
from interlock.crew.problem import Severity
from interlock.crew.templates import as_placeholder, fields_of_input, fields_of_prompt, result_field
from interlock.signals.definition import SignalBehavior

# Fields that a sub-crew inherits from its caller.
_INHERITED = ("PreviousResults", "SharedMemory")


def fields_are_filled_before_use(s: CheckSubject) -> None:
    """A warning, not an error: a host may provide results and memory when it starts a run."""
    if s.is_unreadable(("routing",)) or s.is_unreadable(("delegation",)):
        return
    filled: dict[tuple[str, str], dict[ControlPoint, ControlPoint | None]] = {}
    for agent, route, path in s.routes():
        if not _is_reachable(s, agent):
            continue
        for field, key in dict.fromkeys(fields_of_input(route.input_template)):
            if not _is_filled_during_run(s, field, key) or (s.source.is_called and field in _INHERITED):
                continue
            if (field, key) not in filled:
                filled[field, key] = s.graph.reachable_points(list(_points_after_filling(s, field, key)))
            if filled[field, key].keys().isdisjoint((control(agent), present(agent))):
                s.add_at(
                    (*path, "input_template"),
                    "unfilled-field",
                    f"nothing fills {as_placeholder(field, key)} before agent '{agent}' emits '{route.signal}'",
                    _how_to_fill(field, key),
                    Severity.WARNING,
                )


def _is_reachable(s: CheckSubject, agent: str) -> bool:
    return control(agent) in s.reachable_points or present(agent) in s.reachable_points


def _is_filled_during_run(s: CheckSubject, field: str, key: str) -> bool:
    """True for a field that a run fills, false for one that is there from the start or is unknown."""
    if field == "SharedMemory":
        return bool(key)
    return field == "PreviousResult" or (field == "PreviousResults" and bool(_crew_named(s.crew, key)))


def _how_to_fill(field: str, key: str) -> str:
    if field == "SharedMemory":
        return "give an earlier agent the tool memory_write, or let the host fill it at start"
    return f"call {key or 'a sub-crew'} before it, or remove the field"


def _crew_named(crew: CrewDefinition, key: str) -> str:
    """The sub-crew that a key of PreviousResults names, by itself or by a part of its output."""
    return result_field(key, tuple(crew.sub_crews))[0]


def _points_after_filling(s: CheckSubject, field: str, key: str) -> Iterator[ControlPoint]:
    """The points where control may be right after the field was filled."""
    crew = s.graph.crew
    for emitter, routes in crew.routes.items():
        for route in routes if _is_reachable(s, emitter) else ():
            yield from _points_after_route(s, emitter, route, field, key)
    for agent in crew.agents:
        if field == "SharedMemory" and "memory_write" in agent.tools:
            yield from (
                (control(agent.id), present(agent.id))
                if control(agent.id) in s.reachable_points
                else s.reachable_points
            )
    for parent, children in crew.delegation.children.items() if crew.delegation else ():
        if field != "PreviousResult" and any(_can_fill(crew, child, field, key) for child in children):
            yield from (control(parent), present(parent))


def _points_after_route(
    s: CheckSubject, agent: str, route: RouteDefinition, field: str, key: str
) -> Iterator[ControlPoint]:
    crew, group = s.graph.crew, s.graph.crew.groups.get(route.target)
    if route.behavior is SignalBehavior.SUB_CREW and _can_fill(crew, route.target_crew, field, key):
        yield control(route.return_to or agent)
        yield control(route.on_error)
    if group is None or route.behavior is not SignalBehavior.PARALLEL or field == "PreviousResult":
        return
    if any(_can_fill(crew, member, field, key) for member in group.agents):
        yield from s.graph.steps[ControlPoint("join", route.target, agent)]


def _can_fill(crew: CrewDefinition, name: str, field: str, key: str) -> bool:
    """True if the result of a sub-crew of this name fills the field."""
    if name not in crew.sub_crews:
        return False
    if field == "SharedMemory":
        inner = crew.sub_crews[name].crew
        return inner is None or can_write_memory(inner)
    return field == "PreviousResult" or _crew_named(crew, key) == name


def can_write_memory(crew: CrewDefinition) -> bool:
    return any("memory_write" in agent.tools for each in crew.whole_tree() for agent in each.agents)


def prompts_have_values_for_their_fields(s: CheckSubject) -> None:
    for agent in s.crew.agents:
        for field in dict.fromkeys(fields_of_prompt(agent.system_prompt)):
            if not str(getattr(agent, field)).strip() and agent.id not in s.source.unclear:
                s.add_at_agent(
                    agent.id,
                    ("system_prompt",),
                    "unfilled-field",
                    f"{{{{{field}}}}} in the prompt of agent '{agent.id}' is empty: it has no {field}",
                    f"write '{field}:', or remove the field",
                    Severity.WARNING,
                )
