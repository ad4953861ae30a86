"""Draws a crew as nodes and arrows."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from interlock.crew.definition import (
    AgentDefinition,
    CrewDefinition,
    GroupDefinition,
    RouteDefinition,
    SubCrewDefinition,
)
from interlock.crew.graph import ControlGraph, control, ends_without_signal, present
from interlock.diagrams.model import Diagram, DiagramEdge, DiagramNode
from interlock.limits import CREW_DEPTH_MAX, NESTED_NODES_MAX
from interlock.signals.definition import SignalBehavior


def diagram_of(crew: CrewDefinition, depth: int = CREW_DEPTH_MAX) -> Diagram:
    """Draws a crew, sound or not, with its sub-crews down to `depth`; a crew that is used often is drawn once."""
    return _Builder(crew, _DrawingState(depth)).diagram()


def _description_notes(description: str) -> tuple[str, ...]:
    """The description from the file, if there is one."""
    return (description,) if description.strip() else ()


class _DrawingState:
    """The state that all levels of one diagram share: unique ids, and where each crew is drawn."""

    def __init__(self, depth: int) -> None:
        self.depth, self.given, self.nested = depth, 0, 0
        self.drawn: dict[int, str] = {}  # by identity: a crew that is used often is one object

    def next_id(self, *, nested: bool) -> str:
        self.given += 1
        self.nested += nested
        return f"n{self.given - 1}"


class _Builder:
    """The nodes and arrows of one crew. `trail` names the boxes around it, outermost first."""

    def __init__(self, crew: CrewDefinition, sheet: _DrawingState, trail: tuple[str, ...] = ()) -> None:
        self.crew, self.sheet, self.trail = crew, sheet, trail
        self.roles, self.only_members = _roles(crew), _only_members(crew)
        self.defined = {agent.id: agent for agent in crew.agents}
        self.agents = {agent.id: self._agent(agent) for agent in crew.agents}
        self.groups = {name: self._group(name, group) for name, group in crew.groups.items()}
        self.sub_crews = {name: self._sub_crew(name, sub) for name, sub in crew.sub_crews.items()}
        self.others: dict[str, DiagramNode] = {}
        self.ending: DiagramNode | None = None

    def diagram(self) -> Diagram:
        edges = tuple(dict.fromkeys(self._edges()))
        nodes = (*self.agents.values(), *self.groups.values(), *self.sub_crews.values(), *self.others.values())
        return Diagram(
            name=self.crew.name,
            nodes=(*nodes, self.ending) if self.ending else nodes,
            edges=edges,
            description=self.crew.description,
        )

    # Nodes

    def _next_id(self) -> str:
        return self.sheet.next_id(nested=bool(self.trail))

    def _agent(self, agent: AgentDefinition) -> DiagramNode:
        routes = self.crew.routes.get(agent.id, ())
        return DiagramNode(
            id=self._next_id(),
            name=agent.id,
            label=agent.name or agent.id,
            kind="agent",
            entry=agent.id == self.crew.entry_point,
            terminal=ends_without_signal(self.crew, agent),
            waits=_waits(self.crew, agent.id, routes),
            notes=(
                *_agent_notes(self.crew, agent.id, routes),
                *self.roles.get(agent.id, ()),
                *_description_notes(self.crew.behavior_of(agent.id).description),
            ),
        )

    def _group(self, name: str, group: GroupDefinition) -> DiagramNode:
        label = "in parallel" if group.unnamed else name
        return DiagramNode(
            id=self._next_id(),
            name=name,
            label=label,
            kind="group",
            notes=(*_group_notes(group), *_description_notes(group.description)),
        )

    def _sub_crew(self, name: str, sub: SubCrewDefinition) -> DiagramNode:
        number, closed, inside = self._next_id(), self._why_closed(sub), None
        if sub.crew is not None and not closed:
            trail = (*self.trail, name)
            self.sheet.drawn[id(sub.crew)] = " › ".join(trail)
            inside = _Builder(sub.crew, self.sheet, trail).diagram()
        notes = (*self.roles.get(name, ()), *_call_notes(self.crew, name), *_description_notes(sub.description))
        return DiagramNode(id=number, name=name, label=name, kind="sub_crew", closed=closed, notes=notes, inside=inside)

    def _why_closed(self, sub: SubCrewDefinition) -> str:
        """The reason why the box is drawn empty; blank if it is not."""
        if sub.crew is None:
            return "its crew could not be read"
        if id(sub.crew) in self.sheet.drawn:
            return f"the same crew as {self.sheet.drawn[id(sub.crew)]}"
        if len(self.trail) >= self.sheet.depth:
            count = len(sub.crew.agents)
            return f"{count} agent{'s' if count != 1 else ''} inside"
        return "not drawn here, the diagram is full" if self.sheet.nested >= NESTED_NODES_MAX else ""

    def _end_id(self) -> str:
        self.ending = self.ending or DiagramNode(id=self._next_id(), name="", label="END", kind="end")
        return self.ending.id

    def _find_or_add(self, name: str, *places: dict[str, DiagramNode]) -> str:
        """The id of a name; an unknown name gets a node of its own that shows it."""
        found = next((place[name] for place in places if name in place), None) or self.others.get(name)
        if found is None:
            found = DiagramNode(id=self._next_id(), name=name, label=name or "nothing", kind="unknown")
            self.others[name] = found
        return found.id

    def _worker_id(self, name: str) -> str:
        return self._find_or_add(name, self.agents, self.sub_crews)

    # Arrows

    def _edges(self) -> Iterator[DiagramEdge]:
        for name in dict.fromkeys((*self.agents, *self.crew.routes, *self.crew.defaults)):
            for route in self.crew.routes.get(name, ()):
                if not route.acknowledges:
                    yield from self._edges_of_route(name, route)
            yield from self._edges_without_mark(name)
        for group in self.crew.groups.values():
            yield from self._edges_of_group(group)
        yield from self._delegation_edges()

    def _edges_of_route(self, emitter: str, route: RouteDefinition) -> Iterator[DiagramEdge]:
        source = self._worker_id(emitter)
        match route.behavior:
            case SignalBehavior.TERMINATE:
                yield DiagramEdge(source=source, target=self._end_id(), kind="terminate", label=route.signal)
            case SignalBehavior.ROUTE:
                yield DiagramEdge(source=source, target=self._worker_id(route.target), kind="route", label=route.signal)
            case SignalBehavior.PAUSE:
                target = self._worker_id(route.target or emitter)
                yield DiagramEdge(source=source, target=target, kind="pause", label=route.signal)
            case SignalBehavior.PARALLEL:
                yield from self._edges_to_group(source, route)
            case SignalBehavior.BROADCAST:
                for name in route.targets or (emitter,):
                    yield DiagramEdge(source=source, target=self._worker_id(name), kind="broadcast", label=route.signal)
            case SignalBehavior.EXTERNAL:
                yield DiagramEdge(source=source, target=source, kind="external", label=route.signal)
            case SignalBehavior.SUB_CREW:
                yield from self._edges_to_sub_crew(source, route)
            case _:
                assert_never(route.behavior)

    def _edges_to_group(self, source: str, route: RouteDefinition) -> Iterator[DiagramEdge]:
        started = self._find_or_add(route.target, self.groups)
        yield DiagramEdge(source=source, target=started, kind="parallel", label=route.signal)
        group = self.crew.groups.get(route.target)
        if group is not None and not group.next_agent:
            yield DiagramEdge(source=started, target=source, kind="return")

    def _edges_to_sub_crew(self, source: str, route: RouteDefinition) -> Iterator[DiagramEdge]:
        child = self._find_or_add(route.target_crew, self.sub_crews)
        back = self._worker_id(route.return_to) if route.return_to else source
        yield DiagramEdge(source=source, target=child, kind="sub_crew", label=route.signal)
        yield DiagramEdge(source=child, target=back, kind="return")
        if route.on_error not in ("fail", "return"):
            yield DiagramEdge(source=child, target=self._worker_id(route.on_error), kind="error")

    def _edges_without_mark(self, name: str) -> Iterator[DiagramEdge]:
        """The targets of a reply without a signal, in the order in which a run tries them."""
        source, agent = self._worker_id(name), self.defined.get(name)
        if agent and self._can_end(agent):
            yield DiagramEdge(source=source, target=self._end_id(), kind="terminate")
        if name in self.crew.defaults:
            yield DiagramEdge(source=source, target=self._worker_id(self.crew.defaults[name]), kind="default")
        for target in agent.handoff_targets if agent else ():
            yield DiagramEdge(source=source, target=self._worker_id(target), kind="handoff")

    def _can_end(self, agent: AgentDefinition) -> bool:
        if self.crew.behavior_of(agent.id).wait_for_signal or agent.id in self.only_members:
            return False
        led_on = agent.id in self.crew.defaults or agent.handoff_targets
        completes = self.crew.settings.on_no_signal == "complete" and not led_on
        return completes or ends_without_signal(self.crew, agent)

    def _edges_of_group(self, group: GroupDefinition) -> Iterator[DiagramEdge]:
        source = self.groups[group.name].id
        for member in group.agents:
            yield DiagramEdge(source=source, target=self._worker_id(member), kind="member")
        if group.next_agent:
            yield DiagramEdge(source=source, target=self._worker_id(group.next_agent), kind="next")

    def _delegation_edges(self) -> Iterator[DiagramEdge]:
        for parent, children in self.crew.delegation.children.items() if self.crew.delegation else ():
            for child in children:
                yield DiagramEdge(source=self._worker_id(parent), target=self._worker_id(child), kind="delegate")


def _waits(crew: CrewDefinition, agent: str, routes: Iterable[RouteDefinition]) -> bool:
    behavior = crew.behavior_of(agent)
    held = behavior.wait_for_signal or not behavior.auto_route
    return held or any(r.behavior is SignalBehavior.PAUSE or r.pause for r in routes)


def _agent_notes(crew: CrewDefinition, agent: str, routes: Iterable[RouteDefinition]) -> Iterator[str]:
    behavior = crew.behavior_of(agent)
    if behavior.wait_for_signal:
        yield "waits for a person if there is no signal"
    if not behavior.auto_route:
        yield "asks a person before it hands over"
    for route in routes:
        if route.acknowledges:
            yield f"{route.signal} is recorded and has no other effect"
        elif route.behavior is SignalBehavior.EXTERNAL and route.pause:
            yield f"{route.signal} waits for the host program's answer"


def _call_notes(crew: CrewDefinition, name: str) -> Iterator[str]:
    """Notes on calls of a sub-crew that no arrow shows."""
    calls = (route for routes in crew.routes.values() for route in routes if route.target_crew == name)
    for signal in dict.fromkeys(route.signal for route in calls if route.on_error == "return"):
        yield f"when {signal} fails, it returns the error"


def _group_notes(group: GroupDefinition) -> Iterator[str]:
    yield "continues when all are done" if group.wait_for_all else "continues at the first success"
    if group.timeout_seconds is not None:
        yield f"waits at most {group.timeout_seconds:g} s"
    if group.on_error == "fail":
        yield "fails when a member fails"


def _roles(crew: CrewDefinition) -> dict[str, list[str]]:
    """Further roles of agents: members, children, subscribers."""
    roles: dict[str, list[str]] = {}
    for group in crew.groups.values():
        for member in group.agents:
            roles.setdefault(member, []).append(f"works in the group {group.name}")
    for parent, children in crew.delegation.children.items() if crew.delegation else ():
        for child in children:
            roles.setdefault(child, []).append(f"reports to {parent}")
    for each in crew.subscriptions:
        verb = "receives" if each.silent else "starts on"
        roles.setdefault(each.agent, []).append(f"{verb} {each.pattern}")
    return roles


def _only_members(crew: CrewDefinition) -> dict[str, None]:
    """Agents that never have control: their replies go to a group, so none of them ends a run."""
    reached = ControlGraph(crew).reachable_points()
    return dict.fromkeys(
        agent for agent in crew.agent_ids if present(agent) in reached and control(agent) not in reached
    )
