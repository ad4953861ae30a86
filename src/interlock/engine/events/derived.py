"""Derived events: what the engine concludes from an incoming one."""

from typing import Any

import msgspec

from interlock.engine.events.incoming import ToolReturned
from interlock.engine.events.values import Usage
from interlock.engine.routing.candidates import Candidate, Verb
from interlock.signals.matching import MatchMethod


class Derived(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """An event that the engine concluded."""


class TurnStarted(Derived, frozen=True, kw_only=True, tag="turn.started"):
    """`side`: the agent acts on a broadcast, and the current agent stays current."""

    agent: str
    turn: int
    side: bool = False


class ModelCalled(Derived, frozen=True, kw_only=True, tag="model.called"):
    """`model` is set if it is the agent's backup."""

    agent: str
    call: str
    attempt: int = 0
    model: str = ""
    purpose: str = ""  # select or check, if it is not for the turn itself


class ModelCancelled(Derived, frozen=True, kw_only=True, tag="model.cancelled"):
    """The call was cancelled, because its run, group or task no longer needs it."""

    agent: str
    call: str


class ToolCalled(Derived, frozen=True, kw_only=True, tag="tool.called"):
    agent: str
    call: str
    name: str
    arguments: str


class SignalSeen(Derived, frozen=True, kw_only=True, tag="signal.seen"):
    agent: str
    signal: str
    method: MatchMethod = MatchMethod.EXACT
    steers: bool = True


class SignalRejected(Derived, frozen=True, kw_only=True, tag="signal.rejected"):
    agent: str
    mark: str
    reason: str
    nearest: str = ""


class Decided(Derived, frozen=True, kw_only=True, tag="decision"):
    agent: str
    verb: Verb | None = Verb.HAND_OVER
    signal: str
    target: str
    because: str = "signal"
    candidates: tuple[Candidate, ...]


class HandedOver(Derived, frozen=True, kw_only=True, tag="handoff"):
    origin: str = msgspec.field(name="from")
    to: str
    signal: str


class GroupStarted(Derived, frozen=True, kw_only=True, tag="group.started"):
    group: str
    members: tuple[str, ...]


class BranchFinished(Derived, frozen=True, kw_only=True, tag="branch.finished"):
    agent: str
    status: str
    error: str = ""


class GroupJoined(Derived, frozen=True, kw_only=True, tag="group.joined"):
    group: str
    next: str


class ChildStarted(Derived, frozen=True, kw_only=True, tag="child.started"):
    """`crew` is the caller's name for the sub-crew, `child` the run, `message_id` its DELEGATE message, if any."""

    crew: str
    child: str
    call: str
    input: str
    message_id: str = ""


class ChildFinished(Derived, frozen=True, kw_only=True, tag="child.finished"):
    crew: str
    child: str
    status: str
    reason: str


class Nudged(Derived, frozen=True, kw_only=True, tag="nudged"):
    """`fault` is what is wrong with the value of a reply, if it was asked for one."""

    agent: str
    because: str
    fault: str = ""


class InputRequested(Derived, frozen=True, kw_only=True, tag="input.requested"):
    """`message_id` is the id of the REQUEST_USER_INPUT; `expects` describes a valid answer.

    `context` is the agent's reason to ask. `again_of` is the first token of a repeated approval (rules 3).
    """

    agent: str
    question: str
    token: str
    message_id: str = ""
    expects: str = ""
    deadline_ms: int = 0
    context: str = ""
    again_of: str = ""


class InputGiven(Derived, frozen=True, kw_only=True, tag="input.given"):
    """`by` is the person who answered, as in `run.resumed`."""

    token: str
    by: str = ""


class ApprovalGiven(Derived, frozen=True, kw_only=True, tag="approval.given"):
    """A person approved later calls too: those of `tool` that fit `pattern`, in this run or always."""

    approval: str
    tool: str
    pattern: str
    holds: str
    by: str = ""


class ExternalSent(Derived, frozen=True, kw_only=True, tag="external"):
    signal: str
    agent: str
    content: str
    requires_response: bool


class BroadcastEmitted(Derived, frozen=True, kw_only=True, tag="broadcast.emitted"):
    """The time of the broadcast is the time of the event."""

    signal: dict[str, Any]


class BroadcastDelivered(Derived, frozen=True, kw_only=True, tag="broadcast.delivered"):
    """`silent`: the agent had a turn anyway, and is shown the broadcast with it."""

    agent: str
    signal: dict[str, Any]
    silent: bool


class MemoryWritten(Derived, frozen=True, kw_only=True, tag="memory.written"):
    """`by` is an agent, or the sub-crew that returned."""

    key: str
    by: str


class MessageSent(Derived, frozen=True, kw_only=True, tag="message.sent"):
    """`attempt` counts earlier sends."""

    message: dict[str, Any]
    attempt: int = 0


class MessageAcknowledged(Derived, frozen=True, kw_only=True, tag="message.acknowledged"):
    """The addressee has received it; the answer comes later."""

    message_id: str


class MessageSettled(Derived, frozen=True, kw_only=True, tag="message.settled"):
    """The outcome of a message: answered, refused, undelivered or timed_out. `code` is the code of the refusal."""

    message_id: str
    outcome: str
    code: str = ""
    because: str = ""


class AgentStateChanged(Derived, frozen=True, kw_only=True, tag="agent.state"):
    agent: str
    state: str


class ChildrenSelected(Derived, frozen=True, kw_only=True, tag="children.selected"):
    """The children that a task needs, as the agent's model or the host selected them."""

    agent: str
    children: tuple[str, ...]
    because: str


class ReportChecked(Derived, frozen=True, kw_only=True, tag="report.checked"):
    """The check of a report: its verdict, its reason, and `by`: rules or model."""

    message_id: str
    ok: bool
    by: str
    reason: str = ""


class Warned(Derived, frozen=True, kw_only=True, tag="warning"):
    code: str
    message: str


class LimitReached(Derived, frozen=True, kw_only=True, tag="limit.reached"):
    """`message` describes a budget: its owner, its size, the amount used, and what the call needed.

    `most`, `used` and `call` are the same as numbers, money in millionths of a dollar. They are 0 if a sub-crew reached
    the limit: its own event has them.
    """

    limit: str
    message: str = ""
    most: int = 0
    used: int = 0
    call: int = 0


class WentStale(Derived, frozen=True, kw_only=True, tag="stale"):
    """An event about something that is already closed: recorded, without effect."""

    about: str


class RunPaused(Derived, frozen=True, kw_only=True, tag="run.paused"):
    agent: str
    token: str
    reason: str


class RunFinished(Derived, frozen=True, kw_only=True, tag="run.finished"):
    status: str
    reason: str
    agent: str
    output: str
    text: str
    usage: Usage
    above: int = 0  # the owner of the limit that stopped it: 0 is the run, 1 its caller, and so on
    detail: str = ""  # the reason as a sentence, if a budget stopped it or an output was not valid
    value: Any = msgspec.UNSET  # the typed result of a run that completed with one


DerivedEvent = (
    TurnStarted
    | ModelCalled
    | ModelCancelled
    | ToolCalled
    | SignalSeen
    | SignalRejected
    | Decided
    | HandedOver
    | GroupStarted
    | BranchFinished
    | GroupJoined
    | ChildStarted
    | ChildFinished
    | Nudged
    | InputRequested
    | InputGiven
    | ApprovalGiven
    | ExternalSent
    | BroadcastEmitted
    | BroadcastDelivered
    | MemoryWritten
    | MessageSent
    | MessageAcknowledged
    | MessageSettled
    | AgentStateChanged
    | ChildrenSelected
    | ReportChecked
    | ToolReturned  # of built-in and cancelled tools
    | Warned
    | LimitReached
    | WentStale
    | RunPaused
    | RunFinished
)
