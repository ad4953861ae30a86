"""Reports of delegated tasks: each is checked, then handed over or sent back with a follow-up."""

from interlock.engine.delegation.advisory_calls import (
    check_report_by_model,
)
from interlock.engine.delegation.agent_states import (
    parent_of,
    set_state_if_at_work,
)
from interlock.engine.delegation.mailboxes import (
    acknowledge_message,
    mailbox,
    send_to_outbox,
    short_id,
    start_answer_timer,
)
from interlock.engine.delegation.sub_crew_tasks import restart_task_run, why_not_restarted
from interlock.engine.delegation.tasks import turn_message_of
from interlock.engine.delegation.tools import send_report
from interlock.engine.events import ReportChecked
from interlock.engine.kinds import TurnKind
from interlock.engine.prompt.phrases import follow_up_text
from interlock.engine.stages import AskModel, CloseTask, ReportVerdict, Stage
from interlock.engine.state import Task
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import stop_task_work
from interlock.engine.turns.start import new_turn
from interlock.messages.states import Cause
from interlock.messages.validation import TaskValidator
from interlock.messages.wire import (
    Delegate,
)


def close_task(t: Transition, stage: CloseTask) -> Stage | None:
    """Ends the work on a task, and checks its report unless the task failed or the report came too late."""
    task = stage.task
    stop_task_work(t, task)
    if stage.error:
        set_state_if_at_work(t, task.worker, Cause.FAILED)
        send_report(t, task, f"error: {stage.error}", "needs_help")
    else:
        set_state_if_at_work(t, task.worker, Cause.DONE)
    if task.refused:
        t.drop_task(task)
        return None
    assert task.report is not None, "a task closes by a report"
    parent = mailbox(t, task.report.to)
    parent.inbox.remove(task.report)  # until the check is over
    return ReportVerdict(task, ok=True) if stage.error else _check_report(t, task)


def _check_report(t: Transition, task: Task) -> Stage:
    """Checks a report by the rules, then by the model if it passed and its status is completed."""
    tree, report = t.crew.delegation, task.report
    assert tree is not None, "only crews that delegate have tasks"
    assert report is not None, "only reports are checked"
    if tree.report_check == "none":
        return ReportVerdict(task, ok=True)
    found = TaskValidator(least_chars=tree.min_report_chars).validate_report(task.assigned, report)
    if found and tree.report_check == "model" and report.status == "completed":
        return check_report_by_model(t, task, report.to)
    t.record(ReportChecked(message_id=report.message_id, ok=bool(found), by=found.by, reason=found.reason))
    return ReportVerdict(task, bool(found), found.reason)


def apply_verdict(t: Transition, stage: ReportVerdict) -> Stage | None:
    task, tree = stage.task, t.crew.delegation
    assert tree is not None, "only crews that delegate have tasks"
    assert task.report is not None, "only reports are judged"
    remarks = [f"it is about your task {short_id(task.given_as)}, which was sent back"] if task.follow_ups else []
    if not stage.ok:
        hindrance = _why_no_follow_up(t, task, stage.reason, tree.max_follow_ups)
        if not hindrance:
            return _send_follow_up(t, task, stage.reason)
        remarks.append(f"it was not accepted, and {hindrance}: {stage.reason}")
    if remarks:
        t.state.remarks[task.report.message_id] = "; ".join(remarks)
    mailbox(t, task.report.to).inbox.put(task.report)
    t.drop_task(task)
    return None


def _why_no_follow_up(t: Transition, task: Task, reason: str, most: int) -> str:
    """Why a rejected report is not sent back; empty if it is."""
    if task.follow_ups >= most:
        return "there is no follow-up left"
    return why_not_restarted(t, task, reason) if task.turn is None else ""


def _send_follow_up(t: Transition, task: Task, reason: str) -> Stage | None:
    """Continues the child from its report, with the reason why that was not accepted."""
    message = Delegate(
        message_id=t.new_message_id(),
        from_=parent_of(t.crew, task.worker),
        to=task.worker,
        task=follow_up_text(task.assigned, reason),
        context={"follow_up_of": short_id(task.message), "follow_up": task.follow_ups + 1},
    )
    _deliver_follow_up(t, message)
    task.given_as = task.given_as or task.message
    task.message = message.message_id
    task.follow_ups += 1
    if task.turn is None:
        restart_task_run(t, task, reason)
        return None
    turn = new_turn(t, task.worker)
    turn.kind, turn.history, turn.said = TurnKind.TASK, 0, [*task.turn.said, turn_message_of(t, message)]
    if t.state.rules > 1:
        turn.hops = max(turn.hops, task.turn.hops)
    task.turn, task.report = turn, None
    return AskModel(turn)


def _deliver_follow_up(t: Transition, message: Delegate) -> None:
    """Delivers a follow-up to a child that has just reported and receives it at once."""
    send_to_outbox(t, message)
    mailbox(t, message.from_).outbox.remove(message)
    box = mailbox(t, message.to)
    box.deliver(message)
    box.inbox.remove(message)
    acknowledge_message(t, message)
    start_answer_timer(t, message)
