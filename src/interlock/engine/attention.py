"""Who may go on: whoever something has changed for, and whoever waits for them.

Rule 1: when a transition is over nobody is left who can go on, so that the next one looks only at whom it has touched.
Rule 2: the order is that of looking at everybody: mailboxes by age, then turns with the floor, then tasks by age.
"""

from heapq import heappop, heappush

from interlock.engine.standing import parent_of
from interlock.engine.state import Turn, turn_of, with_the_floor
from interlock.engine.transition import Transition
from interlock.messages.wire import Delegate


def next_with_task(t: Transition) -> str | None:
    """An agent with a task in its inbox."""
    _look(t)
    while t.queues.with_task:
        agent = heappop(t.queues.with_task)[1]
        if t.state.mailboxes[agent].has_in_inbox(Delegate):
            return agent
    return None


def next_suspended(t: Transition) -> Turn | None:
    """A turn that may have been given what it waits for."""
    return _next(t, t.queues.suspended)


def next_in_doubt(t: Transition) -> Turn | None:
    """A turn that may wait in vain."""
    return _next(t, t.queues.in_doubt)


def _next(t: Transition, queue: list[tuple[int, int, str]]) -> Turn | None:
    while queue:
        turn = turn_of(t.state, heappop(queue)[2])
        if turn is not None and turn.suspended:
            return turn
    return None


def _look(t: Transition) -> None:
    """Whoever was touched, and whoever waits for them, is queued."""
    touched, t.touched = t.touched, {}
    above: dict[str, None] = {}
    for agent in touched:
        box = t.state.mailboxes.get(agent)
        if box is not None and box.has_in_inbox(Delegate):
            heappush(t.queues.with_task, (t.index.boxes[agent], agent))
        while agent and agent not in above:
            above[agent] = None
            agent = parent_of(t.crew, agent)  # noqa: PLW2901 - upwards from whom it was
    _queue_suspended(t, above)


def _queue_suspended(t: Transition, agents: dict[str, None]) -> None:
    floor = {turn.agent: place for place, turn in enumerate(with_the_floor(t.state))}
    for agent in agents:
        turn = turn_of(t.state, agent)
        if turn is None or not turn.suspended:
            continue
        place = (0, floor[agent]) if agent in floor else (1, t.state.tasks[agent].taken_up)
        heappush(t.queues.suspended, (*place, agent))
        heappush(t.queues.in_doubt, (*place, agent))
