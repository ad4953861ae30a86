"""Events of an agent's turn: model calls, tools, signals, and what follows from them."""

from typing import Any

import msgspec

from interlock.engine.events import ToolRequest, Usage
from interlock.engine.routing.candidates import Candidate
from interlock.events.envelope import PublicStruct, StoredEvent


class TurnStartedEvent(StoredEvent, frozen=True, kw_only=True, tag="turn.started"):
    """An agent has a turn; a `side` turn is for a broadcast and steers nothing."""

    agent: str
    turn: int
    side: bool


class ModelCalledEvent(StoredEvent, frozen=True, kw_only=True, tag="model.called"):
    """A model call begins. `model` is set if it is the agent's backup, `purpose` if the call is not for the turn."""

    agent: str
    call: str
    attempt: int
    model: str
    purpose: str


class ModelDeltaEvent(PublicStruct, frozen=True, kw_only=True, tag="model.delta"):
    """A piece of a reply, while it streams. It is not in the journal, so it has no `seq` and no `at`."""

    agent: str
    text: str


class ReasoningDeltaEvent(PublicStruct, frozen=True, kw_only=True, tag="reasoning.delta"):
    """A piece of what a model reasons before it replies. It is not in the journal, so it has no `seq` and no `at`.

    `takes_back`: the pieces of the reply that were shown before were reasoning too.
    """

    agent: str
    text: str
    takes_back: bool = False


class ModelRepliedEvent(StoredEvent, frozen=True, kw_only=True, tag="model.replied"):
    """A model replied. `cut`: the reply was cut after its first line of signals. `reasoning` is no part of `text`.

    `usage` says how much of the prompt was cached and how much of the reply was reasoning. `uncached_micros` is what a
    call with cached tokens would have cost without a cache; it is left out where that is not known.
    """

    call: str
    agent: str
    text: str
    usage: Usage
    tool_calls: tuple[ToolRequest, ...]
    estimate: int
    cut: bool
    estimated: bool
    unconstrained: bool
    model: str
    purpose: str
    output: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None
    original: dict[str, Any] | None = None
    uncached_micros: int = 0
    reasoning: str = ""


class ModelFailedEvent(StoredEvent, frozen=True, kw_only=True, tag="model.failed"):
    """A model call failed. `retry`: the same call may succeed later."""

    call: str
    agent: str
    error: str
    retry: bool
    too_long: bool
    reason: str
    retry_after_ms: int
    model: str
    usage: Usage


class ModelLostEvent(StoredEvent, frozen=True, kw_only=True, tag="model.lost"):
    """The process ended during a model call, which is made again. `usage` is an upper estimate of the lost try."""

    call: str
    agent: str
    usage: Usage
    model: str


class ModelCancelledEvent(StoredEvent, frozen=True, kw_only=True, tag="model.cancelled"):
    """A model call was cancelled, because its run, group or task no longer needs it."""

    agent: str
    call: str


class ToolCalledEvent(StoredEvent, frozen=True, kw_only=True, tag="tool.called"):
    """A tool is called; `arguments` is the decoded JSON, or a text that is not JSON."""

    agent: str
    call: str
    name: str
    arguments: Any


class ToolProgressEvent(PublicStruct, frozen=True, kw_only=True, tag="tool.progress"):
    """A tool reports its progress. It is not in the journal, so it has no `seq` and no `at`."""

    agent: str
    call: str
    text: str


class ToolHeldEvent(StoredEvent, frozen=True, kw_only=True, tag="tool.held"):
    """A tool waits for the approval of a person; `fault` says what is wrong with arguments that a person edited.

    `terms` say why a person is asked, for which calls an answer can hold, and how long.
    """

    call: str
    fault: str
    terms: dict[str, Any] | None = None


class ToolDecidedEvent(StoredEvent, frozen=True, kw_only=True, tag="tool.decided"):
    """The host decided about a tool call before it ran: `verdict` is `allow` or `deny`, by a rule or an approval."""

    call: str
    tool: str
    verdict: str
    rule: str
    approval: str
    by: str


class ApprovalGivenEvent(StoredEvent, frozen=True, kw_only=True, tag="approval.given"):
    """A person approved later calls too: those of `tool` that fit `pattern`, in this run or always."""

    approval: str
    tool: str
    pattern: str
    holds: str
    by: str


class HookDecidedEvent(StoredEvent, frozen=True, kw_only=True, tag="hook.decided"):
    """Hooks of the host decided before a call, or about the output of the run; `call` is what they looked at.

    `output` is the result of validating the value that a hook gave in place of the run's.
    """

    call: str
    verdict: dict[str, Any]
    agent: str
    output: dict[str, Any] | None = None


class ToolReturnedEvent(StoredEvent, frozen=True, kw_only=True, tag="tool.returned"):
    """A tool returned, or failed (`ok` is False). `memory` is what it wrote to the shared memory.

    `verdict` is what hooks of the host decided about its output. If one asks a person, `held_memory` is what the tool
    wrote: it is kept after a yes.
    """

    call: str
    ok: bool
    output: str
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    verdict: dict[str, Any] | None = None
    held_memory: dict[str, Any] = msgspec.field(default_factory=dict)


class ToolLostEvent(StoredEvent, frozen=True, kw_only=True, tag="tool.lost"):
    """The process ended while a tool ran; the tool may have had its effect."""

    call: str


class SignalSeenEvent(StoredEvent, frozen=True, kw_only=True, tag="signal.seen"):
    """A reply holds a signal of its agent; `method` says how exact the mark is."""

    agent: str
    signal: str
    method: str
    steers: bool


class SignalRejectedEvent(StoredEvent, frozen=True, kw_only=True, tag="signal.rejected"):
    """A mark does not steer; `nearest` is the known name that it resembles, if any."""

    agent: str
    mark: str
    reason: str
    nearest: str


class DecisionEvent(StoredEvent, frozen=True, kw_only=True, tag="decision"):
    """What a reply leads to, and all candidates; without a `verb` there is no action."""

    agent: str
    verb: str | None
    signal: str
    target: str
    because: str
    candidates: tuple[Candidate, ...]


class HandoffEvent(StoredEvent, frozen=True, kw_only=True, tag="handoff"):
    """Control goes from one agent to another; the field `from` is `from_` in Python."""

    from_: str = msgspec.field(name="from")
    to: str
    signal: str


class NudgedEvent(StoredEvent, frozen=True, kw_only=True, tag="nudged"):
    """An agent is asked again, because its reply cannot steer."""

    agent: str
    because: str
    fault: str = ""


class ExternalEvent(StoredEvent, frozen=True, kw_only=True, tag="external"):
    """A signal is handed to the host's `on_external`."""

    signal: str
    agent: str
    content: str
    requires_response: bool


class MemoryWrittenEvent(StoredEvent, frozen=True, kw_only=True, tag="memory.written"):
    """An entry of the shared memory was written; `by` is an agent, or the sub-crew that returned."""

    key: str
    by: str
