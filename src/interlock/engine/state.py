"""All that a run is at one moment. Plain data; only `step` changes it."""

from typing import Any

import msgspec

from interlock.broadcast.record import Heard
from interlock.engine.bounds import UNBOUNDED, Bounds, Given
from interlock.engine.events import Entry, ToolRequest, Usage
from interlock.engine.routing import Decision
from interlock.frames import Frame
from interlock.messages.answers import AnswerRules
from interlock.messages.host_types import MessageType
from interlock.messages.mailbox import AgentMailbox
from interlock.messages.states import AgentState
from interlock.messages.wire import Report


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something said within a turn that only its own agent sees: tool rounds, nudges, mail, what came before one.

    `author` is who wrote it, if that is neither the agent nor Interlock. `frames` are the stretches of what Interlock
    composed that others have said; in a prompt they are drawn in the text.
    """

    role: str
    text: str
    tool_calls: tuple[ToolRequest, ...] = ()
    tool_call: str = ""
    author: str = ""
    frames: tuple[Frame, ...] = ()


class OpenTool(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call that a reply asked for."""

    request: ToolRequest
    key: str
    first_key: str = ""  # that of the first try, where this is another; the tool is given the same one every time
    output: str | None = None
    approved: bool = False
    edited: str = ""  # the arguments that a person put in place of the model's
    asked_as: str = ""  # the first token under which a person was asked to approve it


class Turn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One agent working until it hands over, on a delegated task (`kind` is task), or on an errand (select, check).

    A suspended turn waits for mail. `about` says whom an errand is for: who selects, whose report is checked.
    """

    number: int
    agent: str
    history: int
    rounds: int = 0
    nudges: int = 0
    owes: bool = False  # it was shown a message of the host's types that asks for an answer
    attempt: int = 0
    call: str = ""
    call_number: int = 0
    purpose_number: int = 0  # among calls for the same purpose; 0 where the agent's calls have one purpose
    reserving: str = ""
    reserved: str = ""
    held_tokens: int = 0
    held_micros: int = 0
    called_ms: int = 0
    trimmed: bool = False
    backup: bool = False  # the agent's primary model has failed, and this turn goes on with the other
    taking: str = ""  # its agent's mail is on its way
    hops: int = 0  # how many broadcasts led to what is announced here
    told: list[str] = []
    said: list[Message] = []
    tools: list[OpenTool] = []
    emits: tuple[ToolRequest, ...] = ()
    kind: str = ""
    about: str = ""
    suspended: bool = False
    rests: bool = False  # the reply called nothing but tools that wait for mail
    notices: list[str] = []  # what became of what it waited for, where that is no message
    children: tuple[str, ...] | None = None  # whom it may delegate to; None until that is known


class Child(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sub-crew at work for this run: `working`, `waiting` for a person, or over as `ok` or `failed`.

    `message` is the id of the DELEGATE that it works on, if it was not called by a signal or as a member.
    """

    key: str
    crew: str
    run: str
    input: str
    until: int
    frames: tuple[Frame, ...] = ()  # of the input: who said which stretch of it
    message: str = ""
    shows: int = 0
    returns: int = 0
    signal: str = ""
    hops: int = 0  # how many broadcasts led to it
    number: int = 1  # of those of the same crew that are under way beside each other
    given: tuple[Given, ...] = ()
    status: str = "working"
    text: str = ""
    memory: dict[str, Any] = {}
    history: tuple[Entry, ...] = ()


