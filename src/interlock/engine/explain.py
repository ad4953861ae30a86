"""Explanations of a run, event by event, in plain text."""

from collections.abc import Sequence
from itertools import zip_longest

from interlock.engine.events import (
    CALLER,
    ApprovalGiven,
    ApprovalNeeded,
    BranchFinished,
    CancelRequested,
    ChildFinished,
    ChildrenSelected,
    ChildStarted,
    ChildWaits,
    Decided,
    Event,
    GroupJoined,
    HookOutcome,
    HooksDecided,
    InputRequested,
    LimitReached,
    MessageSettled,
    ModelCalled,
    ModelCallLost,
    ModelFailed,
    ModelReplied,
    Nudged,
    ReportChecked,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    SignalRejected,
    ToolDecided,
    ToolReturned,
)
from interlock.engine.kinds import HookPoint, RunStatus, WorkStatus
from interlock.engine.routing.candidates import Verb
from interlock.signals.matching import MatchMethod

# A decision that waits for approval has done nothing yet.
_HELD_ACTIONS = {
    Verb.HAND_OVER: "asks for approval to hand over to {}",
    Verb.CALL: "asks for approval to call {}",
    Verb.FORK: "asks for approval to start group {}",
    Verb.TELL: "asks for approval to send a notification",
    Verb.END: "asks for approval to end the run",
}

_ACTIONS = {
    Verb.HAND_OVER: "handed over to {}",
    Verb.CALL: "called {}",
    Verb.FORK: "started group {}",
    Verb.AWAIT: "waits for an answer",
    Verb.TELL: "sent a notification",
    Verb.END: "ended the run",
}

# What the hooks of the host decide about, by the point; the agent is named where the event names it.
_LOOKED_AT = {
    HookPoint.ON_INPUT: "the input",
    HookPoint.BEFORE_MODEL: "the request of {}",
    HookPoint.AFTER_MODEL: "the reply of {}",
    HookPoint.BEFORE_TOOL: "the tool call of {}",
    HookPoint.AFTER_TOOL: "the result of the tool",
    HookPoint.ON_OUTPUT: "the output of the run",
}
_HOOK_VERBS = {
    HookOutcome.REPLACED: "replaced",
    HookOutcome.REFUSED: "refused",
    HookOutcome.ASKED: "asks a person about",
    HookOutcome.FAILED: "failed at",
}


def explain_events(events: Sequence[Event]) -> list[str]:
    """One line for each event of a record; empty for an event that decides nothing."""
    return [_explain_event(event, after) for event, after in zip_longest(events, events[1:])]


def _explain_event(event: Event, after: Event | None) -> str:
    match event:
        case Decided():
            return _explain_decision(event, is_held=_is_question_of(after, event.agent))
        case SignalRejected():
            return f"{event.agent} said {event.mark}, which does not steer: {event.reason}"
        case ModelCalled() | ModelFailed() | ModelCallLost():
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
        case ToolDecided() | ApprovalNeeded() | ApprovalGiven():
            return _explain_approval(event)
        case _:
            return "; ".join(filter(None, (person_line(event), _explain_hooks(event))))


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


def _explain_approval(event: ToolDecided | ApprovalNeeded | ApprovalGiven) -> str:
    """Decisions about tool calls, with the rule, the approval or the person behind them."""
    match event:
        case ApprovalNeeded():
            return f"a person must approve the call: {event.terms.because}" if event.terms is not None else ""
        case ApprovalGiven():
            by = f" by {event.by}" if event.by else ""
            return f"calls that fit '{event.pattern}' are approved {event.holds}{by} ({event.approval})"
        case ToolDecided(verdict="deny"):
            return f"{event.tool} is denied by the rule '{event.rule}'"
        case ToolDecided() if event.approval:
            by = f" of {event.by}" if event.by else ""
            return f"{event.tool} is allowed by the approval {event.approval}{by}"
        case ToolDecided():
            return f"{event.tool} is allowed" + (f" by the rule '{event.rule}'" if event.rule else " by its own code")


def _explain_hooks(event: Event) -> str:
    """What each hook of the host decided, in their order; empty for events without a verdict of hooks."""
    if not isinstance(event, RunStarted | ModelReplied | ToolReturned | HooksDecided) or event.verdict is None:
        return ""
    agent = event.agent if isinstance(event, ModelReplied | HooksDecided) else ""
    what = _LOOKED_AT[HookPoint(event.verdict.point)].format(agent)
    decisions = event.verdict.decisions
    told = (f"hook '{each.hook}' {_HOOK_VERBS[each.outcome]} {what}: {each.reason}" for each in decisions)
    return "; ".join(line.removesuffix(": ") for line in told)


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


def _explain_call(event: ModelCalled | ModelFailed | ModelCallLost) -> str:
    if isinstance(event, ModelCallLost):
        tokens = f"{event.usage.input_tokens:,} tokens (estimated)"
        return f"a call of {event.agent} was lost with its process and is made again; the lost one counts as {tokens}"
    if isinstance(event, ModelFailed):
        return f"model call of {event.agent} failed: {event.error}"
    return f"{event.agent} uses its backup {event.model}" if event.model else ""


def _is_question_of(event: Event | None, agent: str) -> bool:
    return isinstance(event, InputRequested) and event.agent == agent


def _explain_decision(event: Decided, *, is_held: bool) -> str:
    """The action and its cause; the candidates only if there was a choice.

    A decision is held if it is not one to wait, and a question of its agent follows it directly.
    """
    actions = {**_ACTIONS, **_HELD_ACTIONS} if is_held else _ACTIONS
    does = actions[event.verb].format(event.target) if event.verb else "took no action"
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
