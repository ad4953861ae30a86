"""The state of a run at one moment. Plain data; only `Run.apply` changes it."""

from typing import Any

import msgspec

from interlock.broadcast.record import ReceivedBroadcast
from interlock.engine.budgets.inherited_limits import UNBOUNDED, Allowance, InheritedLimits
from interlock.engine.events import (
    NO_NEEDS,
    ApprovalTerms,
    Entry,
    HostNeeds,
    ModelReplied,
    OutputVerdict,
    ReasoningBlock,
    ToolRequest,
    Usage,
)
from interlock.engine.kinds import OPEN, RunStatus, TurnKind, WaitKind, WorkStatus
from interlock.engine.routing.decision import Decision
from interlock.messages.answers import AnswerRules
from interlock.messages.frames import Frame
from interlock.messages.host_types import MessageType
from interlock.messages.mailbox import Mailbox
from interlock.messages.states import AgentState
from interlock.messages.wire import Report


class TurnMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message within a turn that only its own agent sees: tool rounds, nudges, and messages of others.

    `author` is set if neither the agent nor Interlock wrote it. `frames` mark the parts of a composed text that others
    have said; a prompt shows them.
    """

    role: str
    text: str
    tool_calls: tuple[ToolRequest, ...] = ()
    tool_call: str = ""
    author: str = ""
    frames: tuple[Frame, ...] = ()
    reasoning: tuple[ReasoningBlock, ...] = ()  # of the model, before it called these tools


class OpenTool(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call that a reply asked for."""

    request: ToolRequest
    key: str
    first_key: str = ""  # of the first try, if this is another; the tool gets the same key on every try
    output: str | None = None
    approved: bool = False
    edited: str = ""  # the arguments that a person gave instead of the model's
    asked_as: str = ""  # the first token of its approval
    terms: ApprovalTerms | None = None  # of its approval; None in journals of before there were terms
    hooked: bool = False  # the hooks of the host have decided about its arguments
    replaced: str = ""  # the arguments that a hook gave instead of the model's
    held: str | None = None  # its output, while a person decides about it for a hook
    held_memory: dict[str, Any] = {}  # what it wrote, meanwhile

    @property
    def arguments(self) -> str:
        """The arguments to run it with: a person's, a hook's, or the model's."""
        return self.edited or self.replaced or self.request.arguments


class Turn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One agent at work: on its turn until it hands over, on a delegated task, or on an advisory call (select, check).

    A suspended turn waits for messages. `about` is the agent that an advisory call is for: the one that selects, or the
    one whose report is checked.
    """

    number: int
    agent: str
    history: int
    rounds: int = 0
    nudges: int = 0
    owes: bool = False  # it was shown a host message that needs an answer
    attempt: int = 0
    call: str = ""
    call_number: int = 0
    purpose_number: int = 0  # among calls for the same purpose; 0 if the agent's calls have one purpose
    reserving: str = ""
    reserved: str = ""
    held_tokens: int = 0
    held_micros: int = 0
    called_ms: int = 0
    trimmed: bool = False
    backup: bool = False  # the agent's primary model has failed, and this turn continues with the backup
    hooked: bool = False  # the hooks of the host have decided about its current call
    replaced: str = ""  # the request that a hook gave instead, as JSON
    held: ModelReplied | None = None  # its reply, while a person decides about it for a hook
    taking: str = ""  # the key of the claim of its agent's inbox
    hops: int = 0  # how many broadcasts led to this turn
    told: list[str] = []
    said: list[TurnMessage] = []
    tools: list[OpenTool] = []
    emits: tuple[ToolRequest, ...] = ()
    reasoning: tuple[ReasoningBlock, ...] = ()  # of the reply that emits; it is said again if the model is asked again
    verdict: OutputVerdict | None = None  # of the value of the newest reply
    repairs: int = 0  # how often a bad value was told to the model
    kind: TurnKind = TurnKind.FLOOR
    about: str = ""
    suspended: bool = False
    rests: bool = False  # the reply called only tools that wait for messages
    notices: list[str] = []  # outcomes of what it waited for that are not messages
    children: tuple[str, ...] | None = None  # the agents it may delegate to; None until selected


class ChildRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run of a sub-crew that this run has started.

    `message` is the id of its DELEGATE message, if it works on a delegated task.
    """

    key: str
    crew: str
    run: str
    input: str
    until: int
    frames: tuple[Frame, ...] = ()  # of the input: the parts that others have said
    message: str = ""
    shows: int = 0
    returns: int = 0
    signal: str = ""
    hops: int = 0  # how many broadcasts led to it
    number: int = 1  # among the runs of the same crew in progress at the same time
    given: tuple[Allowance, ...] = ()
    status: WorkStatus = WorkStatus.WORKING
    text: str = ""
    memory: dict[str, Any] = {}
    history: tuple[Entry, ...] = ()


