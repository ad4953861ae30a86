"""What each agent is doing, as `agent.state` says: those in the delegation tree, and those who may ask people.

Rule 1: every move is one of `messages.states.MOVES`; an illegal one would be a mistake of ours.
"""

from interlock.crew.definition import Crew
from interlock.engine.events import AgentStateChanged
from interlock.engine.transition import Transition
from interlock.messages.states import MOVES, AgentState, Cause

ASK_USER = "ask_user"

RESTING = (AgentState.IDLE, AgentState.COMPLETED, AgentState.ERROR)


def children_of(crew: Crew, agent: str) -> tuple[str, ...]:
    return crew.delegation.children.get(agent, ()) if crew.delegation is not None else ()


def parent_of(crew: Crew, agent: str) -> str:
    """Whoever may delegate to the agent; empty for the root and outside the tree."""
    return crew.delegation.parents.get(agent, "") if crew.delegation is not None else ""


def _speaks(t: Transition, agent: str) -> bool:
    """Whether the agent has to do with messages."""
    return ASK_USER in t.table.tools_of(agent) or bool(children_of(t.crew, agent) or parent_of(t.crew, agent))


def state_of(t: Transition, agent: str) -> AgentState:
    return t.state.agents.get(agent, AgentState.IDLE)


def moved(t: Transition, agent: str, cause: Cause) -> None:
    """Makes the move, and writes it down."""
    if agent not in t.state.agents and not _speaks(t, agent):
        return
    before = state_of(t, agent)
    assert (before, cause) in MOVES, f"the engine moves agents by the table alone, not from {before} by {cause}"
    t.state.agents[agent] = after = MOVES[before, cause]
    t.conclude(AgentStateChanged(agent=agent, state=after))


def moved_if_at_work(t: Transition, agent: str, cause: Cause) -> None:
    if state_of(t, agent) not in RESTING:
        moved(t, agent, cause)
