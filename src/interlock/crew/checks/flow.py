"""Rules about the flow of control: everyone can be reached, has a way on, and can get to an ending."""

from collections.abc import Iterator

from interlock.crew.checks.routes import target_error
from interlock.crew.checks.subject import Subject
from interlock.crew.definition import Route
from interlock.crew.graph import END, Spot, control, present
from interlock.crew.nodes import Mapping, Node, Path, Scalar, Sequence, node_at
from interlock.crew.problem import Severity
from interlock.signals.definition import SignalBehavior


def agents_can_be_reached(s: Subject) -> None:
    if s.crew.entry_point not in s.ids:
        return  # then nothing is reached, and the entry point is what needs mending
    reached, mentioned = s.reached, _mentioned_in_what_was_misread(s)
    for agent in s.ids:
        if control(agent) not in reached and present(agent) not in reached and agent not in mentioned:
            s.at_agent(
                agent,
                (),
                "unreachable-agent",
                f"agent '{agent}' can never get a turn" + _in_old_files(s, ": it is left out"),
                "route a signal to it, make it a default, a handoff target or a group's member, or remove it",
                _severity(s),
            )


def _is_old_file(s: Subject) -> bool:
    """Old files keep working: `version_1` says what they mean instead. A crew of a program runs as it is."""
    return s.crew.version == "1.0" and s.source.is_file


def _severity(s: Subject) -> Severity:
    return Severity.WARNING if _is_old_file(s) else Severity.ERROR


def _in_old_files(s: Subject, words: str) -> str:
    return words if _is_old_file(s) else ""


def _mentioned_in_what_was_misread(s: Subject) -> set[str]:
    """Agents named by routes, groups and the like of which something could not be read."""
    sections: tuple[Path, ...] = (("routing",), ("delegation",), ("subscriptions",))
    names = {name for section in sections if s.is_misread(section) for name in _texts(node_at(s.source.root, section))}
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


def agents_have_a_way_on(s: Subject) -> None:
    for agent in _stuck(s):
        s.at_agent(
            agent,
            (),
            "no-way-on",
            f"agent '{agent}' is a dead end: no route, no default, no handoff target, no ending"
            + _in_old_files(s, "; its reply completes the run"),
            "route one of its signals, give it a default, or set is_terminal: true",
            _severity(s),
        )


def _stuck(s: Subject) -> list[str]:
    unclear = _unclear(s)
    return [
        agent for agent in s.ids if control(agent) in s.reached and agent not in unclear and s.graph.is_dead_end(agent)
    ]


def _unclear(s: Subject) -> set[str]:
    """Agents of which something could not be read or leads nowhere; it is reported, and may be their way on."""
    lost = {agent for agent, route, _ in s.routes() if _points_nowhere(s, route)}
    lost |= {agent for agent, target in s.crew.defaults.items() if s.mender.target(target) not in s.ids}
    lost |= {agent.id for agent in s.crew.agents if any(t not in s.ids for t in agent.handoff_targets)}
    lost |= {agent for agent in s.ids if s.is_misread(("routing", "signals", agent))}
    if _has_lost_its_routing(s):
        lost |= set(s.ids)
    return lost | s.source.unclear


def _has_lost_its_routing(s: Subject) -> bool:
    """Whether all routes are of a shape that could not be read."""
    paths: tuple[Path, ...] = (("routing",), ("routing", "signals"))
    return any(s.is_misread(path) and not isinstance(node_at(s.source.root, path), Mapping) for path in paths)


def _points_nowhere(s: Subject, route: Route) -> bool:
    if route.target in s.clashing:
        return True
    if route.behavior is SignalBehavior.SUB_CREW:
        return bool(route.return_to) and route.return_to not in s.ids
    if route.behavior is SignalBehavior.PARALLEL and route.target in s.crew.groups:
        next_agent = s.crew.groups[route.target].next_agent
        return bool(next_agent) and next_agent not in s.ids
    # Where the graph has mended a refused target, the way on is known.
    return target_error(s, route) is not None and s.mender.target(route.target) not in s.targets


def agents_can_reach_an_ending(s: Subject) -> None:
    reached = s.reached
    excused = [control(agent) for agent in (*_stuck(s), *sorted(_unclear(s))) if agent in s.ids]
    saved = s.graph.leading_to([END, *excused])
    doomed = {spot for spot in reached if spot not in saved and spot.kind not in ("present", "end")}
    for loop in s.graph.loops_among(doomed):
        agents = [spot.name for spot in loop if spot.kind == "control"]
        if not agents:
            continue
        first = min(agents, key=list(s.ids).index)
        s.at_agent(
            first,
            (),
            "trap",
            f"no ending can be reached from {', '.join(sorted(agents))}: {_witness(s, reached, first)}",
            "let one of them terminate, make one terminal, or route one out of the loop",
        )


def _witness(s: Subject, reached: dict[Spot, Spot | None], agent: str) -> str:
    """How control gets to the agent, and from there back to it."""
    there = _way(reached, control(agent))
    again = s.graph.reached(s.graph.steps[control(agent)])
    back = _way(again, control(agent)) if control(agent) in again else []
    return " -> ".join(spot.name for spot in (*there, *back) if spot.kind in ("control", "join"))


def _way(before: dict[Spot, Spot | None], spot: Spot | None) -> list[Spot]:
    way: list[Spot] = []
    while spot is not None:
        way.append(spot)
        spot = before[spot]
    return way[::-1]
