"""Bounds on working time. A timer stands still while the run is paused, a group's while a member waits, and that of
a reply's tools while a person is asked about one of them, those of a message while the other side waits for one.

Rule 1: what is bounded has one timer, by purpose: the run, the group, a message, a turn's next try, tools, budget.
Rule 2: rules start and drop timers; `keep_time` alone orders the driver to set them or give them up.
"""

from interlock.engine.effects import SetTimer
from interlock.engine.standing import parent_of
from interlock.engine.state import Timer, Wait, turn_of
from interlock.engine.transition import Transition

RUN, GROUP, WARNING, RETRY, TOOLS, BUDGET = "run", "group", "warning", "retry:", "tools:", "budget:"
# Of messages: until somebody takes it up, until it is answered.
ACK, ANSWER = "ack:", "answer:"

# What a turn may be waiting for.
OF_TURNS = (RETRY, TOOLS, BUDGET)


def start_timer(t: Transition, purpose: str, milliseconds: int) -> None:
    assert purpose not in t.state.timers, "what is bounded has one timer"
    t.state.timers[purpose] = Timer(left_ms=max(milliseconds, 0))
    t.timers_started[purpose] = None


def drop_timer(t: Transition, purpose: str) -> None:
    timer = t.state.timers.pop(purpose, None)
    t.timers_started.pop(purpose, None)
    if timer is not None and timer.key:
        del t.index.ticking[timer.key]
        t.give_up(timer.key)


def keep_time(t: Transition, *, all_: bool) -> None:
    """Lets every timer run, or stand still, as the state asks for now; or those that were just started."""
    held = _held_by_people(t)
    for purpose in t.state.timers if all_ else t.timers_started:
        timer, runs = t.state.timers[purpose], t.state.status == "running" and purpose not in held
        if runs and not timer.key:
            timer.key, timer.since_ms = t.new_key(), t.state.worked_ms
            t.index.ticking[timer.key] = purpose
            t.order(SetTimer(key=timer.key, duration_ms=timer.left_ms))
        elif timer.key and not runs:
            t.give_up(timer.key)
            del t.index.ticking[timer.key]
            timer.left_ms = left(t, timer)
            timer.key = ""


def left(t: Transition, timer: Timer) -> int:
    return max(0, timer.left_ms - (t.state.worked_ms - timer.since_ms)) if timer.key else timer.left_ms


def _held_by_people(t: Transition) -> set[str]:
    """The timers that stand still because somebody waits for a person: the group's, and those of tools and mail."""
    if not t.state.waits:
        return set()
    tools = [f"{TOOLS}{wait.turn}" for wait in t.state.waits if wait.tool]
    mail = [id_ for agent in _agents_above_waits(t) for id_ in _to_be_answered_by(t, agent)]
    bounds = (ANSWER, ACK) if t.state.rules > 1 else (ANSWER,)
    return {GROUP, *tools, *(f"{bound}{id_}" for id_ in mail for bound in bounds)}


def _agents_above_waits(t: Transition) -> dict[str, None]:
    """Those who wait for a person, crews among them, and whoever waits for their reports."""
    found: dict[str, None] = {}
    crews = {task.child.key: name for name, task in t.state.tasks.items() if task.child is not None}
    for wait in t.state.waits:
        agent = crews.get(wait.child, "") if wait.child else _who_waits(t, wait)
        if not agent:
            continue
        found[agent] = None
        while agent in t.state.tasks:
            agent = parent_of(t.crew, agent)
            found[agent] = None
    return found


def _who_waits(t: Transition, wait: Wait) -> str:
    """The agent whose turn waits; empty where no mail hangs on it."""
    turn = turn_of(t.state, wait.agent)
    return wait.agent if turn is not None and turn.number == wait.turn else ""


def _to_be_answered_by(t: Transition, agent: str) -> list[str]:
    """The task that the agent works on, those that it has not taken up, and questions to it."""
    box, task = t.state.mailboxes.get(agent), t.state.tasks.get(agent)
    owed = [*box.inbox, *box.owes.values()] if box is not None else []
    return [*([task.message] if task is not None else []), *(message.message_id for message in owed)]
