"""Timers of working time. All stop while the run is paused. While a person is asked, the timers of the group, of the
tools concerned, and of messages whose addressee waits stop too.

Rule 1: each purpose has one timer: the run, the group, a message, a turn's next try, tools, budget.
Rule 2: handlers start and drop timers; only `update_timers` emits effects for them.
"""

from interlock.engine.delegation.agent_states import parent_of
from interlock.engine.effects import SetTimer
from interlock.engine.kinds import RunStatus, TimerKind, TimerPurpose
from interlock.engine.state import Timer, Turn, Wait, turn_of
from interlock.engine.transition import Transition

RUN, GROUP, WARNING = TimerPurpose(TimerKind.RUN), TimerPurpose(TimerKind.GROUP), TimerPurpose(TimerKind.WARNING)

_OF_TURNS = (TimerKind.RETRY, TimerKind.TOOLS, TimerKind.BUDGET)


def start_timer(t: Transition, purpose: TimerPurpose, milliseconds: int) -> None:
    key = purpose.key
    assert key not in t.state.timers, "what is bounded has one timer"
    t.state.timers[key] = Timer(left_ms=max(milliseconds, 0))
    t.timers_started[key] = None


def drop_timer(t: Transition, purpose: TimerPurpose) -> None:
    _drop(t, purpose.key)


def drop_turn_timers(t: Transition, turn: Turn) -> None:
    for kind in _OF_TURNS:
        drop_timer(t, kind.of(turn.number))


def drop_all_timers(t: Transition) -> None:
    for key in list(t.state.timers):
        _drop(t, key)


def _drop(t: Transition, purpose: str) -> None:
    timer = t.state.timers.pop(purpose, None)
    t.timers_started.pop(purpose, None)
    if timer is not None and timer.key:
        del t.index.ticking[timer.key]
        t.cancel(timer.key)


def update_timers(t: Transition, *, all_: bool) -> None:
    """Starts or stops every timer as the state requires, or only those that are new."""
    held = _timers_on_hold(t)
    for purpose in t.state.timers if all_ else t.timers_started:
        timer, runs = t.state.timers[purpose], t.state.status is RunStatus.RUNNING and purpose not in held
        if runs and not timer.key:
            timer.key, timer.since_ms = t.new_key(), t.state.worked_ms
            t.index.ticking[timer.key] = purpose
            t.emit(SetTimer(key=timer.key, duration_ms=timer.left_ms))
        elif timer.key and not runs:
            t.cancel(timer.key)
            del t.index.ticking[timer.key]
            timer.left_ms = remaining_ms(t, timer)
            timer.key = ""


def remaining_ms(t: Transition, timer: Timer) -> int:
    return max(0, timer.left_ms - (t.state.worked_ms - timer.since_ms)) if timer.key else timer.left_ms


def _timers_on_hold(t: Transition) -> set[str]:
    """The keys of timers that are stopped while a person is asked: of the group, of tools and of messages."""
    if not t.state.waits:
        return set()
    tools = [TimerKind.TOOLS.of(wait.turn).key for wait in t.state.waits if wait.tool]
    mail = [id_ for agent in _agents_above_waits(t) for id_ in _messages_to_answer(t, agent)]
    kinds = (TimerKind.ANSWER, TimerKind.ACK) if t.state.rules > 1 else (TimerKind.ANSWER,)
    return {GROUP.key, *tools, *(kind.of(id_).key for id_ in mail for kind in kinds)}


def _agents_above_waits(t: Transition) -> dict[str, None]:
    """The agents and sub-crews that wait for a person, and those that wait for their reports."""
    found: dict[str, None] = {}
    crews = {task.child.key: name for name, task in t.state.tasks.items() if task.child is not None}
    for wait in t.state.waits:
        agent = crews.get(wait.child, "") if wait.child else _waiting_agent(t, wait)
        if not agent:
            continue
        found[agent] = None
        while agent in t.state.tasks:
            agent = parent_of(t.crew, agent)
            found[agent] = None
    return found


def _waiting_agent(t: Transition, wait: Wait) -> str:
    """The agent whose turn waits; empty if no message depends on it."""
    turn = turn_of(t.state, wait.agent)
    return wait.agent if turn is not None and turn.number == wait.turn else ""


def _messages_to_answer(t: Transition, agent: str) -> list[str]:
    """The ids of the agent's task, of tasks in its inbox, and of questions to it."""
    box, task = t.state.mailboxes.get(agent), t.state.tasks.get(agent)
    owed = [*box.inbox, *box.owes.values()] if box is not None else []
    return [*([task.message] if task is not None else []), *(message.message_id for message in owed)]
