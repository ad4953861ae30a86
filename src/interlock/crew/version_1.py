"""The meaning of a crew of version 1.0 where 2.0 would refuse it.

Rule 1: an agent that can never get a turn is left out, with everything the file says about it.
Rule 2: an agent that is a dead end is terminal.
Rule 3: nothing here reports: `checks.flow` warns about both, and checks the rest of the crew.
"""

from collections.abc import Iterable

import msgspec

from interlock.crew.definition import AgentDefinition, CrewDefinition, GroupDefinition, RouteDefinition
from interlock.crew.graph import ControlGraph, control, present
from interlock.signals.definition import SignalBehavior, SignalDefinition


def as_meant(crew: CrewDefinition) -> CrewDefinition:
    """The sound crew as it runs. A crew of version 2.0 is returned as it is."""
    if crew.version != "1.0":
        return crew
    graph = ControlGraph(crew)
    reached = graph.reachable_points()
    unreached = {agent for agent in graph.agents if control(agent) not in reached and present(agent) not in reached}
    dead_ends = [agent for agent in graph.agents if control(agent) in reached and graph.is_dead_end(agent)]
    return _with_endings(_without_agents(crew, unreached) if unreached else crew, dead_ends)


def _with_endings(crew: CrewDefinition, agents: Iterable[str]) -> CrewDefinition:
    endings = {agent: msgspec.structs.replace(crew.behavior_of(agent), is_terminal=True) for agent in agents}
    return msgspec.structs.replace(crew, behaviors={**crew.behaviors, **endings}) if endings else crew


def _without_agents(crew: CrewDefinition, agents: set[str]) -> CrewDefinition:
    groups = {name: group for name, group in crew.groups.items() if not _names_any(group, agents)}
    gone = agents | (crew.groups.keys() - groups.keys())
    routes = {
        agent: tuple(_without_goal(route, gone) for route in routes)
        for agent, routes in crew.routes.items()
        if agent not in agents
    }
    routed = {route.signal for each in routes.values() for route in each}
    return msgspec.structs.replace(
        crew,
        agents=tuple(_without_handoffs(agent, agents) for agent in crew.agents if agent.id not in agents),
        signals=tuple(_without_names(definition, gone, routed) for definition in crew.signals),
        routes=routes,
        defaults={agent: to for agent, to in crew.defaults.items() if agent not in agents and to not in agents},
        behaviors={agent: behavior for agent, behavior in crew.behaviors.items() if agent not in agents},
        groups=groups,
        subscriptions=tuple(each for each in crew.subscriptions if each.agent not in agents),
    )


def _without_handoffs(agent: AgentDefinition, gone: set[str]) -> AgentDefinition:
    """The agent without handoff targets: a group member never hands over, and its targets may be gone."""
    if gone.isdisjoint(agent.handoff_targets):
        return agent
    targets = tuple(target for target in agent.handoff_targets if target not in gone)
    return msgspec.structs.replace(agent, handoff_targets=targets)


def _names_any(group: GroupDefinition, agents: set[str]) -> bool:
    """True if the group has one of these agents. A group with an agent that is never reached never starts."""
    return group.next_agent in agents or any(member in agents for member in group.agents)


def _without_goal(route: RouteDefinition, gone: set[str]) -> RouteDefinition:
    """The route of a group member whose target is gone: it never routes, so it only acknowledges."""
    if gone.isdisjoint((route.target, route.return_to, route.on_error)):
        return route
    return RouteDefinition(
        signal=route.signal,
        behavior=SignalBehavior.ROUTE,
        priority=route.priority,
        description=route.description,
        acknowledges=True,
    )


def _without_names(definition: SignalDefinition, gone: set[str], routed: set[str]) -> SignalDefinition:
    """The signal without agents that are gone; if only they routed it, it is not required."""
    return msgspec.structs.replace(
        definition,
        allowed_agents=[agent for agent in definition.allowed_agents if agent not in gone],
        valid_targets=[target for target in definition.valid_targets if target not in gone],
        default_target="" if definition.default_target in gone else definition.default_target,
        required=definition.required and definition.name in routed,
    )
