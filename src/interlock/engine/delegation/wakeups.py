"""Wakeups: the agents that may continue because something changed for them or for an agent they wait for.

Rule 1: after a transition no agent is left that can continue, so the next one looks only at agents that it touched.
Rule 2: the order is the same as for all agents: mailboxes by age, then foreground turns, then tasks by age.
"""

from heapq import heappop, heappush

from interlock.engine.delegation.agent_states import parent_of
from interlock.engine.state import Turn, foreground_turns, turn_of
from interlock.engine.transition import Transition
from interlock.messages.wire import Delegate


def next_agent_with_task(t: Transition) -> str | None:
    """The next agent with a task in its inbox."""
    _queue_touched_agents(t)
    while t.queues.with_task:
        agent = heappop(t.queues.with_task)[1]
        if t.state.mailboxes[agent].count_in_inbox(Delegate):
            return agent
    return None


def next_turn_to_resume(t: Transition) -> Turn | None:
    """The next suspended turn that may have received what it waits for."""
    return _next_suspended_turn(t, t.queues.suspended)


def next_turn_in_doubt(t: Transition) -> Turn | None:
    """The next suspended turn that may be in a deadlock."""
    return _next_suspended_turn(t, t.queues.in_doubt)


def _next_suspended_turn(t: Transition, queue: list[tuple[int, int, str]]) -> Turn | None:
    while queue:
        turn = turn_of(t.state, heappop(queue)[2])
        if turn is not None and turn.suspended:
            return turn
    return None


def _queue_touched_agents(t: Transition) -> None:
    """Queues the touched agents and those that wait for them."""
    touched, t.touched = t.touched, {}
    above: dict[str, None] = {}
    for agent in touched:
        box = t.state.mailboxes.get(agent)
        if box is not None and box.count_in_inbox(Delegate):
            heappush(t.queues.with_task, (t.index.boxes[agent], agent))
        while agent and agent not in above:
            above[agent] = None
            agent = parent_of(t.crew, agent)  # noqa: PLW2901 - upwards from the touched agent
    _queue_suspended(t, above)


def _queue_suspended(t: Transition, agents: dict[str, None]) -> None:
    floor = {turn.agent: place for place, turn in enumerate(foreground_turns(t.state))}
    for agent in agents:
        turn = turn_of(t.state, agent)
        if turn is None or not turn.suspended:
            continue
        place = (0, floor[agent]) if agent in floor else (1, t.state.tasks[agent].first_turn)
        heappush(t.queues.suspended, (*place, agent))
        heappush(t.queues.in_doubt, (*place, agent))
