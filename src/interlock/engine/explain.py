"""Explanations of a run, event by event, in plain text."""

from interlock.engine.events import (
    CALLER,
    BranchFinished,
    CancelRequested,
    ChildFinished,
    ChildrenSelected,
    ChildStarted,
    ChildWaits,
    Decided,
    Event,
    GroupJoined,
    LimitReached,
    MessageSettled,
    ModelCalled,
    ModelFailed,
    Nudged,
    ReportChecked,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    SignalRejected,
)
from interlock.engine.kinds import RunStatus, WorkStatus
from interlock.engine.routing.candidates import Verb
from interlock.signals.matching import MatchMethod

_ACTIONS = {
    Verb.HAND_OVER: "handed over to {}",
    Verb.CALL: "called {}",
    Verb.FORK: "started group {}",
    Verb.AWAIT: "waits for an answer",
    Verb.TELL: "sent a notification",
    Verb.END: "ended the run",
}


def explain_event(event: Event) -> str:
    """One line for an event; empty for an event that decides nothing."""
    match event:
        case Decided():
            return _explain_decision(event)
        case SignalRejected():
            return f"{event.agent} said {event.mark}, which does not steer: {event.reason}"
        case ModelCalled() | ModelFailed():
            return _explain_call(event)
        case Nudged():
            fault = f": {event.fault}" if event.fault else ""
            return f"{event.agent} was asked again ({event.because}{fault})"
        case BranchFinished() | GroupJoined():
            return _explain_group(event)
        case ChildStarted() | ChildWaits() | ChildFinished():
            return _explain_child(event)
        case ChildrenSelected() | ReportChecked() | MessageSettled():
            return _explain_message(event)
        case LimitReached() | RunPaused() | RunFinished():
            return _explain_run_status(event)
        case RunStarted() | RunResumed() | CancelRequested():
            return person_line(event)
        case _:
            return ""


def person_line(event: Event) -> str:
    """The person who started, answered, continued or cancelled a run; empty for other events, and if unknown."""
    match event:
        case RunStarted() if event.by:
            return f"started by {event.by}"
        case RunResumed() if event.by:
            return f"answered by {event.by}" if event.input else f"continued by {event.by}"
        case CancelRequested() if event.by != CALLER:
            return f"cancelled by {event.by}"
        case _:
            return ""


def _explain_group(event: BranchFinished | GroupJoined) -> str:
    if isinstance(event, BranchFinished):
        status = "done" if event.status == WorkStatus.OK else event.status
        return f"{event.agent} {status}: {event.error}" if event.error else f"{event.agent} {status}"
    return f"group {event.group} done → {event.next}" if event.next else f"group {event.group} done"


def _explain_message(event: ChildrenSelected | ReportChecked | MessageSettled) -> str:
    """Decisions about tasks and reports, and messages that failed."""
    match event:
        case ChildrenSelected(because="failed"):
            return f"{event.agent} works alone: the selection of children failed"
        case ChildrenSelected():
            return f"{event.agent} selected children: {', '.join(event.children) or 'none'}"
        case ReportChecked():
            verdict = "accepted" if event.ok else "not accepted"
            return f"report {event.message_id.rpartition(':')[2]} is {verdict} by {event.by}: {event.reason}"
        case MessageSettled(outcome="answered"):
            return ""
        case MessageSettled():
            what = f"message {event.message_id.rpartition(':')[2]} is {event.outcome}"
            return f"{what} ({event.code}): {event.because}" if event.code else f"{what}: {event.because}"


def _explain_run_status(event: LimitReached | RunPaused | RunFinished) -> str:
    if isinstance(event, LimitReached):
        return f"limit reached: {event.message or event.limit}"
    return (
        f"paused at {event.agent}: {event.reason}"
        if isinstance(event, RunPaused)
        else f"{event.status}: {event.reason}"
    )


def _explain_call(event: ModelCalled | ModelFailed) -> str:
    if isinstance(event, ModelFailed):
        return f"model call of {event.agent} failed: {event.error}"
    return f"{event.agent} uses its backup {event.model}" if event.model else ""


def _explain_decision(event: Decided) -> str:
    """The action and its cause; the candidates only if there was a choice."""
    does = _ACTIONS[event.verb].format(event.target) if event.verb else "took no action"
    cause = f"on {event.signal}" if event.signal else f"({event.because})"
    line = f"{event.agent} {does} {cause}"
    if len(event.candidates) < 2 and all(c.method is MatchMethod.EXACT for c in event.candidates):
        return line
    found = ", ".join(f"{c.signal} ({c.method}, priority {c.priority}) {c.outcome}" for c in event.candidates)
    return f"{line}; signals: {found}"


def _explain_child(event: ChildStarted | ChildWaits | ChildFinished) -> str:
    if isinstance(event, ChildStarted):
        task = f", for task {event.message_id.rpartition(':')[2]}" if event.message_id else ""
        return f"{event.crew} started as {event.child}{task}"
    if isinstance(event, ChildWaits):
        return f"a sub-crew waits at {', '.join(wait.agent for wait in event.waits)}"
    done = "finished" if event.status == RunStatus.COMPLETED else event.status
    return f"{event.crew} {done} ({event.reason.removeprefix('signal:')})"
