"""Sub-crews that work on delegated tasks: each task is a run of its own, and how that ends is the report.

Rule 1: a sub-crew in the tree works on one task at a time, as an agent does; the next one waits in its inbox.
Rule 2: a run begins from nothing, so a follow-up is told all: what was wanted, what was reported and what is missing.
Rule 3: what is left of this run's bounds is shared among the crews that start together and the run's own agents, who
must be able to go on meanwhile.
"""

import msgspec

from interlock.engine.events import LimitReached
from interlock.engine.moves import CloseTask, CrewReturned, Move
from interlock.engine.nesting import exhausted, is_too_large, shared_out, start_child, take_results
from interlock.engine.phrases import child_error, crew_follow_up, crew_input, cut
from interlock.engine.standing import moved, parent_of
from interlock.engine.state import Task, turn_of
from interlock.engine.talking import send_report
from interlock.engine.transition import Transition
from interlock.frames import Quoting
from interlock.messages.states import Cause
from interlock.messages.wire import Delegate

TOO_LARGE = "max_input_size_kb"


def begun(t: Transition, task: Task, message: Delegate) -> Move | None:
    """The crew's run starts with the task as its input; what stands in its way is reported instead."""
    task.context = message.context
    moved(t, task.worker, Cause.TASK)
    said = crew_input(t.crew, parent_of(t.crew, task.worker), task.assigned, task.context)
    limit = _limit_reached(t, said.text)
    if limit:
        t.conclude(LimitReached(limit=limit))
        return CloseTask(task, f"the crew '{task.worker}' was not started: {_in_words(limit)}")
    _start(t, task, said)
    return None


def begun_again(t: Transition, task: Task, reason: str) -> None:
    """Another run, which is told what the last one reported; that it can start was seen before."""
    said = _follow_up(t, task, reason)
    task.report = None
    moved(t, task.worker, Cause.TASK)
    _start(t, task, said)


def hindrance_again(t: Transition, task: Task, reason: str) -> str:
    """Why the crew cannot be asked once more; empty if it can."""
    limit = _limit_reached(t, _follow_up(t, task, reason).text)
    return f"there is no other try, since {_in_words(limit)}" if limit else ""


def _follow_up(t: Transition, task: Task, reason: str) -> Quoting:
    assert task.report is not None, "only reports are sent back"
    result = cut(task.report.result, t.settings.max_tool_output_chars)
    report = msgspec.structs.replace(task.report, result=result)
    return crew_follow_up(t.crew, parent_of(t.crew, task.worker), task.assigned, reason, task.context, report)


def _limit_reached(t: Transition, text: str) -> str:
    if is_too_large(t, text):
        return TOO_LARGE
    short = exhausted(t, _sharers(t))
    return f"max_{short.what}_per_run" if short is not None else ""


def _in_words(limit: str) -> str:
    if limit == TOO_LARGE:
        return f"its input would be larger than {limit}"
    return f"what is left of {limit} is too little to share"


def _sharers(t: Transition) -> int:
    """This crew, those that are to start after it, and the agents of this run."""
    boxes = [t.state.mailboxes[name] for name in t.crew.sub_crews if name in t.state.mailboxes]
    return 2 + sum(any(isinstance(message, Delegate) for message in box.inbox) for box in boxes)


def _start(t: Transition, task: Task, said: Quoting) -> None:
    moved(t, task.worker, Cause.WORK)
    given = shared_out(t, task.worker, _sharers(t))
    by = turn_of(t.state, parent_of(t.crew, task.worker))
    assert by is not None, "what a turn gave out ends with it"
    frames = said.frames if t.state.rules >= 3 else ()
    task.child = start_child(t, task.worker, said.text, given, message=task.message, hops=by.hops, frames=frames)


def returned(t: Transition, move: CrewReturned) -> Move:
    """Completed is completed; a bound of its own leaves what was said by then; anything else needs help."""
    task, event = move.task, move.event
    assert task.child is not None, "only a crew comes back"
    take_results(t, [task.child])
    if event.status == "completed":
        send_report(t, task, event.text, "completed")
        return CloseTask(task)
    error = child_error(t.crew, task.worker, event.status, event.reason)
    if event.status == "stopped" and event.text.strip():
        send_report(t, task, f"{event.text}\n({error})", "partial")
        return CloseTask(task)
    return CloseTask(task, error)
