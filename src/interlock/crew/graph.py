"""Where control can go. The checks walk this graph, the diagrams draw the crew itself.

A spot is a state of control: an agent at work, an agent that only gets side turns or a branch, a group that joins.
Rule 1: a member of a group needs no way on, it returns to the join; so being a member is a spot of its own.
Rule 2: a group without next_agent leads wherever its members' marks lead, and back to whoever started it.
Rule 3: a pause ends nothing; the path goes on at the same agent, or at the route's target.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from interlock.crew.definition import Agent, Crew, Route
from interlock.signals.definition import SignalBehavior

Kind = Literal["control", "present", "join", "lead", "end"]


class Spot(NamedTuple):
    kind: Kind
    name: str = ""
    starter: str = ""


END = Spot("end")


def control(agent: str) -> Spot:
    """The agent has the floor, and its reply decides where control goes."""
    return Spot("control", agent)


def present(agent: str) -> Spot:
    """The agent works without the floor: in a group, on a delegated task, in a side turn."""
    return Spot("present", agent)


class ControlGraph:
    """Every step of control that a crew allows. Unknown names have no spot; they are reported elsewhere."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.agents = {agent.id: agent for agent in crew.agents}
        self.steps: dict[Spot, tuple[Spot, ...]] = {END: ()}
        for agent in crew.agents:
            self.steps[control(agent.id)] = self._known(self._from_control(agent.id))
            self.steps[present(agent.id)] = self._known(self._from_presence(agent.id))
        for agent_id, routes in crew.routes.items():
            for route in routes:
                if route.behavior is SignalBehavior.PARALLEL and route.target in crew.groups:
                    join = Spot("join", route.target, agent_id)
                    self.steps[join] = self._known(self._from_join(join))
        for group in crew.groups:
            self.steps[Spot("lead", group)] = self._known(self._from_lead(group))
        self.roots = tuple(self._known(self._roots()))

    def reached(self, starts: Iterable[Spot] | None = None) -> dict[Spot, Spot | None]:
        """Every spot that can be reached, each with the one before it on a shortest way."""
        queue = deque(self.roots if starts is None else starts)
        before: dict[Spot, Spot | None] = dict.fromkeys(queue)
        while queue:
            spot = queue.popleft()
            for step in self.steps.get(spot, ()):
                if step not in before:
                    before[step] = spot
                    queue.append(step)
        return before

    def leading_to(self, goals: Iterable[Spot]) -> set[Spot]:
        """Every spot from which one of the goals can be reached, the goals included."""
        back: dict[Spot, list[Spot]] = {}
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
        """Whether control that has come to the agent can neither leave it nor end there."""
        return all(step.kind == "present" for step in self.steps[control(agent)])

    def loops_among(self, spots: set[Spot]) -> list[tuple[Spot, ...]]:
        """The parts of a set that lead back into themselves and nowhere else in it."""
        parts = _strongly_connected({spot: self.steps[spot] for spot in self.steps if spot in spots})
        part_of = {spot: n for n, part in enumerate(parts) for spot in part}
        left = {
            part_of[spot]
            for spot in part_of
            for step in self.steps[spot]
            if step in part_of and part_of[step] != part_of[spot]
        }
        return [part for n, part in enumerate(parts) if n not in left]

    def _known(self, steps: Iterable[Spot]) -> tuple[Spot, ...]:
        agents = self.agents
        return tuple(dict.fromkeys(s for s in steps if s.kind not in ("control", "present") or s.name in agents))

    def _roots(self) -> Iterator[Spot]:
        yield control(self.crew.entry_point)
        if self.crew.delegation:
            yield control(self.crew.delegation.root)
        for subscription in self.crew.subscriptions:
            if not subscription.silent:
                yield control(subscription.agent)

    def _from_control(self, agent: str) -> Iterator[Spot]:
        yield present(agent)
        for route in self.crew.routes.get(agent, ()):
            yield from self._steered(route, agent, itself=agent)
        yield from self._without_signal(agent)

    def _steered(self, route: Route, emitter: str, *, itself: str) -> Iterator[Spot]:
        """Where one mark takes control; `itself` is where control stays if the mark only waits or calls."""
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
                yield Spot("join", route.target, emitter)
            case SignalBehavior.SUB_CREW:
                yield control(route.return_to or itself)
                yield control(route.on_error)
            case SignalBehavior.EXTERNAL if route.pause:
                yield control(itself)
            case _:
                return

    def _without_signal(self, agent_id: str) -> Iterator[Spot]:
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

    def _from_presence(self, agent: str) -> Iterator[Spot]:
        for route in self.crew.routes.get(agent, ()):
            yield from (present(target) for target in route.targets)
        if self.crew.delegation:
            yield from (present(child) for child in self.crew.delegation.children.get(agent, ()))

    def _from_join(self, join: Spot) -> Iterator[Spot]:
        group = self.crew.groups[join.name]
        yield from (present(member) for member in group.agents)
        if group.next_agent:
            yield control(group.next_agent)
        else:
            yield control(join.starter)
            if any(True for _ in self._from_lead(group.name)):  # members without marks lead nowhere else
                yield Spot("lead", group.name)

    def _from_lead(self, group: str) -> Iterator[Spot]:
        for member in self.crew.groups[group].agents:
            for route in self.crew.routes.get(member, ()):
                if route.behavior not in (SignalBehavior.PAUSE, SignalBehavior.EXTERNAL):
                    yield from self._steered(route, member, itself=member)


def ends_without_signal(crew: Crew, agent: Agent) -> bool:
    """Whether a reply of this agent that carries no signal completes the run, before any default applies."""
    if crew.is_terminal(agent):
        return True
    # A crew of one agent without exits answers and is done.
    alone = len(crew.agents) == 1 and agent.id not in crew.defaults and not agent.handoff_targets
    return alone and all(route.is_tell or route.acknowledges for route in crew.routes.get(agent.id, ()))


def _strongly_connected(steps: dict[Spot, tuple[Spot, ...]]) -> list[tuple[Spot, ...]]:
    """Tarjan's parts, without recursion: crews may be thousands of agents long."""
    order: dict[Spot, int] = {}
    low: dict[Spot, int] = {}
    stack: dict[Spot, None] = {}
    parts: list[tuple[Spot, ...]] = []
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
                    parts.append(_taken_from(stack, spot))
            elif step in order:
                low[spot] = min(low[spot], order[step])
            else:
                walk.append((step, iter(steps[step])))
    return parts


def _taken_from(stack: dict[Spot, None], first: Spot) -> tuple[Spot, ...]:
    part: list[Spot] = []
    while not part or part[-1] != first:
        part.append(stack.popitem()[0])
    return tuple(reversed(part))
