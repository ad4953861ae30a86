"""Giving up: a turn stops, and everything that it has under way ends with it."""

from interlock.engine.errands import abandon_errand
from interlock.engine.mail import settle_all
from interlock.engine.nesting import stop_child
from interlock.engine.spending import abandon_call
from interlock.engine.standing import children_of, moved_if_at_work
from interlock.engine.state import Task, Turn
from interlock.engine.timing import OF_TURNS, drop_timer
from interlock.engine.transition import Transition
from interlock.engine.unanswered import give_up_tools
from interlock.messages.states import Cause


def give_up_tasks_of(t: Transition, turn: Turn) -> None:
    """What the turn has given out and waits for no more ends with it."""
    if children_of(t.crew, turn.agent):
        for task in [task for task in t.state.tasks.values() if task.parent == turn.number]:
            give_up_task(t, task)


def give_up_task(t: Transition, task: Task) -> None:
    if t.state.tasks.get(task.worker) is task:
        t.drop_task(task)
    end_work(t, task)
    moved_if_at_work(t, task.worker, Cause.GIVEN_UP)


def end_work(t: Transition, task: Task) -> None:
    """Whoever works on a task stops, and owes nothing any more."""
    if task.turn is not None:
        stop(t, task.turn)
        return
    if task.child is not None and task.child.status in ("working", "waiting"):
        stop_child(t, task.child)
    if task.worker in t.state.errands:
        abandon_errand(t, t.state.errands[task.worker])
    settle_all(t, task.worker, f"{task.worker} has ended")


def leave(t: Transition, turn: Turn, *, failed: bool) -> None:
    """A member of a group stops, whatever it had under way."""
    if t.state.mailboxes or t.state.agents:
        stop(t, turn)
        moved_if_at_work(t, turn.agent, Cause.FAILED if failed else Cause.GIVEN_UP)


def abandon_work(t: Transition, turn: Turn) -> None:
    """What the turn has ordered and not been given yet: its call, its tools, and the timers of both."""
    abandon_call(t, turn)
    for purpose in OF_TURNS:
        drop_timer(t, f"{purpose}{turn.number}")
    give_up_tools(t, turn)


def stop(t: Transition, turn: Turn) -> None:
    """Everything that belongs to a turn ends: its calls, tools, timers, questions, errands, tasks and mail."""
    t.touched[turn.agent] = None
    abandon_work(t, turn)
    turn.tools = []
    for wait in [wait for wait in t.state.waits if wait.turn == turn.number and not wait.child]:
        t.give_up(wait.alarm)
        t.state.waits.remove(wait)
    if turn.agent in t.state.errands:
        abandon_errand(t, t.state.errands[turn.agent])
    give_up_tasks_of(t, turn)
    settle_all(t, turn.agent, f"{turn.agent} has ended")
