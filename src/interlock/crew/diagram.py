"""A crew as nodes and arrows, and the words that every way of writing them down shares.

Rule 1: everything stands in file order, so the same crew is the same diagram.
Rule 2: a name that leads nowhere is drawn as unknown; a diagram that hides it would call a broken crew whole.
Rule 3: a label may hold anything; it is made harmless where it is written, not where it is read.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, assert_never

import msgspec

from interlock.crew.definition import Agent, Crew, Group, Route, SubCrew
from interlock.crew.graph import ControlGraph, control, ends_without_signal, present
from interlock.limits import CREW_DEPTH_MAX, NESTED_NODES_MAX
from interlock.signals.definition import SignalBehavior

NodeKind = Literal["agent", "group", "sub_crew", "end", "unknown"]
EdgeKind = Literal[
    "route",
    "terminate",
    "pause",
    "parallel",
    "member",
    "next",
    "default",
    "handoff",
    "broadcast",
    "external",
    "sub_crew",
    "return",
    "error",
    "delegate",
]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can have the floor. `id` is safe everywhere, `name` is what the crew file calls it."""

    id: str
    name: str
    label: str
    kind: NodeKind
    entry: bool = False
    terminal: bool = False
    waits: bool = False
    notes: tuple[str, ...] = ()
    closed: str = ""  # of a sub-crew: why nothing of it is drawn
    inside: "Diagram | None" = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """One way for control, a word or a task to go."""

    source: str
    target: str
    kind: EdgeKind
    label: str = ""


