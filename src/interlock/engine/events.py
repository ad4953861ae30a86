"""What may happen in a run. Facts in the past tense; frozen, plain data, none acts.

Rule 1: an incoming event comes from the driver; a derived one is what the engine concluded from it.
Rule 2: a transition is one incoming event and all it led to. It is stored whole, or not at all.
Rule 3: replaying the incoming events must give the same derived ones.
Rule 4: the journal leaves out what holds its default, so the default is what most events have.
"""

from typing import Any

import msgspec

from interlock.broadcast.record import Heard
from interlock.engine.bounds import UNBOUNDED, Bounds
from interlock.engine.routing import Candidate, Verb
from interlock.frames import Frame
from interlock.messages.host_types import MessageType
from interlock.signals.matching import MatchMethod


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What model calls cost. Money is counted in millionths of a dollar, because decisions hang on it."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced_calls: int = 0  # calls whose price is unknown; while there are any, the cost is unknown

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
        )

    def with_call(self, other: "Usage") -> "Usage":
        """With one more call, which cost so much."""
        return Usage(
            calls=self.calls + other.calls + 1,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


# Told apart from others by itself, so that the journal leaves it out.
NO_USAGE = Usage()


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that a model asked for; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of history: who said it, in which turn of which run.

    `frames` are the stretches of what Interlock composed that others have said.
    """

    role: str
    author: str
    text: str
    run: str = ""
    turn: int
    frames: tuple[Frame, ...] | msgspec.UnsetType = msgspec.UNSET


class Incoming(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """From the driver. `worked_ms` is the working time since the event before, on the monotonic clock.

    `mail` are agents with something in their inbox, for those who begin a turn.
    """

    worked_ms: int = 0
    mail: tuple[str, ...] = ()


class CrewContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a crew is told besides its input: by the crew that calls it, or by the host.

    Without an original input the run's own is the original one.
    """

    original_input: str = ""
    previous_results: dict[str, str] = {}
    shared_memory: dict[str, Any] = {}
    parent_history: tuple[Entry, ...] = ()


NO_CONTEXT = CrewContext()


class RunStarted(Incoming, frozen=True, kw_only=True, tag="run.started"):
    """`path` are the names of the sub-crews from the outermost run down to this one.

    `way` is the same where a crew on it has runs beside each other: a number says which one it is, `team#2`.

    `calls` are those that its agents have made in earlier runs of the same sub-crew. `entry` is where it starts, if
    not at the entry point; `heard` is the broadcast that it is the answer to, `delivery` its number in the store.
    `hops` are the broadcasts that led to the run that called it. `schedule` is the id of the one that started it.
    `by` is who asked for it.
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
    bounds: Bounds = UNBOUNDED
    entry: str = ""
    heard: Heard | None = None
    delivery: int = 0
    hops: int = 0
    schedule: str = ""
    by: str = ""
    messages: tuple[MessageType, ...] = ()  # types of the host that its agents know
    frames: tuple[Frame, ...] = ()  # of the input, where others than the user have said stretches of it


class MessageGiven(Incoming, frozen=True, kw_only=True, tag="message.given"):
    """The host sends a message of one of its own types; `key` names it however often it is asked for."""

    kind: str
    to: str
    body: dict[str, Any]
    key: str = ""


class ModelReplied(Incoming, frozen=True, kw_only=True, tag="model.replied"):
    call: str
    agent: str
    text: str
    usage: Usage = NO_USAGE
    tool_calls: tuple[ToolRequest, ...] = ()
    estimate: int = 0  # of the tokens shown, where the provider counted more
    cut: bool = False  # nothing after a line of steering marks was wanted
    estimated: bool = False  # the usage is our own upper estimate: the provider reported none
    unconstrained: bool = False  # the reply should have been held to its ending, and was not
    model: str = ""  # where it was the agent's backup
    purpose: str = ""  # of the call, as in `model.called`


class ModelFailed(Incoming, frozen=True, kw_only=True, tag="model.failed"):
    """`retry` says whether the same call may succeed later; `reason` overrides what the run fails with.

    `retry_after_ms` is how long the provider asks to be left alone; `model` is set where it was the agent's backup.
    `usage` is our upper estimate where a reply broke off: what was said of it has been paid for.
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


class Reserved(Incoming, frozen=True, kw_only=True, tag="budget.reserved"):
    """What the store says to a call: go ahead, or which limit is in the way and how long it stays there.

    `tokens` and `cost_micros` are the estimate that is held until the call is over; `alerts` are limits that this
    call takes beyond the share at which somebody wants to know, `exceeded` those that only warn and have no room for
    it. `most` and `used` are the size of the limit that refused the call and what is used of it.
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
    above: int = 0  # whose limit it is: the run's own crew, or that of a caller so many levels up
    most: int = 0
    used: int = 0
    exceeded: tuple[str, ...] = ()


class ToolReturned(Incoming, frozen=True, kw_only=True, tag="tool.returned"):
    call: str
    ok: bool
    output: str


class ToolOutcomeLost(Incoming, frozen=True, kw_only=True, tag="tool.lost"):
    """The process died between starting a tool and recording what it gave; it may have done its work."""

    call: str


class TimerFired(Incoming, frozen=True, kw_only=True, tag="timer.fired"):
    timer: str


class RunResumed(Incoming, frozen=True, kw_only=True, tag="run.resumed"):
    """`by` is who answered or continued it: a key, a session of the page, a user of the system, or a name."""

    token: str
    input: str = ""
    by: str = ""


class InputExpired(Incoming, frozen=True, kw_only=True, tag="input.expired"):
    """Nobody answered a question before its deadline, in time as people have it."""

    token: str


class ApprovalNeeded(Incoming, frozen=True, kw_only=True, tag="tool.held"):
    """The tool was not run: its declaration says that a person must approve it first.

    `fault` is what is wrong with the arguments that a person gave it.
    """

    call: str
    fault: str = ""


class BroadcastHeard(Incoming, frozen=True, kw_only=True, tag="broadcast.heard"):
    """An agent of the run hears a broadcast, and is to act on it. `delivery` is its number in the store."""

    agent: str
    heard: Heard
    delivery: int


class MailTaken(Incoming, frozen=True, kw_only=True, tag="broadcast.taken"):
    """What was in the inbox of an agent whose turn begins."""

    call: str
    agent: str
    heard: tuple[Heard, ...] = ()


class ChildReturned(Incoming, frozen=True, kw_only=True, tag="child.returned"):
    """A child is over. What it wrote comes along, and as much of its history as was asked for."""

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
    """Nothing in a child can go on before somebody answers one of these."""

    call: str
    waits: tuple[ChildWait, ...]


class ChildGoesOn(Incoming, frozen=True, kw_only=True, tag="child.goes_on"):
    """Somebody is about to answer what a child waits for."""

    call: str


# Who cancels a run that was called, where its caller does.
CALLER = "caller"


class CancelRequested(Incoming, frozen=True, kw_only=True, tag="cancel.requested"):
    by: str


class ParkRequested(Incoming, frozen=True, kw_only=True, tag="park.requested"):
    """A person stopped the process that drives the run: it rests until somebody resumes it.

    With a `hindrance` no person did: the process that found it running cannot drive it, for that reason.
    """

    by: str
    hindrance: str = ""


class DriveFailed(Incoming, frozen=True, kw_only=True, tag="drive.failed"):
    """The process failed to drive the run, again and again: it ends here."""

    error: str


class Derived(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Concluded by the engine."""


class TurnStarted(Derived, frozen=True, kw_only=True, tag="turn.started"):
    """`side` if somebody has called the agent aside: the floor stays where it is."""

    agent: str
    turn: int
    side: bool = False


class ModelCalled(Derived, frozen=True, kw_only=True, tag="model.called"):
    """`model` is set where it is the agent's backup."""

    agent: str
    call: str
    attempt: int = 0
    model: str = ""
    purpose: str = ""  # what it is for, if not the turn itself: select, check


class ModelCancelled(Derived, frozen=True, kw_only=True, tag="model.cancelled"):
    """The call was stopped: its run, group or task goes on without it, or is over."""

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
    """`crew` is the sub-crew as the caller names it, `child` the run, `message_id` the DELEGATE that it works on."""

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
    agent: str
    because: str


class InputRequested(Derived, frozen=True, kw_only=True, tag="input.requested"):
    """`message_id` is that of the REQUEST_USER_INPUT; `expects` says in words what an answer must look like.

    `context` is why the agent asks. `again_of` is the first token of an approval that is asked again (rules 3).
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
    """`by` is who answered, as in `run.resumed`."""

    token: str
    by: str = ""


class ExternalSent(Derived, frozen=True, kw_only=True, tag="external"):
    signal: str
    agent: str
    content: str
    requires_response: bool


class BroadcastEmitted(Derived, frozen=True, kw_only=True, tag="broadcast.emitted"):
    """When it was is when the event was."""

    signal: dict[str, Any]


class BroadcastDelivered(Derived, frozen=True, kw_only=True, tag="broadcast.delivered"):
    """`silent` if it came with the agent's turn, and not the turn with it."""

    agent: str
    signal: dict[str, Any]
    silent: bool


class MemoryWritten(Derived, frozen=True, kw_only=True, tag="memory.written"):
    """`by` is an agent, or the sub-crew that has come back."""

    key: str
    by: str


class MessageSent(Derived, frozen=True, kw_only=True, tag="message.sent"):
    """`attempt` counts how often it was sent before."""

    message: dict[str, Any]
    attempt: int = 0


class MessageAcknowledged(Derived, frozen=True, kw_only=True, tag="message.acknowledged"):
    """Its addressee has taken it up; that is not the answer."""

    message_id: str


class MessageSettled(Derived, frozen=True, kw_only=True, tag="message.settled"):
    """What became of it: answered, refused, undelivered, timed_out. `code` is that of the refusal."""

    message_id: str
    outcome: str
    code: str = ""
    because: str = ""


class AgentStateChanged(Derived, frozen=True, kw_only=True, tag="agent.state"):
    agent: str
    state: str


class ChildrenSelected(Derived, frozen=True, kw_only=True, tag="children.selected"):
    """Whom a task needs, as the agent's model or the host sees it."""

    agent: str
    children: tuple[str, ...]
    because: str


class ReportChecked(Derived, frozen=True, kw_only=True, tag="report.checked"):
    """Whether a report addresses its task, who found so (rules, model), and why."""

    message_id: str
    ok: bool
    by: str
    reason: str = ""


class Warned(Derived, frozen=True, kw_only=True, tag="warning"):
    code: str
    message: str


class LimitReached(Derived, frozen=True, kw_only=True, tag="limit.reached"):
    """A budget says in `message` whose it is, its size, what is used of it, and what the call would have taken.

    `most`, `used` and `call` are the same as numbers; money in millionths of a dollar. They are 0 where a sub-crew
    reached the limit: its own event has them.
    """

    limit: str
    message: str = ""
    most: int = 0
    used: int = 0
    call: int = 0


class WentStale(Derived, frozen=True, kw_only=True, tag="stale"):
    """An event for something that is closed already: recorded, and without effect."""

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
    above: int = 0  # whose bound stopped it: its own, or that of a caller so many levels up
    detail: str = ""  # the reason in a sentence, where a budget stopped it


IncomingEvent = (
    RunStarted
    | Reserved
    | ModelReplied
    | ModelFailed
    | ToolReturned
    | ToolOutcomeLost
    | TimerFired
    | RunResumed
    | InputExpired
    | ApprovalNeeded
    | BroadcastHeard
    | MailTaken
    | ChildReturned
    | ChildWaits
    | ChildGoesOn
    | CancelRequested
    | ParkRequested
    | DriveFailed
    | MessageGiven
)

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
    | ToolReturned  # of tools that Interlock itself carries out, and of those that were given up
    | Warned
    | LimitReached
    | WentStale
    | RunPaused
    | RunFinished
)

Event = IncomingEvent | DerivedEvent
