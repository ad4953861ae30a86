"""Rules about the flow of control: every agent can be reached, leads somewhere, and can reach an end."""

from collections.abc import Iterator

from interlock.crew.checks.routes import target_error
from interlock.crew.checks.subject import CheckSubject
from interlock.crew.definition import RouteDefinition
from interlock.crew.graph import END, ControlPoint, control, present
from interlock.crew.nodes import Mapping, Node, Path, Scalar, Sequence, node_at
from interlock.crew.problem import Severity
from interlock.signals.definition import SignalBehavior


def agents_can_be_reached(s: CheckSubject) -> None:
    if s.crew.entry_point not in s.ids:
        return  # then no agent is reached, and the entry point is the problem
    reached, mentioned = s.reachable_points, _agents_in_unreadable_sections(s)
    for agent in s.ids:
        if control(agent) not in reached and present(agent) not in reached and agent not in mentioned:
            s.add_at_agent(
                agent,
                (),
                "unreachable-agent",
                f"agent '{agent}' can never get a turn" + _in_old_files(s, "; it is left out"),
                "route a signal to it, make it a default, a handoff target or a group member, or remove it",
                _severity(s),
            )


def _is_old_file(s: CheckSubject) -> bool:
    """True if `version_1` gives the file a meaning, so that it keeps working. A crew built in Python runs as it is."""
    return s.crew.version == "1.0" and s.source.is_file


def _severity(s: CheckSubject) -> Severity:
    return Severity.WARNING if _is_old_file(s) else Severity.ERROR


def _in_old_files(s: CheckSubject, words: str) -> str:
    return words if _is_old_file(s) else ""


def _agents_in_unreadable_sections(s: CheckSubject) -> set[str]:
    """Agents named by routes, groups and the like that could not be read completely."""
    sections: tuple[Path, ...] = (("routing",), ("delegation",), ("subscriptions",))
    names = {
        name for section in sections if s.is_unreadable(section) for name in _texts(node_at(s.source.root, section))
    }
    members = {member for group in s.crew.groups.values() if group.name in names for member in group.agents}
    return names | members


def _texts(node: Node | None) -> Iterator[str]:
    match node:
        case Scalar():
            yield node.text
        case Sequence():
            for item in node.items:
                yield from _texts(item)
        case Mapping():
            for name, _, inner in node:
                yield name
                yield from _texts(inner)
        case _:
            return


_IS_TERMINAL = "is_terminal: true", "is_terminal=True"


def agents_have_a_way_on(s: CheckSubject) -> None:
    for agent in _dead_ends(s):
        s.add_at_agent(
            agent,
            (),
            "no-way-on",
            f"agent '{agent}' is a dead end: no route, no default, no handoff target, no end"
            + _in_old_files(s, "; its reply completes the run"),
            f"route one of its signals, give it a default, or set {s.source.fix(*_IS_TERMINAL)}",
            _severity(s),
        )


def _dead_ends(s: CheckSubject) -> list[str]:
    unclear = _partly_unreadable_agents(s)
    return [
        agent
        for agent in s.ids
        if control(agent) in s.reachable_points and agent not in unclear and s.graph.is_dead_end(agent)
    ]


def _partly_unreadable_agents(s: CheckSubject) -> set[str]:
    """Agents with a part that could not be read or leads nowhere. It is reported, and may be what leads on."""
    lost = {agent for agent, route, _ in s.routes() if _has_no_valid_target(s, route)}
    lost |= {agent for agent, target in s.crew.defaults.items() if s.guesser.guess_target(target) not in s.ids}
    lost |= {agent.id for agent in s.crew.agents if any(t not in s.ids for t in agent.handoff_targets)}
    lost |= {agent for agent in s.ids if s.is_unreadable(("routing", "signals", agent))}
    if _has_unreadable_routing(s):
        lost |= set(s.ids)
    return lost | s.source.unclear


def _has_unreadable_routing(s: CheckSubject) -> bool:
    """True if no route could be read."""
    paths: tuple[Path, ...] = (("routing",), ("routing", "signals"))
    return any(s.is_unreadable(path) and not isinstance(node_at(s.source.root, path), Mapping) for path in paths)


def _has_no_valid_target(s: CheckSubject, route: RouteDefinition) -> bool:
    if route.target in s.ambiguous_names:
        return True
    if route.behavior is SignalBehavior.SUB_CREW:
        return bool(route.return_to) and route.return_to not in s.ids
    if route.behavior is SignalBehavior.PARALLEL and route.target in s.crew.groups:
        next_agent = s.crew.groups[route.target].next_agent
        return bool(next_agent) and next_agent not in s.ids
    # Where the graph has corrected a refused target, the next agent is known.
    return target_error(s, route) is not None and s.guesser.guess_target(route.target) not in s.targets


def agents_can_reach_an_ending(s: CheckSubject) -> None:
    reached = s.reachable_points
    excused = [control(agent) for agent in (*_dead_ends(s), *sorted(_partly_unreadable_agents(s))) if agent in s.ids]
    saved = s.graph.points_leading_to([END, *excused])
    doomed = {spot for spot in reached if spot not in saved and spot.kind not in ("present", "end")}
    for loop in s.graph.loops_among(doomed):
        agents = [spot.name for spot in loop if spot.kind == "control"]
        if not agents:
            continue
        first = min(agents, key=list(s.ids).index)
        s.add_at_agent(
            first,
            (),
            "trap",
            _trap_message(sorted(agents), _example_path(s, reached, first)),
            f"let one of them end the run with a signal, set {s.source.fix(*_IS_TERMINAL)}, or route out of the loop",
        )


def _trap_message(agents: list[str], path: str) -> str:
    *others, last = agents
    if not others:
        return f"{last} loops for ever ({path}): it cannot reach an end"
    none = "neither" if len(agents) == 2 else "none of them"
    return f"{', '.join(others)} and {last} loop for ever ({path}): {none} can reach an end"


def _example_path(s: CheckSubject, reached: dict[ControlPoint, ControlPoint | None], agent: str) -> str:
    """An example of how control gets to the agent, and from there back to it."""
    there = _path_to(reached, control(agent))
    again = s.graph.reachable_points(s.graph.steps[control(agent)])
    back = _path_to(again, control(agent)) if control(agent) in again else []
    return " -> ".join(spot.name for spot in (*there, *back) if spot.kind in ("control", "join"))


def _path_to(before: dict[ControlPoint, ControlPoint | None], spot: ControlPoint | None) -> list[ControlPoint]:
    way: list[ControlPoint] = []
    while spot is not None:
        way.append(spot)
        spot = before[spot]
    return way[::-1]
