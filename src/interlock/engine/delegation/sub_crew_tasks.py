"""Sub-crews that work on delegated tasks: each task is a run, and its result is the report.

Rule 1: like an agent, a sub-crew in the tree works on one task at a time; the next one waits in its inbox.
Rule 2: a run starts without history, so a follow-up contains the task, the report and what is missing.
Rule 3: the rest of this run's budget is shared among the crews that start together and the run's own agents, which
continue in the meantime.
"""

import msgspec

from interlock.engine.delegation.agent_states import parent_of, set_agent_state
from interlock.engine.delegation.tools import send_report
from interlock.engine.events import LimitReached
from interlock.engine.flow.sub_crews import (
    allowances_for_child,
    first_exhausted_bound,
    is_too_large,
    merge_results,
    start_child,
)
from interlock.engine.kinds import RunStatus
from interlock.engine.prompt.phrases import child_error, crew_follow_up, crew_input, truncate
from interlock.engine.stages import CloseTask, ReportCrewResult, Stage
from interlock.engine.state import Task, turn_of
from interlock.engine.transition import Transition
from interlock.messages.frames import Quoting
from interlock.messages.states import Cause
from interlock.messages.wire import Delegate

TOO_LARGE = "max_input_size_kb"


def start_task_run(t: Transition, task: Task, message: Delegate) -> Stage | None:
    """Starts a run with the task as its input, or reports the limit that prevents it."""
    task.context = message.context
    set_agent_state(t, task.worker, Cause.TASK)
    said = crew_input(t.crew, parent_of(t.crew, task.worker), task.assigned, task.context)
    limit = _limit_reached(t, said.text)
    if limit:
        t.record(LimitReached(limit=limit))
        return CloseTask(task, f"the crew '{task.worker}' was not started: {_in_words(limit)}")
    _start_child_run(t, task, said)
    return None


def restart_task_run(t: Transition, task: Task, reason: str) -> None:
    """Starts another run with the last report in its input; `why_not_restarted` was checked before."""
    said = _follow_up_input(t, task, reason)
    task.report = None
    set_agent_state(t, task.worker, Cause.TASK)
    _start_child_run(t, task, said)


def why_not_restarted(t: Transition, task: Task, reason: str) -> str:
    """Why the crew cannot be started again; empty if it can."""
    limit = _limit_reached(t, _follow_up_input(t, task, reason).text)
    return f"there is no other try, since {_in_words(limit)}" if limit else ""


def _follow_up_input(t: Transition, task: Task, reason: str) -> Quoting:
    assert task.report is not None, "only reports are sent back"
    result = truncate(task.report.result, t.settings.max_tool_output_chars)
    report = msgspec.structs.replace(task.report, result=result)
    return crew_follow_up(t.crew, parent_of(t.crew, task.worker), task.assigned, reason, task.context, report)


def _limit_reached(t: Transition, text: str) -> str:
    if is_too_large(t, text):
        return TOO_LARGE
    short = first_exhausted_bound(t, _sharers(t))
    return f"max_{short.what}_per_run" if short is not None else ""


def _in_words(limit: str) -> str:
    if limit == TOO_LARGE:
        return f"its input would be larger than {limit}"
    return f"what is left of {limit} is too little to share"


def _sharers(t: Transition) -> int:
    """The number of sharers: this crew, those that start after it, and the agents of this run."""
    boxes = [t.state.mailboxes[name] for name in t.crew.sub_crews if name in t.state.mailboxes]
    return 2 + sum(any(isinstance(message, Delegate) for message in box.inbox) for box in boxes)


def _start_child_run(t: Transition, task: Task, said: Quoting) -> None:
    set_agent_state(t, task.worker, Cause.WORK)
    given = allowances_for_child(t, task.worker, _sharers(t))
    by = turn_of(t.state, parent_of(t.crew, task.worker))
    assert by is not None, "a delegated task ends with its turn"
    frames = said.frames if t.state.rules >= 3 else ()
    task.child = start_child(t, task.worker, said.text, given, message=task.message, hops=by.hops, frames=frames)


def report_crew_result(t: Transition, stage: ReportCrewResult) -> Stage:
    """Reports a run: completed, partial if it stopped at its own limit, else needs_help."""
    task, event = stage.task, stage.event
    assert task.child is not None, "only a crew has a child run"
    merge_results(t, [task.child])
    if event.status == RunStatus.COMPLETED:
        send_report(t, task, event.text, "completed")
        return CloseTask(task)
    error = child_error(t.crew, task.worker, event.status, event.reason)
    if event.status == RunStatus.STOPPED and event.text.strip():
        send_report(t, task, f"{event.text}\n({error})", "partial")
        return CloseTask(task)
    return CloseTask(task, error)
