"""The graph of the flow of control. The checks walk it; diagrams draw the crew itself.

A point is a state of control: an agent at work, an agent that only gets side turns or a branch, a group that joins.
Rule 1: a member of a group needs no route, it returns to the join; so being a member is a point of its own.
Rule 2: a group without next_agent leads where its members' signals lead, and back to the agent that started it.
Rule 3: a pause ends nothing; the path continues at the same agent, or at the route's target.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from interlock.crew.definition import AgentDefinition, CrewDefinition, RouteDefinition
from interlock.signals.definition import SignalBehavior

Kind = Literal["control", "present", "join", "lead", "end"]


class ControlPoint(NamedTuple):
    kind: Kind
    name: str = ""
    starter: str = ""


END = ControlPoint("end")


def control(agent: str) -> ControlPoint:
    """The agent has control: its reply decides the next step."""
    return ControlPoint("control", agent)


def present(agent: str) -> ControlPoint:
    """The agent works without control: in a group, on a delegated task, in a side turn."""
    return ControlPoint("present", agent)


class ControlGraph:
    """Every step of control that a crew allows. Unknown names have no point; they are reported elsewhere."""

    def __init__(self, crew: CrewDefinition) -> None:
        self.crew = crew
        self.agents = {agent.id: agent for agent in crew.agents}
        self.steps: dict[ControlPoint, tuple[ControlPoint, ...]] = {END: ()}
        for agent in crew.agents:
            self.steps[control(agent.id)] = self._without_unknown(self._steps_from_control(agent.id))
            self.steps[present(agent.id)] = self._without_unknown(self._steps_from_presence(agent.id))
        for agent_id, routes in crew.routes.items():
            for route in routes:
                if route.behavior is SignalBehavior.PARALLEL and route.target in crew.groups:
                    join = ControlPoint("join", route.target, agent_id)
                    self.steps[join] = self._without_unknown(self._steps_from_join(join))
        for group in crew.groups:
            self.steps[ControlPoint("lead", group)] = self._without_unknown(self._steps_from_lead(group))
        self.roots = tuple(self._without_unknown(self._roots()))

    def reachable_points(self, starts: Iterable[ControlPoint] | None = None) -> dict[ControlPoint, ControlPoint | None]:
        """Every point that can be reached, each with the one before it on a shortest path."""
        queue = deque(self.roots if starts is None else starts)
        before: dict[ControlPoint, ControlPoint | None] = dict.fromkeys(queue)
        while queue:
            spot = queue.popleft()
            for step in self.steps.get(spot, ()):
                if step not in before:
                    before[step] = spot
                    queue.append(step)
        return before

    def points_leading_to(self, goals: Iterable[ControlPoint]) -> set[ControlPoint]:
        """Every point from which one of the goals can be reached, including the goals."""
        back: dict[ControlPoint, list[ControlPoint]] = {}
        for spot, steps in self.steps.items():
            for step in steps:
                back.setdefault(step, []).append(spot)
        queue = deque(goals)
        found = set(queue)
        while queue:
            for spot in back.get(queue.popleft(), ()):
                if spot not in found:
                    found.add(spot)
                    queue.append(spot)
        return found

    def is_dead_end(self, agent: str) -> bool:
        """True if control can reach the agent but neither leave it nor end there."""
        return all(step.kind == "present" for step in self.steps[control(agent)])

    def loops_among(self, spots: set[ControlPoint]) -> list[tuple[ControlPoint, ...]]:
        """The parts of a set that lead back into themselves and to no other part of it."""
        parts = _strongly_connected({spot: self.steps[spot] for spot in self.steps if spot in spots})
        part_of = {spot: n for n, part in enumerate(parts) for spot in part}
        left = {
            part_of[spot]
            for spot in part_of
            for step in self.steps[spot]
            if step in part_of and part_of[step] != part_of[spot]
        }
        return [part for n, part in enumerate(parts) if n not in left]

    def _without_unknown(self, steps: Iterable[ControlPoint]) -> tuple[ControlPoint, ...]:
        agents = self.agents
        return tuple(dict.fromkeys(s for s in steps if s.kind not in ("control", "present") or s.name in agents))

    def _roots(self) -> Iterator[ControlPoint]:
        yield control(self.crew.entry_point)
        if self.crew.delegation:
            yield control(self.crew.delegation.root)
        for subscription in self.crew.subscriptions:
            if not subscription.silent:
                yield control(subscription.agent)

    def _steps_from_control(self, agent: str) -> Iterator[ControlPoint]:
        yield present(agent)
        for route in self.crew.routes.get(agent, ()):
            yield from self._steps_of_route(route, agent, itself=agent)
        yield from self._steps_without_signal(agent)

    def _steps_of_route(self, route: RouteDefinition, emitter: str, *, itself: str) -> Iterator[ControlPoint]:
        """The points that one signal leads to; `itself` is where control stays if it only waits or calls."""
        if route.acknowledges:
            return
        match route.behavior:
            case SignalBehavior.TERMINATE:
                yield END
            case SignalBehavior.ROUTE:
                yield control(route.target)
            case SignalBehavior.PAUSE:
                yield control(route.target or itself)
            case SignalBehavior.PARALLEL if route.target in self.crew.groups:
                yield ControlPoint("join", route.target, emitter)
            case SignalBehavior.SUB_CREW:
                yield control(route.return_to or itself)
                yield control(route.on_error)
            case SignalBehavior.EXTERNAL if route.pause:
                yield control(itself)
            case _:
                return

    def _steps_without_signal(self, agent_id: str) -> Iterator[ControlPoint]:
        crew, agent = self.crew, self.agents[agent_id]
        yield from (present(target) for target in agent.handoff_targets)
        if crew.behavior_of(agent_id).wait_for_signal:
            yield control(agent_id)
        elif ends_without_signal(crew, agent):
            yield END
        elif agent_id in crew.defaults:
            yield control(crew.defaults[agent_id])
        elif agent.handoff_targets:
            yield control(agent.handoff_targets[0])
        elif crew.settings.on_no_signal == "complete":
            yield END

    def _steps_from_presence(self, agent: str) -> Iterator[ControlPoint]:
        for route in self.crew.routes.get(agent, ()):
            yield from (present(target) for target in route.targets)
        if self.crew.delegation:
            yield from (present(child) for child in self.crew.delegation.children.get(agent, ()))

    def _steps_from_join(self, join: ControlPoint) -> Iterator[ControlPoint]:
        group = self.crew.groups[join.name]
        yield from (present(member) for member in group.agents)
        if group.next_agent:
            yield control(group.next_agent)
        else:
            yield control(join.starter)
            if any(True for _ in self._steps_from_lead(group.name)):  # members without signals lead nowhere else
                yield ControlPoint("lead", group.name)

    def _steps_from_lead(self, group: str) -> Iterator[ControlPoint]:
        for member in self.crew.groups[group].agents:
            for route in self.crew.routes.get(member, ()):
                if route.behavior not in (SignalBehavior.PAUSE, SignalBehavior.EXTERNAL):
                    yield from self._steps_of_route(route, member, itself=member)


def ends_without_signal(crew: CrewDefinition, agent: AgentDefinition) -> bool:
    """True if a reply without a signal completes the run, before any default applies."""
    if crew.is_terminal(agent):
        return True
    # A crew of one agent without exits completes after its answer.
    alone = len(crew.agents) == 1 and agent.id not in crew.defaults and not agent.handoff_targets
    return alone and all(route.is_tell or route.acknowledges for route in crew.routes.get(agent.id, ()))


def _strongly_connected(steps: dict[ControlPoint, tuple[ControlPoint, ...]]) -> list[tuple[ControlPoint, ...]]:
    """Tarjan's algorithm without recursion: crews may have thousands of agents in a row."""
    order: dict[ControlPoint, int] = {}
    low: dict[ControlPoint, int] = {}
    stack: dict[ControlPoint, None] = {}
    parts: list[tuple[ControlPoint, ...]] = []
    for root in steps:
        walk = [(root, iter(steps[root]))] if root not in order else []
        while walk:
            spot, ahead = walk[-1]
            if spot not in order:
                order[spot] = low[spot] = len(order)
                stack[spot] = None
            step = next((s for s in ahead if s in steps and (s not in order or s in stack)), None)
            if step is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[spot])
                if low[spot] == order[spot]:
                    parts.append(_pop_component(stack, spot))
            elif step in order:
                low[spot] = min(low[spot], order[step])
            else:
                walk.append((step, iter(steps[step])))
    return parts


def _pop_component(stack: dict[ControlPoint, None], first: ControlPoint) -> tuple[ControlPoint, ...]:
    part: list[ControlPoint] = []
    while not part or part[-1] != first:
        part.append(stack.popitem()[0])
    return tuple(reversed(part))
