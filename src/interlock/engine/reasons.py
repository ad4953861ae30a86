"""Why a run went as it did, event by event, in words."""

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


def reason(event: Event) -> str:
    """In a line; empty for what decides nothing."""
    match event:
        case Decided():
            return _decision(event)
        case SignalRejected():
            return f"{event.agent} said {event.mark}, which does not steer: {event.reason}"
        case ModelCalled() | ModelFailed():
            return _call(event)
        case Nudged():
            return f"{event.agent} is asked again, because of {event.because}"
        case BranchFinished() | GroupJoined():
            return _group(event)
        case ChildStarted() | ChildWaits() | ChildFinished():
            return _child(event)
        case ChildrenSelected() | ReportChecked() | MessageSettled():
            return _mail(event)
        case LimitReached() | RunPaused() | RunFinished():
            return _standing(event)
        case RunStarted() | RunResumed() | CancelRequested():
            return person_line(event)
        case _:
            return ""


def person_line(event: Event) -> str:
    """Who started, answered, continued or cancelled a run; empty for other events, and where it is not known."""
    match event:
        case RunStarted() if event.by:
            return f"started by {event.by}"
        case RunResumed() if event.by:
            return f"answered by {event.by}" if event.input else f"continued by {event.by}"
        case CancelRequested() if event.by != CALLER:
            return f"cancelled by {event.by}"
        case _:
            return ""


def _group(event: BranchFinished | GroupJoined) -> str:
    if isinstance(event, BranchFinished):
        return f"branch of {event.agent} is {event.status} {event.error}".rstrip()
    return f"group {event.group} joins, and goes on at {event.next or 'its end'}"


def _mail(event: ChildrenSelected | ReportChecked | MessageSettled) -> str:
    """What was decided about tasks and reports, and what went wrong with a message."""
    match event:
        case ChildrenSelected(because="failed"):
            return f"{event.agent} works alone: whom it needs could not be found out"
        case ChildrenSelected():
            return f"{event.agent} was asked whom it needs: {', '.join(event.children) or 'nobody'}"
        case ReportChecked():
            verdict = "accepted" if event.ok else "not accepted"
            return f"report {event.message_id.rpartition(':')[2]} is {verdict} by {event.by}: {event.reason}"
        case MessageSettled(outcome="answered"):
            return ""
        case MessageSettled():
            what = f"message {event.message_id.rpartition(':')[2]} is {event.outcome}"
            return f"{what} ({event.code}): {event.because}" if event.code else f"{what}: {event.because}"


def _standing(event: LimitReached | RunPaused | RunFinished) -> str:
    if isinstance(event, LimitReached):
        return f"bound reached: {event.message or event.limit}"
    return (
        f"paused at {event.agent}: {event.reason}"
        if isinstance(event, RunPaused)
        else f"{event.status}: {event.reason}"
    )


def _call(event: ModelCalled | ModelFailed) -> str:
    if isinstance(event, ModelFailed):
        return f"{event.agent} got no reply: {event.error}"
    return f"{event.agent} asks its backup {event.model}" if event.model else ""


def _decision(event: Decided) -> str:
    marks = ", ".join(f"{c.signal} ({c.method}, priority {c.priority}) {c.outcome}" for c in event.candidates)
    what = f"{event.verb} {event.target}".strip() if event.verb else "nothing moves"
    return f"{event.agent}: {what}, because of {event.signal or event.because}" + (f"; marks: {marks}" if marks else "")


def _child(event: ChildStarted | ChildWaits | ChildFinished) -> str:
    if isinstance(event, ChildStarted):
        task = f", for task {event.message_id.rpartition(':')[2]}" if event.message_id else ""
        return f"{event.crew} starts as {event.child}{task}"
    if isinstance(event, ChildWaits):
        return f"a crew below waits for {', '.join(wait.agent for wait in event.waits)}"
    return f"{event.crew} is over, {event.status}: {event.reason}"
