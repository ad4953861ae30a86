"""Which agents are asked for a value, and when: the one answer that checks, prompts and the engine share.

Rule 1: an agent's own `output` is asked of each reply that ends its turn.
Rule 2: a crew's `output` is asked of the replies that end the run, of agents that have no output of their own. Where
all replies of an agent do, it is asked of each.
Rule 3: delegated tasks, side turns and advisory calls are not asked for one.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.crew.graph import END, ControlGraph, ControlPoint, control
from interlock.signals.definition import SignalBehavior


class AskedOutput(msgspec.Struct, frozen=True):
    """What an agent is asked for; `always` in each reply that ends its turn, else in those that end the run.

    `is_own`: it is the agent's output and not the crew's. `at_end` is the crew's, if a value of the agent can end the
    run: it fits by its schema, but the type of the crew may demand more.
    """

    schema: dict[str, Any]
    always: bool
    is_own: bool = False
    at_end: dict[str, Any] | None = None


def has_outputs(crew: CrewDefinition) -> bool:
    return crew.output is not msgspec.UNSET or any(agent.output is not msgspec.UNSET for agent in crew.agents)


def outputs_by_agent(crew: CrewDefinition) -> dict[str, AskedOutput]:
    """What is asked of each agent."""
    if not has_outputs(crew):
        return {}
    graph = ControlGraph(crew)
    ending = ending_agents(graph) if crew.output is not msgspec.UNSET else ()
    asked: dict[str, AskedOutput] = {}
    for agent in crew.agents:
        if agent.output is not msgspec.UNSET:
            at_end = crew.output if agent.id in ending and crew.output is not msgspec.UNSET else None
            asked[agent.id] = AskedOutput(agent.output, always=True, is_own=True, at_end=at_end)
        elif agent.id in ending and crew.output is not msgspec.UNSET:
            asked[agent.id] = AskedOutput(crew.output, always=_always_ends(graph, agent.id))
    return asked


def _always_ends(graph: ControlGraph, agent: str) -> bool:
    """True if every reply that ends a turn of the agent ends the run."""
    steps = [step for step in graph.steps[control(agent)] if step.kind != "present"]
    return steps == [END] and not any(agent in group.agents for group in graph.crew.groups.values())


def ending_agents(graph: ControlGraph) -> tuple[str, ...]:
    """The agents whose reply can end the run: with control, or as a member of a group whose members decide."""
    ends = {agent for agent in graph.agents if END in graph.steps[control(agent)]}
    ends.update(_ending_members(graph))
    return tuple(agent for agent in graph.agents if agent in ends)


def _ending_members(graph: ControlGraph) -> Iterator[str]:
    for spot in graph.steps:
        if spot.kind == "join" and ControlPoint("lead", spot.name) in graph.steps[spot]:
            for member in graph.crew.groups[spot.name].agents:
                routes = graph.crew.routes.get(member, ())
                if any(route.behavior is SignalBehavior.TERMINATE and not route.acknowledges for route in routes):
                    yield member
