"""The state of each agent in the delegation tree, and of those that may ask people, as in `agent.state`.

Rule 1: every change is one of `messages.states.MOVES`; any other is a bug in the engine.
"""

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import AgentStateChanged
from interlock.engine.transition import Transition
from interlock.messages.states import MOVES, AgentState, Cause

RESTING = (AgentState.IDLE, AgentState.COMPLETED, AgentState.ERROR)


def children_of(crew: CrewDefinition, agent: str) -> tuple[str, ...]:
    return crew.delegation.children.get(agent, ()) if crew.delegation is not None else ()


def parent_of(crew: CrewDefinition, agent: str) -> str:
    """The agent that may delegate to this one; empty for the root and outside the tree."""
    return crew.delegation.parents.get(agent, "") if crew.delegation is not None else ""


def agent_state_of(t: Transition, agent: str) -> AgentState:
    return t.state.agents.get(agent, AgentState.IDLE)


def set_agent_state(t: Transition, agent: str, cause: Cause) -> None:
    """Changes the agent's state, and records it."""
    if not t.exchanges_messages(agent):
        return
    before = agent_state_of(t, agent)
    assert (before, cause) in MOVES, f"the engine moves agents by the table alone, not from {before} by {cause}"
    t.state.agents[agent] = after = MOVES[before, cause]
    t.has_messaging = True
    t.record(AgentStateChanged(agent=agent, state=after))


def set_state_if_at_work(t: Transition, agent: str, cause: Cause) -> None:
    if agent_state_of(t, agent) not in RESTING:
        set_agent_state(t, agent, cause)
