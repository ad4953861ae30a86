"""Events between agents and crews: groups, sub-crews, messages, broadcasts."""

from typing import Any

from interlock.engine.events import ChildWait, Usage
from interlock.events.envelope import StoredEvent


class GroupStartedEvent(StoredEvent, frozen=True, kw_only=True, tag="group.started"):
    """A group starts to work in parallel."""

    group: str
    members: tuple[str, ...]


class BranchFinishedEvent(StoredEvent, frozen=True, kw_only=True, tag="branch.finished"):
    """A member of a group is done: `status` is ok, failed, late or cancelled."""

    agent: str
    status: str
    error: str


class GroupJoinedEvent(StoredEvent, frozen=True, kw_only=True, tag="group.joined"):
    """A group is done; the agent `next` gets control."""

    group: str
    next: str


class ChildStartedEvent(StoredEvent, frozen=True, kw_only=True, tag="child.started"):
    """A sub-crew starts; `crew` is the caller's name for it, `child` its run."""

    crew: str
    child: str
    call: str
    input: str
    message_id: str


class ChildWaitsEvent(StoredEvent, frozen=True, kw_only=True, tag="child.waits"):
    """A sub-crew is paused until one of these waits is answered."""

    call: str
    waits: tuple[ChildWait, ...]


class ChildGoesOnEvent(StoredEvent, frozen=True, kw_only=True, tag="child.goes_on"):
    """A sub-crew continues, because one of its waits is answered."""

    call: str


class ChildReturnedEvent(StoredEvent, frozen=True, kw_only=True, tag="child.returned"):
    """The result of a sub-crew, as its caller gets it."""

    call: str
    status: str
    reason: str
    text: str
    usage: Usage
    memory: dict[str, Any]
    history: tuple[dict[str, Any], ...]
    calls: dict[str, int]
    above: int
    detail: str


class ChildFinishedEvent(StoredEvent, frozen=True, kw_only=True, tag="child.finished"):
    """A sub-crew is over."""

    crew: str
    child: str
    status: str
    reason: str


class MessageGivenEvent(StoredEvent, frozen=True, kw_only=True, tag="message.given"):
    """The host sends a message of one of its own types."""

    kind: str
    to: str
    body: dict[str, Any]
    key: str


class MessageSentEvent(StoredEvent, frozen=True, kw_only=True, tag="message.sent"):
    """A message is sent; `attempt` counts earlier sends."""

    message: dict[str, Any]
    attempt: int


class MessageAcknowledgedEvent(StoredEvent, frozen=True, kw_only=True, tag="message.acknowledged"):
    """The addressee has received a message; the answer comes later."""

    message_id: str


class MessageSettledEvent(StoredEvent, frozen=True, kw_only=True, tag="message.settled"):
    """The outcome of a message: answered, refused, undelivered or timed_out."""

    message_id: str
    outcome: str
    code: str
    because: str


class AgentStateEvent(StoredEvent, frozen=True, kw_only=True, tag="agent.state"):
    """An agent that delegates or works for another has a new state."""

    agent: str
    state: str


class ChildrenSelectedEvent(StoredEvent, frozen=True, kw_only=True, tag="children.selected"):
    """The agents that a task needs, as a model or the host selected them."""

    agent: str
    children: tuple[str, ...]
    because: str


class ReportCheckedEvent(StoredEvent, frozen=True, kw_only=True, tag="report.checked"):
    """The check of a report; `by` is rules or model."""

    message_id: str
    ok: bool
    by: str
    reason: str


class BroadcastEmittedEvent(StoredEvent, frozen=True, kw_only=True, tag="broadcast.emitted"):
    """An agent emitted a broadcast."""

    signal: dict[str, Any]


class BroadcastDeliveredEvent(StoredEvent, frozen=True, kw_only=True, tag="broadcast.delivered"):
    """An agent is shown a broadcast; `silent`: with a turn that it had anyway."""

    agent: str
    signal: dict[str, Any]
    silent: bool


class BroadcastHeardEvent(StoredEvent, frozen=True, kw_only=True, tag="broadcast.heard"):
    """An agent of the run is to act on a broadcast."""

    agent: str
    heard: dict[str, Any]
    delivery: int


class BroadcastTakenEvent(StoredEvent, frozen=True, kw_only=True, tag="broadcast.taken"):
    """The broadcasts that waited for an agent whose turn begins."""

    call: str
    agent: str
    heard: tuple[dict[str, Any], ...]