class Task(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A delegated task in progress: a turn of an agent, or a run of a sub-crew. `parent` is the delegating turn.

    `message` is the id of its DELEGATE message, `given_as` that of the first one if follow-ups came after it. A
    sub-crew restarts for a follow-up, so `context` keeps what it was given.
    """

    worker: str
    message: str
    parent: int
    assigned: str  # the task text, without what follow-ups add
    turn: Turn | None = None
    first_turn: int = msgspec.field(default=0, name="taken_up")  # the number of an agent's first turn for it
    child: ChildRun | None = None
    context: dict[str, Any] = {}
    given_as: str = ""
    follow_ups: int = 0
    report: Report | None = None  # being checked
    refused: bool = False  # the report was too late


class SubCrewCalls(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The sub-crews that one reply called, in file order; control returns when all of them are over."""

    agent: str
    signal: str
    children: list[ChildRun]


class PendingEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the run ends once its children have stopped, and the hooks of the host have seen its output.

    `checking` is the key of the question to them.
    """

    status: RunStatus
    reason: str
    above: int = 0
    detail: str = ""
    checking: str = ""


class Branch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One member of a running group: an agent with its turn, or a sub-crew."""

    member: str
    turn: Turn | None = None
    child: ChildRun | None = None
    status: WorkStatus = WorkStatus.WORKING
    reply: str = ""
    error: str = ""
    value: Any = msgspec.UNSET  # the typed value of its reply
    value_text: str = ""


class GroupState(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: str
    starter: str
    branches: list[Branch]


class Wait(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An open wait for a person or the host."""

    token: str
    reason: str
    agent: str
    turn: int
    signal: str = ""
    target: str = ""
    calls: tuple[str, ...] = ()  # the sub-crew signals that are held
    tool: str = ""
    message: str = ""  # the id of the question, if an agent asked it
    again_of: str = ""  # the first token of a repeated approval
    question: str = ""
    context: str = ""  # the agent's reason to ask, or why its tool call needs an approval
    rules: AnswerRules = AnswerRules()
    deadline_ms: int = 0
    default: str | None = None
    alarm: str = ""  # the key of the alarm at its deadline
    child: str = ""  # the key of the child run that waits; the answer goes there
    point: str = ""  # where a hook of the host asked

    @property
    def kind(self) -> WaitKind:
        return WaitKind.of_reason(self.reason)

    @property
    def id(self) -> str:
        """The name of the question, which stays when it is asked again."""
        return self.message or self.again_of or self.token


class SideTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A queued turn of an agent that is to act on a broadcast. `delivered`: it came from the bus."""

    agent: str
    heard: ReceivedBroadcast
    delivered: bool


class AfterSideTurns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run continues with after the side turns, and how many are left."""

    left: int
    begin: str = ""
    decision: Decision | None = None
    by_member: bool = False


class Timer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The working time left for something. It is stopped while `key` is empty."""

    left_ms: int
    key: str = ""
    since_ms: int = 0


class RunState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fold of a run's events. `endings` lists the handoffs per agent and reply, to detect loops.

    Its replies are those of history, not copies. `calls` counts model calls by agent, and by `crew/agent` for
    sub-crews.
    """

    run: str
    rules: int = 1  # of its journal; they stay as they were at the start
    seq: int = 0
    status: RunStatus = RunStatus.NEW
    reason: str = ""
    agent: str = ""
    output: str = ""
    text: str = ""  # the output without marks, once the run is over
    value: Any = msgspec.UNSET  # the typed value of the newest reply that ended a turn
    value_text: str = ""  # the same as it was written
    above: int = 0  # the owner of the limit that ended it
    detail: str = ""  # the reason as a sentence, if a budget stopped it
    worked_ms: int = 0
    turns: int = 0
    handoffs: int = 0
    calls: dict[str, int] = {}
    usage: Usage = Usage()
    history: list[Entry] = []
    turn: Turn | None = None
    group: GroupState | None = None
    calling: SubCrewCalls | None = None
    leaving: list[ChildRun] = []  # children that were cancelled and have not stopped yet
    ending: PendingEnd | None = None
    waits: list[Wait] = []
    answered: dict[str, str] = {}
    parked: str = ""  # the token that resumes a parked run
    is_set_aside: bool = False  # parked, because the process that found it could not drive it
    timers: dict[str, Timer] = {}
    steered: dict[str, int] = {}
    scales: dict[str, int] = {}
    unconstrained: list[str] = []
    unpriced: list[str] = []  # agents with a warning about their unknown price
    endings: dict[str, dict[str, list[int]]] = {}
    hops: int = 0  # of every turn, if a broadcast started this run or one above it
    side: list[SideTurn] = []
    aside: AfterSideTurns | None = None  # set while the current turn is a side turn
    user: str = ""  # for whom it works, as the host says
    input: str = ""
    original_input: str = ""
    path: tuple[str, ...] = ()
    way: tuple[str, ...] = ()
    bounds: InheritedLimits = UNBOUNDED
    results: dict[str, str] = {}  # of sub-crews, by name, the newest of each
    last_result: str = ""
    memory: dict[str, Any] = {}
    tasks: dict[str, Task] = {}  # by worker, in the order in which they started
    advisory_turns: dict[str, Turn] = msgspec.field(default_factory=dict, name="errands")  # by `about`
    mailboxes: dict[str, Mailbox] = {}
    agents: dict[str, AgentState] = {}
    messages: int = 0
    remarks: dict[str, str] = {}  # shown together with a message, by its id
    message_types: dict[str, MessageType] = {}  # of the host, as of the start of the run
    needs: HostNeeds = NO_NEEDS  # of its host; those of the calling run in a child
    given: dict[str, str] = {}  # ids of host messages, by idempotency key
    asked: dict[str, str] = {}  # the token of the accepted answer, by the id of its question
    written: list[str] = []  # memory keys that this run or its children wrote
    checks_output: bool = False  # a hook of the host sees the output before the run ends

    @property
    def is_ending(self) -> bool:
        """Whether nothing but its children keeps it from its end. One that waits for a hook can still be stopped."""
        return self.ending is not None and (bool(self.leaving) or not (self.ending.checking or self.waits))


def wait_tokens_of(state: RunState) -> tuple[str, ...]:
    """The tokens of all open waits, those of children included."""
    return tuple([wait.token for wait in state.waits])


def child_runs_of(state: RunState) -> list[ChildRun]:
    """The child runs in progress, those that wait for a person included."""
    group, calling = state.group, state.calling
    of_group = [branch.child for branch in group.branches if branch.child is not None] if group is not None else []
    of_call = calling.children if calling is not None else []
    of_tasks = [task.child for task in state.tasks.values() if task.child is not None]
    return [child for child in (*of_group, *of_call, *of_tasks) if child.status in OPEN]


def turns_of(state: RunState) -> list[Turn]:
    """The turns in progress: the current one or those of the group's members, tasks and advisory calls."""
    turns = foreground_turns(state)
    if state.tasks or state.advisory_turns:
        turns += [task.turn for task in state.tasks.values() if task.turn is not None and task.report is None]
        turns += state.advisory_turns.values()
    return turns


def foreground_turns(state: RunState) -> list[Turn]:
    if state.group is not None:
        return [b.turn for b in state.group.branches if b.turn is not None and b.status is WorkStatus.WORKING]
    return [state.turn] if state.turn is not None else []


def turn_of(state: RunState, agent: str) -> Turn | None:
    """The agent's turn in progress, advisory calls excluded: it has at most one."""
    for turn in foreground_turns(state):
        if turn.agent == agent:
            return turn
    task = state.tasks.get(agent)
    return task.turn if task is not None and task.report is None else None


def turns_by(state: RunState, agent: str) -> list[Turn]:
    """The agent's turn in progress and its advisory calls."""
    turns = [turn for turn in foreground_turns(state) if turn.agent == agent]
    if state.tasks or state.advisory_turns:
        task = state.tasks.get(agent)
        if task is not None and task.turn is not None and task.report is None:
            turns.append(task.turn)
        turns += [advisory for advisory in state.advisory_turns.values() if advisory.agent == agent]
    return turns
