"""Cancellation: a turn stops, and everything it has in progress ends with it."""

from interlock.engine.budgets.spending import cancel_call_and_reservation
from interlock.engine.delegation.advisory_calls import cancel_advisory_call
from interlock.engine.delegation.agent_states import children_of, set_state_if_at_work
from interlock.engine.delegation.mailboxes import settle_all
from interlock.engine.flow.sub_crews import stop_child
from interlock.engine.kinds import OPEN, RunStatus
from interlock.engine.stages import FinishRun
from interlock.engine.state import Task, Turn
from interlock.engine.timers import drop_turn_timers
from interlock.engine.transition import Transition
from interlock.engine.turns.unanswered import cancel_tools
from interlock.messages.states import Cause


def cancel_tasks_of(t: Transition, turn: Turn) -> None:
    """Cancels the tasks that the turn delegated."""
    if children_of(t.crew, turn.agent):
        for task in [task for task in t.state.tasks.values() if task.parent == turn.number]:
            cancel_task(t, task)


def cancel_task(t: Transition, task: Task) -> None:
    if t.state.tasks.get(task.worker) is task:
        t.drop_task(task)
    stop_task_work(t, task)
    set_state_if_at_work(t, task.worker, Cause.GIVEN_UP)


def stop_task_work(t: Transition, task: Task) -> None:
    """Stops the work on a task, and settles the worker's messages."""
    if task.turn is not None:
        stop_turn(t, task.turn)
        return
    if task.child is not None and task.child.status in OPEN:
        stop_child(t, task.child)
    if task.worker in t.state.advisory_turns:
        cancel_advisory_call(t, t.state.advisory_turns[task.worker])
    settle_all(t, task.worker, f"{task.worker} has ended")


def abort_turn(t: Transition, turn: Turn, *, failed: bool) -> None:
    """Stops a turn with all its messages, in runs that exchange messages."""
    if t.has_messaging:
        stop_turn(t, turn)
        set_state_if_at_work(t, turn.agent, Cause.FAILED if failed else Cause.GIVEN_UP)


def cancel_turn_work(t: Transition, turn: Turn) -> None:
    """Cancels the turn's model call, its tools, and their timers."""
    cancel_call_and_reservation(t, turn)
    drop_turn_timers(t, turn)
    cancel_tools(t, turn)


def stop_turn(t: Transition, turn: Turn) -> None:
    """Ends everything that belongs to a turn: calls, tools, timers, questions, advisory calls, tasks and messages."""
    t.touched[turn.agent] = None
    cancel_turn_work(t, turn)
    turn.tools = []
    for wait in [wait for wait in t.state.waits if wait.turn == turn.number and not wait.child]:
        t.cancel(wait.alarm)
        t.state.waits.remove(wait)
    if turn.agent in t.state.advisory_turns:
        cancel_advisory_call(t, t.state.advisory_turns[turn.agent])
    cancel_tasks_of(t, turn)
    settle_all(t, turn.agent, f"{turn.agent} has ended")


def end_conversations(t: Transition, stage: FinishRun) -> None:
    """Settles all messages and ends all work, because the run is over."""
    if not t.has_messaging:
        return
    failed = stage.status in (RunStatus.FAILED, RunStatus.STOPPED)
    t.state.tasks, t.state.advisory_turns = {}, {}
    for agent in list(t.state.mailboxes):
        settle_all(t, agent, "the run is over", notes=True)
    for agent in list(t.state.agents):
        set_state_if_at_work(t, agent, Cause.FAILED if failed and agent == t.state.agent else Cause.GIVEN_UP)
