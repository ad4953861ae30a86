"""Incoming events: what the driver reports."""

from typing import Any

import msgspec

from interlock.broadcast.record import ReceivedBroadcast
from interlock.engine.budgets.inherited_limits import UNBOUNDED, InheritedLimits
from interlock.engine.events.values import (
    NO_CONTEXT,
    NO_NEEDS,
    NO_USAGE,
    ApprovalTerms,
    CrewContext,
    Entry,
    HookVerdict,
    HostNeeds,
    OutputVerdict,
    ReasoningBlock,
    ToolRequest,
    Usage,
)
from interlock.messages.frames import Frame
from interlock.messages.host_types import MessageType


class Incoming(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """An event from the driver. `worked_ms` is the working time since the last event, on the monotonic clock.

    `mail` lists agents with broadcasts in their inbox, for turns that begin.
    """

    worked_ms: int = 0
    mail: tuple[str, ...] = ()


class RunStarted(Incoming, frozen=True, kw_only=True, tag="run.started"):
    """`path` names the sub-crews from the outermost run down to this one.

    `way` is the same with numbers, such as `team#2`, where a crew has several runs at the same time.

    `calls` counts the calls of its agents in earlier runs of the same sub-crew. `entry` is the first agent, if not the
    entry point. `heard` is the broadcast that started it, `delivery` its number in the store. `hops` counts the
    broadcasts that led to the calling run. `schedule` is the id of the schedule that started it, `by` the person.
    `user` is the user for whom the run works; tools see it.
    """

    crew: str
    input: str
    rules: int
    crew_sha: str = ""
    continues: str = ""
    history: tuple[Entry, ...] = ()
    path: tuple[str, ...] = ()
    way: tuple[str, ...] = ()
    calls: dict[str, int] = {}
    context: CrewContext = NO_CONTEXT
    bounds: InheritedLimits = UNBOUNDED
    entry: str = ""
    heard: ReceivedBroadcast | None = None
    delivery: int = 0
    hops: int = 0
    schedule: str = ""
    by: str = ""
    user: str = ""
    messages: tuple[MessageType, ...] = ()  # the host's types that its agents know
    frames: tuple[Frame, ...] = ()  # of the input: the parts that others than the user have said
    needs: HostNeeds = NO_NEEDS
    checks_output: bool = False  # a hook of the host sees the output before the run ends
    verdict: HookVerdict | None = None  # of the host's hooks, on the input


class MessageGiven(Incoming, frozen=True, kw_only=True, tag="message.given"):
    """The host sends a message of one of its own types; a repeated `key` sends it only once."""

    kind: str
    to: str
    body: dict[str, Any]
    key: str = ""


class HookedReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply of a model that a hook replaced. `digest` stands for a text that is not to be kept."""

    text: str = ""
    tool_calls: tuple[ToolRequest, ...] = ()
    digest: str = ""


class ModelReplied(Incoming, frozen=True, kw_only=True, tag="model.replied"):
    call: str
    agent: str
    text: str
    usage: Usage = NO_USAGE
    tool_calls: tuple[ToolRequest, ...] = ()
    estimate: int = 0  # of the tokens shown, if the provider counted more
    cut: bool = False  # the reply was cut after a line of steering marks
    estimated: bool = False  # the usage is an upper estimate: the provider reported none
    unconstrained: bool = False  # the reply should have been constrained, and was not
    model: str = ""  # set if it was the agent's backup
    purpose: str = ""  # of the call, as in `model.called`
    output: OutputVerdict | None = None  # of its value, if a value was asked for and could be read
    verdict: HookVerdict | None = None  # of the host's hooks; `text` and `tool_calls` are what they made of it
    original: HookedReply | None = None  # what the model said, if a hook of the host replaced it
    # What the call would have cost without a cache, at the prices of its time; 0 if nothing was cached, or unknown.
    uncached_micros: int = 0
    reasoning: tuple[ReasoningBlock, ...] = ()  # sent back within the turn's tool loop; it never steers


class ModelFailed(Incoming, frozen=True, kw_only=True, tag="model.failed"):
    """`retry`: the same call may succeed later. `reason` overrides the reason of the run's failure.

    `retry_after_ms` is the wait that the provider asks for; `model` is set if it was the agent's backup. `usage` is an
    upper estimate if a reply broke off: the part that arrived has been paid for.
    """

    call: str
    agent: str
    error: str
    retry: bool = True
    too_long: bool = False
    reason: str = "model_error"
    retry_after_ms: int = 0
    model: str = ""
    usage: Usage = NO_USAGE


class ModelCallLost(Incoming, frozen=True, kw_only=True, tag="model.lost"):
    """The process that drove the run died before it recorded the reply to a call, and the call is made again.

    The provider may have billed the lost try: `usage` is an upper estimate of it, the reservation of the call.
    """

    call: str
    agent: str
    usage: Usage
    model: str = ""  # set if it was the agent's backup


class Reserved(Incoming, frozen=True, kw_only=True, tag="budget.reserved"):
    """The store's answer to a reservation: room for the call, or the limit that refused it and for how long.

    `tokens` and `cost_micros` are the estimate that is held until the call is over. `alerts` are limits that this call
    takes beyond their alert threshold; `exceeded` are limits without room that only warn. `most` and `used` are the
    size of the limit that refused the call and the amount used.
    """

    call: str
    agent: str
    tokens: int = 0
    cost_micros: int = 0
    refused: str = ""
    what: str = ""
    then: str = ""
    wait_ms: int = 0
    alerts: tuple[str, ...] = ()
    above: int = 0  # the owner of the limit: 0 is the run's own crew, 1 its caller, and so on
    most: int = 0
    used: int = 0
    exceeded: tuple[str, ...] = ()


class ToolReturned(Incoming, frozen=True, kw_only=True, tag="tool.returned"):
    """`memory` has the values that the tool wrote to the shared memory.

    `held_memory` has them instead while a hook asks a person about the result: they are written after a yes.
    """

    call: str
    ok: bool
    output: str
    memory: dict[str, Any] = {}
    verdict: HookVerdict | None = None  # of the host's hooks; `output` is what they made of it
    held_memory: dict[str, Any] = {}


class HooksDecided(Incoming, frozen=True, kw_only=True, tag="hook.decided"):
    """The hooks of the host have decided before a model call or a tool call, or about the output of the run.

    `call` is the key of the effect that they looked at. `output` is the result of validating the value that a hook
    gave in place of the run's.
    """

    call: str
    verdict: HookVerdict
    agent: str = ""
    output: OutputVerdict | None = None


class ToolOutcomeLost(Incoming, frozen=True, kw_only=True, tag="tool.lost"):
    """The process died after it started a tool and before it recorded the result; the tool may have run."""

    call: str


class TimerFired(Incoming, frozen=True, kw_only=True, tag="timer.fired"):
    timer: str


class RunResumed(Incoming, frozen=True, kw_only=True, tag="run.resumed"):
    """`by` is the person who answered or continued: a key, a dashboard session, a system user, or a name.

    `may_hold`: the person may approve later calls too, with `for this run` or `always`.
    """

    token: str
    input: str = ""
    by: str = ""
    may_hold: bool = False


class InputExpired(Incoming, frozen=True, kw_only=True, tag="input.expired"):
    """A question was not answered before its deadline, in wall-clock time."""

    token: str


class ApprovalNeeded(Incoming, frozen=True, kw_only=True, tag="tool.held"):
    """The tool was not run, because a person must approve it first.

    `fault` says what is wrong with arguments that a person edited; the terms of the first question then stay.
    """

    call: str
    fault: str = ""
    terms: ApprovalTerms | None = None


class ToolDecided(Incoming, frozen=True, kw_only=True, tag="tool.decided"):
    """The host has decided about a call that its rules or the code of its tool are about; it has not run yet.

    `verdict` is `allow` or `deny`. `rule` is the rule that decided, if one did. `approval` is the id of the standing
    approval that answered the question, `by` the person who gave it.
    """

    call: str
    tool: str
    verdict: str
    rule: str = ""
    approval: str = ""
    by: str = ""


class BroadcastHeard(Incoming, frozen=True, kw_only=True, tag="broadcast.heard"):
    """An agent of the run is to act on a broadcast. `delivery` is its number in the store."""

    agent: str
    heard: ReceivedBroadcast
    delivery: int


class MailTaken(Incoming, frozen=True, kw_only=True, tag="broadcast.taken"):
    """The broadcasts in the inbox of an agent whose turn begins."""

    call: str
    agent: str
    heard: tuple[ReceivedBroadcast, ...] = ()


class ChildReturned(Incoming, frozen=True, kw_only=True, tag="child.returned"):
    """A child run is over; the event carries its result, the memory it wrote, and its history as far as requested."""

    call: str
    status: str
    reason: str
    text: str = ""
    usage: Usage = NO_USAGE
    memory: dict[str, Any] = {}
    history: tuple[Entry, ...] = ()
    calls: dict[str, int] = {}
    above: int = 0
    detail: str = ""


class ChildWait(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    agent: str
    reason: str


class ChildWaits(Incoming, frozen=True, kw_only=True, tag="child.waits"):
    """A child run is paused until one of these waits is answered."""

    call: str
    waits: tuple[ChildWait, ...]


class ChildContinues(Incoming, frozen=True, kw_only=True, tag="child.goes_on"):
    """A child run continues, because one of its waits is being answered."""

    call: str


# The author of a cancellation by the calling run.
CALLER = "caller"


class CancelRequested(Incoming, frozen=True, kw_only=True, tag="cancel.requested"):
    by: str


class ParkRequested(Incoming, frozen=True, kw_only=True, tag="park.requested"):
    """A person stopped the process that drives the run; the run is parked until it is resumed.

    With a `hindrance`, the process that found the run cannot drive it, for that reason.
    """

    by: str
    hindrance: str = ""


class DriveFailed(Incoming, frozen=True, kw_only=True, tag="drive.failed"):
    """The process failed repeatedly to drive the run, so the run ends."""

    error: str


IncomingEvent = (
    RunStarted
    | Reserved
    | ModelReplied
    | ModelFailed
    | ModelCallLost
    | ToolReturned
    | ToolOutcomeLost
    | TimerFired
    | RunResumed
    | InputExpired
    | ApprovalNeeded
    | HooksDecided
    | ToolDecided
    | BroadcastHeard
    | MailTaken
    | ChildReturned
    | ChildWaits
    | ChildContinues
    | CancelRequested
    | ParkRequested
    | DriveFailed
    | MessageGiven
)
