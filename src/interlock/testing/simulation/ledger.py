"""A tally of a run, counted from its journal alone, without the engine."""

from collections import Counter

import msgspec

from interlock.engine.events import (
    AgentStateChanged,
    ApprovalNeeded,
    BranchFinished,
    BroadcastDelivered,
    BroadcastEmitted,
    ChildReturned,
    ChildStarted,
    Event,
    GroupJoined,
    GroupStarted,
    HandedOver,
    HooksDecided,
    InputRequested,
    MessageSent,
    MessageSettled,
    ModelCalled,
    ModelCallLost,
    ModelCancelled,
    ModelFailed,
    ModelReplied,
    Nudged,
    RunFinished,
    RunResumed,
    ToolCalled,
    ToolDecided,
    ToolOutcomeLost,
    ToolReturned,
    TurnStarted,
    Usage,
    WentStale,
)
from interlock.engine.kinds import HookPoint
from interlock.engine.outputs.checked_reply import INVALID_OUTPUT
from interlock.ports import Record


class JournalTally(msgspec.Struct, kw_only=True):
    """The counts of one run. Keys are kept without the prefix of the run's id."""

    run: str
    last_seq: int = 0
    worked_ms: int = 0
    departures: int = 0
    finished: RunFinished | None = None
    calls: dict[str, ModelCalled] = {}
    tools: dict[str, ToolCalled] = {}
    first_keys: dict[str, str] = {}  # the first key of a tool call, by the key of a later order to run it
    more_starts: Counter[str] = msgspec.field(default_factory=Counter)  # allowed repeats, by the first key
    asked_about: dict[str, str] = {}  # the tool of a question, by the token
    lost: set[str] = set()  # tokens of tools that may or may not have run
    tokens: dict[str, InputRequested] = {}
    answers: dict[str, Event] = {}
    cancelled: set[str] = set()  # cancelled model calls
    lost_calls: Counter[str] = msgspec.field(default_factory=Counter)  # tries that are counted as lost, by call
    given: dict[str, str] = {}
    rounds: Counter[str] = msgspec.field(default_factory=Counter)
    nudges: Counter[tuple[str, bool]] = msgspec.field(default_factory=Counter)  # by agent, and whether for a value
    with_backup: set[str] = set()
    members: tuple[str, ...] = ()
    branches: dict[str, str] = {}
    replies: dict[str, str] = {}
    held_replies: dict[str, ModelReplied] = {}
    messages: dict[str, str] = {}  # the outcome of each message, by its id; empty while it is open
    states: dict[str, str] = {}
    children: dict[str, ChildStarted] = {}
    own_usage: Usage = Usage()
    usage_below: Usage = Usage()
    broadcasts: list[tuple[str, str]] = []  # agent and broadcast
    emitted: list[str] = []
    side_agent: str = ""  # the agent of a side turn that has no reply yet

    def short_key(self, key: str) -> str:
        return key.removeprefix(f"{self.run}:")

    def was_ordered(self, key: str) -> bool:
        return self.short_key(key) in self.calls or self.short_key(key) in self.tools

    def has_answer(self, key: str) -> bool:
        return self.short_key(key) in self.answers

    def first_key(self, key: str) -> str:
        """The key that a tool gets: a tool that runs again keeps its first key."""
        return self.first_keys.get(self.short_key(key), self.short_key(key))

    def is_ended(self, key: str) -> bool:
        return self.has_answer(key) or self.short_key(key) in self.cancelled

    def add(self, record: Record) -> None:
        """Adds a record, after the laws have checked it."""
        self.last_seq = record.last_seq
        self.worked_ms += getattr(record.events[0], "worked_ms", 0)
        if not is_stale(record):
            is_repeat = self.repeats_call(record.events[0])
            for event in record.events:
                self._add_event(event, is_repeat=is_repeat)
            self._add_tool_question(record)
            self._add_held_reply(record)
            self.departures += calls_of(record)

    def repeats_call(self, first: Event) -> bool:
        """Whether a record that begins so orders a model call again, because hooks of the host let it be made."""
        if isinstance(first, RunResumed):
            return self.asked_about.get(first.token, "") in self.calls
        return isinstance(first, HooksDecided) and first.verdict.point == HookPoint.BEFORE_MODEL

    def _add_held_reply(self, record: Record) -> None:
        """Adds a reply that a hook asks a person about, by the token of the question."""
        first = record.events[0]
        held = self.held_replies.get(first.token) if isinstance(first, RunResumed) else None
        if isinstance(first, ModelReplied) and first.verdict is not None and first.verdict.question:
            held = first
        if held is not None:
            self.held_replies |= {each.token: held for each in record.events if isinstance(each, InputRequested)}

    def _add_event(self, event: Event, *, is_repeat: bool) -> None:
        match event:
            case ModelCalled():
                self.calls[self.short_key(event.call)] = event
                is_round = not event.purpose and not is_repeat
                self.rounds[event.agent] += is_round and begins_round(event, self.with_backup)
            case ToolCalled():
                self.tools[self.short_key(event.call)] = event
            case InputRequested():
                self.tokens[event.token] = event
            case ModelReplied() | ModelFailed() | ToolReturned() | ChildReturned():
                self.answers[self.short_key(event.call)] = event
                self.answers[self.first_key(event.call)] = event
                self._add_reply(event)
            case ModelCallLost():
                self.lost_calls[self.short_key(event.call)] += 1
                self.own_usage += event.usage + Usage(calls=1)
            case ModelCancelled():
                self.cancelled.add(self.short_key(event.call))
            case RunResumed():
                self.given[event.token] = event.input
            case RunFinished():
                self.finished = event
            case MessageSent() | MessageSettled() | AgentStateChanged():
                self._add_message(event)
            case _:
                self._add_flow_event(event)

    def _add_tool_question(self, record: Record) -> None:
        """Adds a question about a tool, and a repeat of the tool that its answer allows."""
        first = record.events[0]
        about = self.asked_about.get(first.token, "") if isinstance(first, RunResumed) else ""
        if isinstance(first, ToolOutcomeLost | ApprovalNeeded | ToolDecided | HooksDecided):
            about = self.first_key(first.call)
        if isinstance(first, ApprovalNeeded) and first.fault:  # the tool refused its arguments, and did nothing
            self.more_starts[about] += 1
        if isinstance(first, RunResumed) and first.token in self.lost and first.input.strip().lower() == "retry":
            self.more_starts[about] += 1
        for event in record.events if about else ():
            if isinstance(event, ToolCalled):
                self.first_keys[self.short_key(event.call)] = about
            elif isinstance(event, InputRequested):
                self.asked_about[event.token] = about
                if isinstance(first, ToolOutcomeLost):
                    self.lost.add(event.token)

    def _add_reply(self, event: ModelReplied | ModelFailed | ToolReturned | ChildReturned) -> None:
        if isinstance(event, ModelReplied):
            self.replies[event.agent] = event.text
        if isinstance(event, ModelReplied | ModelFailed):
            self.own_usage += event.usage + Usage(calls=1)
        if isinstance(event, ChildReturned):
            self.usage_below += event.usage
            if (child := self.children.get(event.call)) is not None:
                self.replies[child.crew] = event.text

    def _add_message(self, event: MessageSent | MessageSettled | AgentStateChanged) -> None:
        match event:
            case MessageSent():
                self.messages.setdefault(event.message["message_id"], "")
            case MessageSettled():
                self.messages[event.message_id] = event.outcome
            case AgentStateChanged():
                self.states[event.agent] = event.state

    def _add_flow_event(self, event: Event) -> None:
        match event:
            case BroadcastDelivered():
                self.broadcasts.append((event.agent, str(event.signal["id"])))
            case BroadcastEmitted():
                self.emitted.append(str(event.signal["id"]))
            case TurnStarted():
                self.side_agent = event.agent if event.side else ""
                self.rounds[event.agent] = self.nudges[event.agent, False] = self.nudges[event.agent, True] = 0
                self.with_backup.discard(event.agent)
            case Nudged():
                self.nudges[event.agent, event.because == INVALID_OUTPUT] += 1
            case HandedOver():
                self.departures += 1
            case ChildStarted():
                self.children[event.call] = event
            case GroupStarted():
                self.departures += 1
                self.members, self.branches = event.members, {}
            case BranchFinished():
                self.branches[event.agent] = event.status
            case GroupJoined():
                self.members = ()
            case _:
                pass


def calls_of(record: Record) -> int:
    """Counts sub-crew calls of a record as one departure; those of a group and of tasks do not count."""
    started = any(isinstance(event, ChildStarted) and not event.message_id for event in record.events)
    return int(started and not any(isinstance(event, GroupStarted) for event in record.events))


def is_stale(record: Record) -> bool:
    return any(isinstance(event, WentStale) for event in record.events)


def begins_round(event: ModelCalled, with_backup: set[str]) -> bool:
    """True if a call starts a round: a retry does not, nor does the first call of an agent's backup."""
    is_change = bool(event.model) and event.agent not in with_backup
    if is_change:
        with_backup.add(event.agent)
    return event.attempt == 0 and not is_change