class Diagram(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    description: str = ""


# What an arrow without a mark is called, and what every arrow does.
CALLED: Mapping[EdgeKind, str] = {
    "terminate": "reply",
    "member": "at once",
    "next": "then",
    "default": "no signal",
    "handoff": "handoff",
    "return": "returns",
    "error": "on error",
    "delegate": "delegates",
}
DOES: Mapping[EdgeKind, str] = {
    "route": "hands over",
    "terminate": "ends the run",
    "pause": "waits for a person, then goes on",
    "parallel": "starts the group",
    "member": "works in the group",
    "next": "goes on when the group is done",
    "default": "hands over when no signal came",
    "handoff": "may hand over",
    "broadcast": "tells, and control stays",
    "external": "tells the host program",
    "sub_crew": "calls the crew",
    "return": "gives control back",
    "error": "takes over when the crew fails",
    "delegate": "gives out a task",
}


def called(edge: Edge) -> str:
    """The word at an arrow: its mark, or what stands in for one."""
    return edge.label or CALLED.get(edge.kind, edge.kind)


def remark_on(node: Node) -> str:
    """What must be said beside the name of a box: why it is closed, or what the crew in it calls itself."""
    if node.closed or node.inside is None:
        return node.closed
    return node.inside.name if plain(node.inside.name) != plain(node.name) else ""


def marks_of(node: Node) -> Iterator[str]:
    """What is special about a node, in words."""
    if node.entry:
        yield "starts here"
    if node.waits:
        yield "waits for a person"
    if node.terminal:
        yield "ends here"
    if node.kind == "unknown":
        yield "not in the crew"


# From a crew


def diagram_of(crew: Crew, depth: int = CREW_DEPTH_MAX) -> Diagram:
    """Draws a crew, sound or not, with the crews inside it down to `depth`; a crew that is used again, only once."""
    return _Builder(crew, _Sheet(depth)).diagram()


def _said(description: str) -> tuple[str, ...]:
    """What the author of the file wrote for its readers."""
    return (description,) if description.strip() else ()


class _Sheet:
    """What all levels of one diagram share: ids that are unique, and which crews are drawn where."""

    def __init__(self, depth: int) -> None:
        self.depth, self.given, self.nested = depth, 0, 0
        self.drawn: dict[int, str] = {}  # by identity: whoever reads crews gives one that is used again once

    def number(self, *, nested: bool) -> str:
        self.given += 1
        self.nested += nested
        return f"n{self.given - 1}"


class _Builder:
    """The nodes and arrows of one crew. `trail` names the boxes around it, outermost first."""

    def __init__(self, crew: Crew, sheet: _Sheet, trail: tuple[str, ...] = ()) -> None:
        self.crew, self.sheet, self.trail = crew, sheet, trail
        self.roles, self.only_members = _roles(crew), _only_members(crew)
        self.defined = {agent.id: agent for agent in crew.agents}
        self.agents = {agent.id: self._agent(agent) for agent in crew.agents}
        self.groups = {name: self._group(name, group) for name, group in crew.groups.items()}
        self.sub_crews = {name: self._sub_crew(name, sub) for name, sub in crew.sub_crews.items()}
        self.others: dict[str, Node] = {}
        self.ending: Node | None = None

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

    def _number(self) -> str:
        return self.sheet.number(nested=bool(self.trail))

    def _agent(self, agent: Agent) -> Node:
        routes = self.crew.routes.get(agent.id, ())
        return Node(
            id=self._number(),
            name=agent.id,
            label=agent.name or agent.id,
            kind="agent",
            entry=agent.id == self.crew.entry_point,
            terminal=ends_without_signal(self.crew, agent),
            waits=_waits(self.crew, agent.id, routes),
            notes=(
                *_agent_notes(self.crew, agent.id, routes),
                *self.roles.get(agent.id, ()),
                *_said(self.crew.behavior_of(agent.id).description),
            ),
        )

    def _group(self, name: str, group: Group) -> Node:
        label = "at once" if group.unnamed else name
        return Node(
            id=self._number(),
            name=name,
            label=label,
            kind="group",
            notes=(*_group_notes(group), *_said(group.description)),
        )

    def _sub_crew(self, name: str, sub: SubCrew) -> Node:
        number, closed, inside = self._number(), self._closed(sub), None
        if sub.crew is not None and not closed:
            trail = (*self.trail, name)
            self.sheet.drawn[id(sub.crew)] = " › ".join(trail)
            inside = _Builder(sub.crew, self.sheet, trail).diagram()
        notes = (*self.roles.get(name, ()), *_call_notes(self.crew, name), *_said(sub.description))
        return Node(id=number, name=name, label=name, kind="sub_crew", closed=closed, notes=notes, inside=inside)

    def _closed(self, sub: SubCrew) -> str:
        """Why nothing is drawn inside the box; empty if something is."""
        if sub.crew is None:
            return "its crew could not be read"
        if id(sub.crew) in self.sheet.drawn:
            return f"the same crew as {self.sheet.drawn[id(sub.crew)]}"
        if len(self.trail) >= self.sheet.depth:
            count = len(sub.crew.agents)
            return f"{count} agent{'s' if count != 1 else ''} inside"
        return "not drawn here, the diagram is full" if self.sheet.nested >= NESTED_NODES_MAX else ""

    def _end(self) -> str:
        self.ending = self.ending or Node(id=self._number(), name="", label="END", kind="end")
        return self.ending.id

    def _find(self, name: str, *places: dict[str, Node]) -> str:
        """The id behind a name; what the crew does not have gets a node that says so."""
        found = next((place[name] for place in places if name in place), None) or self.others.get(name)
        if found is None:
            found = Node(id=self._number(), name=name, label=name or "nothing", kind="unknown")
            self.others[name] = found
        return found.id

    def _worker(self, name: str) -> str:
        return self._find(name, self.agents, self.sub_crews)

    # Arrows

    def _edges(self) -> Iterator[Edge]:
        for name in dict.fromkeys((*self.agents, *self.crew.routes, *self.crew.defaults)):
            for route in self.crew.routes.get(name, ()):
                if not route.acknowledges:
                    yield from self._from_route(name, route)
            yield from self._without_mark(name)
        for group in self.crew.groups.values():
            yield from self._from_group(group)
        yield from self._delegated()

    def _from_route(self, emitter: str, route: Route) -> Iterator[Edge]:
        source = self._worker(emitter)
        match route.behavior:
            case SignalBehavior.TERMINATE:
                yield Edge(source=source, target=self._end(), kind="terminate", label=route.signal)
            case SignalBehavior.ROUTE:
                yield Edge(source=source, target=self._worker(route.target), kind="route", label=route.signal)
            case SignalBehavior.PAUSE:
                target = self._worker(route.target or emitter)
                yield Edge(source=source, target=target, kind="pause", label=route.signal)
            case SignalBehavior.PARALLEL:
                yield from self._started(source, route)
            case SignalBehavior.BROADCAST:
                for name in route.targets or (emitter,):
                    yield Edge(source=source, target=self._worker(name), kind="broadcast", label=route.signal)
            case SignalBehavior.EXTERNAL:
                yield Edge(source=source, target=source, kind="external", label=route.signal)
            case SignalBehavior.SUB_CREW:
                yield from self._called(source, route)
            case _:
                assert_never(route.behavior)

    def _started(self, source: str, route: Route) -> Iterator[Edge]:
        started = self._find(route.target, self.groups)
        yield Edge(source=source, target=started, kind="parallel", label=route.signal)
        group = self.crew.groups.get(route.target)
        if group is not None and not group.next_agent:
            yield Edge(source=started, target=source, kind="return")

    def _called(self, source: str, route: Route) -> Iterator[Edge]:
        child = self._find(route.target_crew, self.sub_crews)
        back = self._worker(route.return_to) if route.return_to else source
        yield Edge(source=source, target=child, kind="sub_crew", label=route.signal)
        yield Edge(source=child, target=back, kind="return")
        if route.on_error not in ("fail", "return"):
            yield Edge(source=child, target=self._worker(route.on_error), kind="error")

    def _without_mark(self, name: str) -> Iterator[Edge]:
        """Where a reply without a signal can lead, in the order in which a run tries it."""
        source, agent = self._worker(name), self.defined.get(name)
        if agent and self._ends(agent):
            yield Edge(source=source, target=self._end(), kind="terminate")
        if name in self.crew.defaults:
            yield Edge(source=source, target=self._worker(self.crew.defaults[name]), kind="default")
        for target in agent.handoff_targets if agent else ():
            yield Edge(source=source, target=self._worker(target), kind="handoff")

    def _ends(self, agent: Agent) -> bool:
        if self.crew.behavior_of(agent.id).wait_for_signal or agent.id in self.only_members:
            return False
        led_on = agent.id in self.crew.defaults or agent.handoff_targets
        completes = self.crew.settings.on_no_signal == "complete" and not led_on
        return completes or ends_without_signal(self.crew, agent)

    def _from_group(self, group: Group) -> Iterator[Edge]:
        source = self.groups[group.name].id
        for member in group.agents:
            yield Edge(source=source, target=self._worker(member), kind="member")
        if group.next_agent:
            yield Edge(source=source, target=self._worker(group.next_agent), kind="next")

    def _delegated(self) -> Iterator[Edge]:
        for parent, children in self.crew.delegation.children.items() if self.crew.delegation else ():
            for child in children:
                yield Edge(source=self._worker(parent), target=self._worker(child), kind="delegate")


def _waits(crew: Crew, agent: str, routes: Iterable[Route]) -> bool:
    behavior = crew.behavior_of(agent)
    held = behavior.wait_for_signal or not behavior.auto_route
    return held or any(r.behavior is SignalBehavior.PAUSE or r.pause for r in routes)


def _agent_notes(crew: Crew, agent: str, routes: Iterable[Route]) -> Iterator[str]:
    behavior = crew.behavior_of(agent)
    if behavior.wait_for_signal:
        yield "waits for a person when no signal came"
    if not behavior.auto_route:
        yield "asks a person before control moves on"
    for route in routes:
        if route.acknowledges:
            yield f"{route.signal} is noted and steers nothing"
        elif route.behavior is SignalBehavior.EXTERNAL and route.pause:
            yield f"{route.signal} waits for the host program's answer"


def _call_notes(crew: Crew, name: str) -> Iterator[str]:
    """What calls of a sub-crew do that no arrow shows."""
    calls = (route for routes in crew.routes.values() for route in routes if route.target_crew == name)
    for signal in dict.fromkeys(route.signal for route in calls if route.on_error == "return"):
        yield f"when {signal} fails, the error is what it returns"


def _group_notes(group: Group) -> Iterator[str]:
    yield "goes on when all are done" if group.wait_for_all else "goes on at the first success"
    if group.timeout_seconds is not None:
        yield f"waits at most {group.timeout_seconds:g} s"
    if group.on_error == "fail":
        yield "fails when a member fails"


def _roles(crew: Crew) -> dict[str, list[str]]:
    """What agents are beside having the floor: members, children, listeners."""
    roles: dict[str, list[str]] = {}
    for group in crew.groups.values():
        for member in group.agents:
            roles.setdefault(member, []).append(f"works in the group {group.name}")
    for parent, children in crew.delegation.children.items() if crew.delegation else ():
        for child in children:
            roles.setdefault(child, []).append(f"reports to {parent}")
    for each in crew.subscriptions:
        verb = "hears" if each.silent else "is woken by"
        roles.setdefault(each.agent, []).append(f"{verb} {each.pattern}")
    return roles


def _only_members(crew: Crew) -> dict[str, None]:
    """Agents that never have the floor: their replies go to a group, so none of them ends a run."""
    reached = ControlGraph(crew).reached()
    return dict.fromkeys(
        agent for agent in crew.agent_ids if present(agent) in reached and control(agent) not in reached
    )


# Words


def plain(text: str) -> str:
    """The text on one line, without what could steer a terminal, break XML or turn the reading direction."""
    return " ".join("".join(map(_harmless, text)).split())


def _harmless(char: str) -> str:
    category = unicodedata.category(char)
    if char.isspace() or category in ("Zl", "Zp"):
        return " "
    if category in ("Cc", "Cs", "Cn"):
        return "\N{REPLACEMENT CHARACTER}"
    # The joiners shape letters of Indic and Arabic scripts; every other format character only hides or reorders.
    return "" if category == "Cf" and char not in "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}" else char


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