class Task(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A DELEGATE at work: an agent has a turn for it, a sub-crew a run. `parent` is the turn that waits for the report.

    `message` is its id, and `given_as` that of the first where follow-ups have come after it. A sub-crew that is sent
    back begins anew, so what it was told is kept in `context`.
    """

    worker: str
    message: str
    parent: int
    assigned: str  # what was to be done, without what follow-ups add
    turn: Turn | None = None
    taken_up: int = 0  # the number of an agent's first turn for it; follow-ups have others
    child: Child | None = None
    context: dict[str, Any] = {}
    given_as: str = ""
    follow_ups: int = 0
    report: Report | None = None  # being checked
    refused: bool = False  # the report came too late


class Calling(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The sub-crews that one reply called, in file order; control comes back when all of them are over."""

    agent: str
    signal: str
    children: list[Child]


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the run ends once its children have stopped."""

    status: str
    reason: str
    above: int = 0
    detail: str = ""


class Branch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One member of a group at work: an agent with its turn, or a sub-crew."""

    member: str
    turn: Turn | None = None
    child: Child | None = None
    status: str = "working"
    reply: str = ""
    error: str = ""


class GroupState(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: str
    starter: str
    branches: list[Branch]


class Wait(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something only a person, or the host, can end."""

    token: str
    reason: str
    agent: str
    turn: int
    signal: str = ""
    target: str = ""
    calls: tuple[str, ...] = ()  # the sub-crew signals that are held
    tool: str = ""
    message: str = ""  # the id of the question, where an agent asked it
    again_of: str = ""  # the first token of an approval that is asked again
    question: str = ""
    context: str = ""  # why the agent asks
    rules: AnswerRules = AnswerRules()
    deadline_ms: int = 0
    default: str | None = None
    alarm: str = ""  # the key of the alarm at its deadline
    child: str = ""  # the key of the child that waits; its token answers there


class SideTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An agent is to act on a broadcast after the current turn. `delivered` if the bus brought it."""

    agent: str
    heard: Heard
    delivered: bool


class Aside(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run goes on with after side turns, and how many there are still before that."""

    left: int
    begin: str = ""
    decision: Decision | None = None
    by_member: bool = False


class Timer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Working time that is left for something. It stands still while `key` is empty."""

    left_ms: int
    key: str = ""
    since_ms: int = 0


class RunState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fold of a run's events. `endings` says at which handoffs an agent ended a turn with the same words.

    `calls` counts those of agents, and as `crew/agent` those of sub-crews.
    """

    run: str
    rules: int = 1  # those that it was started under, and keeps
    seq: int = 0
    status: str = "new"
    reason: str = ""
    agent: str = ""
    output: str = ""
    text: str = ""  # the output without marks, once the run is over
    above: int = 0  # whose bound ended it
    detail: str = ""  # the reason in a sentence, where a budget stopped it
    worked_ms: int = 0
    turns: int = 0
    handoffs: int = 0
    calls: dict[str, int] = {}
    usage: Usage = Usage()
    history: list[Entry] = []
    turn: Turn | None = None
    group: GroupState | None = None
    calling: Calling | None = None
    leaving: list[Child] = []  # children that were given up and have not stopped yet
    ending: Ending | None = None
    waits: list[Wait] = []
    answered: dict[str, str] = {}
    parked: str = ""  # the token that ends the rest of a run whose process a person stopped
    is_set_aside: bool = False  # it is parked because the process that found it could not drive it
    timers: dict[str, Timer] = {}
    steered: dict[str, int] = {}
    scales: dict[str, int] = {}
    unconstrained: list[str] = []
    unpriced: list[str] = []  # agents of whose unknown prices it was warned
    endings: dict[str, list[int]] = {}
    hops: int = 0  # of all turns, if a broadcast started the run or one that called it
    side: list[SideTurn] = []
    aside: Aside | None = None  # the turn under way is a side turn
    input: str = ""
    original_input: str = ""
    path: tuple[str, ...] = ()
    way: tuple[str, ...] = ()
    bounds: Bounds = UNBOUNDED
    results: dict[str, str] = {}  # of sub-crews, by name, the newest of each
    last_result: str = ""
    memory: dict[str, Any] = {}
    tasks: dict[str, Task] = {}  # by who works on it, in the order in which they were taken up
    errands: dict[str, Turn] = {}  # by whom each is about
    mailboxes: dict[str, AgentMailbox] = {}
    agents: dict[str, AgentState] = {}
    messages: int = 0
    remarks: dict[str, str] = {}  # what is to be said with a message, by its id
    message_types: dict[str, MessageType] = {}  # of the host, as they were when the run started
    given: dict[str, str] = {}  # messages of the host, by the key under which they were sent
    asked: dict[str, str] = {}  # the token of the answer that counted, by the id of its question
    written: list[str] = []  # keys of the memory that this run has written, or that came back to it


def tokens_of(state: RunState) -> tuple[str, ...]:
    """Of what people are asked, and of what children wait for."""
    return tuple([wait.token for wait in state.waits]) if state.waits else ()


def children_of(state: RunState) -> list[Child]:
    """The children under way, those that wait for a person included."""
    group, calling = state.group, state.calling
    of_group = [branch.child for branch in group.branches if branch.child is not None] if group is not None else []
    of_call = calling.children if calling is not None else []
    of_tasks = [task.child for task in state.tasks.values() if task.child is not None]
    return [child for child in (*of_group, *of_call, *of_tasks) if child.status in ("working", "waiting")]


def turns_of(state: RunState) -> list[Turn]:
    """The turns under way: the one with the floor or those of the group's members at work, tasks and errands."""
    turns = with_the_floor(state)
    if state.tasks or state.errands:
        turns += [task.turn for task in state.tasks.values() if task.turn is not None and task.report is None]
        turns += state.errands.values()
    return turns


def with_the_floor(state: RunState) -> list[Turn]:
    if state.group is not None:
        return [b.turn for b in state.group.branches if b.turn is not None and b.status == "working"]
    return [state.turn] if state.turn is not None else []


def turn_of(state: RunState, agent: str) -> Turn | None:
    """The agent's turn under way, errands aside: it has one at a time."""
    for turn in with_the_floor(state):
        if turn.agent == agent:
            return turn
    task = state.tasks.get(agent)
    return task.turn if task is not None and task.report is None else None


def turns_by(state: RunState, agent: str) -> list[Turn]:
    """All that the agent has under way: its turn and its errands."""
    turns = [turn for turn in with_the_floor(state) if turn.agent == agent]
    if state.tasks or state.errands:
        task = state.tasks.get(agent)
        if task is not None and task.turn is not None and task.report is None:
            turns.append(task.turn)
        turns += [errand for errand in state.errands.values() if errand.agent == agent]
    return turns
