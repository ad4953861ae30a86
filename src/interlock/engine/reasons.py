"""Why a run went as it did, event by event, in words."""

from interlock.engine.events import (
    BranchFinished,
    ChildFinished,
    ChildStarted,
    ChildWaits,
    Decided,
    Event,
    GroupJoined,
    LimitReached,
    ModelCalled,
    ModelFailed,
    Nudged,
    RunFinished,
    RunPaused,
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
        case BranchFinished():
            return f"branch of {event.agent} is {event.status} {event.error}".rstrip()
        case ChildStarted() | ChildWaits() | ChildFinished():
            return _child(event)
        case GroupJoined():
            return f"group {event.group} joins, and goes on at {event.next or 'its end'}"
        case LimitReached() | RunPaused() | RunFinished():
            return _standing(event)
        case _:
            return ""


def _standing(event: LimitReached | RunPaused | RunFinished) -> str:
    if isinstance(event, LimitReached):
        return f"bound reached: {event.limit}"
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
        return f"{event.crew} starts as {event.child}"
    if isinstance(event, ChildWaits):
        return f"a crew below waits for {', '.join(wait.agent for wait in event.waits)}"
    return f"{event.crew} is over, {event.status}: {event.reason}"
