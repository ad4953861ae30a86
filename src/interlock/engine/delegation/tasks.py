"""Delegated tasks: messages are delivered, tasks start, and suspended turns resume.

Rule 1: an agent has one turn at a time. A task for an agent at work waits in its inbox, received and not begun.
Rule 2: reports are joined: they wake a turn when none of its open tasks can still make progress.
Rule 3: how a task ends goes to the agent that delegated it, never to the run.
Rule 4: when a turn ends, so do the tasks that it gave out and waits for no more.
"""

from interlock.engine.delegation.mailboxes import (
    acknowledge_once,
    mailbox,
    settle_message,
    short_id,
    withdraw_message,
)
from interlock.engine.delegation.progress import can_resume, query_in_deadlock
from interlock.engine.delegation.sub_crew_tasks import start_task_run
from interlock.engine.delegation.wakeups import next_agent_with_task, next_turn_in_doubt, next_turn_to_resume
from interlock.engine.kinds import TurnKind
from interlock.engine.prompt.phrases import message_entry
from interlock.engine.stages import AskModel, Stage
from interlock.engine.state import Task, Turn, TurnMessage, turn_of
from interlock.engine.transition import Transition
from interlock.engine.turns.start import new_turn
from interlock.messages.mailbox import REFUSED
from interlock.messages.refusals import Deadlock
from interlock.messages.wire import (
    AnyMessage,
    Delegate,
    Query,
)


def deliver_messages(t: Transition) -> Stage | None:
    """The next stage that messages lead to; None if there is none."""
    if not t.state.mailboxes or not t.can_continue or t.state.ending is not None:
        return None
    while (agent := next_agent_with_task(t)) is not None:
        waiting = [message for message in t.state.mailboxes[agent].inbox if isinstance(message, Delegate)]
        if _is_at_work(t, agent):
            _acknowledge_tasks(t, waiting)
            continue
        stage = _start_task(t, waiting[0])
        if stage is not None:  # starting a sub-crew needs no stage
            return stage
    while (turn := next_turn_to_resume(t)) is not None:
        if can_resume(t, turn):
            turn.suspended = False
            return AskModel(turn)
    while (turn := next_turn_in_doubt(t)) is not None:
        if (query := query_in_deadlock(t, turn)) is not None:
            return _break_deadlock(t, turn, query)
    return None


def _acknowledge_tasks(t: Transition, tasks: list[Delegate]) -> None:
    """Acknowledges tasks in the inbox of a child at work, so that they are not sent again (rules 3)."""
    if t.state.rules >= 3:
        for message in tasks:
            acknowledge_once(t, message)


def _is_at_work(t: Transition, agent: str) -> bool:
    return agent in t.state.tasks or turn_of(t.state, agent) is not None


def _start_task(t: Transition, message: Delegate) -> Stage | None:
    mailbox(t, message.to).inbox.remove(message)
    acknowledge_once(t, message)
    parent = turn_of(t.state, message.from_)
    assert parent is not None, "a delegated task ends with its turn"
    task = Task(worker=message.to, message=message.message_id, parent=parent.number, assigned=message.task)
    t.state.tasks[message.to] = task
    if message.to in t.crew.sub_crews:
        return start_task_run(t, task, message)
    task.turn = turn = new_turn(t, message.to)
    task.first_turn = turn.number
    turn.kind, turn.history = TurnKind.TASK, 0
    if t.state.rules > 1:
        turn.hops = max(turn.hops, parent.hops)
    turn.said.append(turn_message_of(t, message))
    return AskModel(turn)


def turn_message_of(t: Transition, message: AnyMessage) -> TurnMessage:
    remark = t.state.remarks.pop(message.message_id, "")
    entry = message_entry(t.crew, message, remark)
    return TurnMessage(role="user", text=entry.text, author=message.sender, frames=entry.frames)


def _break_deadlock(t: Transition, turn: Turn, query: Query) -> Stage:
    """Refuses the newest question of the cycle, and notifies its agent."""
    fault = Deadlock((turn.agent, query.from_))
    settle_message(t, query, REFUSED, fault)
    withdraw_message(t, query)
    child = turn_of(t.state, query.from_)
    assert child is not None, "an agent that asks has a turn until it is answered"
    child.notices.append(f"{fault.code}: your question {short_id(query.message_id)} is not answered; {fault}")
    child.suspended = False
    return AskModel(child)
