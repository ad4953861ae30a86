"""All that a run is at one moment. Plain data; only `step` changes it."""

from typing import Any

import msgspec

from interlock.engine.events import Entry, ToolRequest, Usage


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something said within a turn that only its own agent sees: tool rounds, nudges, what came before one."""

    role: str
    text: str
    tool_calls: tuple[ToolRequest, ...] = ()
    tool_call: str = ""


class OpenTool(msgspec.Struct, kw_only=True):
    """A tool call that a reply asked for."""

    request: ToolRequest
    key: str
    output: str | None = None


class Turn(msgspec.Struct, kw_only=True):
    """One agent working until it hands over."""

    number: int
    agent: str
    history: int
    rounds: int = 0
    nudges: int = 0
    attempt: int = 0
    call: str = ""
    call_number: int = 0
    reserving: str = ""
    reserved: str = ""
    held_tokens: int = 0
    held_micros: int = 0
    called_ms: int = 0
    trimmed: bool = False
    backup: bool = False  # the agent's primary model has failed, and this turn goes on with the other
    told: list[str] = []
    said: list[Message] = []
    tools: list[OpenTool] = []
    emits: tuple[ToolRequest, ...] = ()


class Branch(msgspec.Struct, kw_only=True):
    """One member of a group at work."""

    turn: Turn
    status: str = "working"
    reply: str = ""
    error: str = ""


class GroupState(msgspec.Struct, kw_only=True):
    name: str
    starter: str
    branches: list[Branch]


class Wait(msgspec.Struct, kw_only=True):
    """Something only a person, or the host, can end."""

    token: str
    reason: str
    agent: str
    turn: int
    signal: str = ""
    target: str = ""
    tool: str = ""


class Timer(msgspec.Struct, kw_only=True):
    """Working time that is left for something. It stands still while `key` is empty."""

    left_ms: int
    key: str = ""
    since_ms: int = 0


class RunState(msgspec.Struct, kw_only=True):
    """The fold of a run's events. `endings` says at which handoffs an agent ended a turn with the same words."""

    run: str
    seq: int = 0
    status: str = "new"
    reason: str = ""
    agent: str = ""
    output: str = ""
    worked_ms: int = 0
    turns: int = 0
    handoffs: int = 0
    calls: dict[str, int] = {}
    usage: Usage = Usage()
    history: list[Entry] = []
    turn: Turn | None = None
    group: GroupState | None = None
    waits: list[Wait] = []
    answered: dict[str, str] = {}
    timers: dict[str, Timer] = {}
    steered: dict[str, int] = {}
    scales: dict[str, int] = {}
    unconstrained: list[str] = []
    endings: dict[str, list[int]] = {}
    memory: dict[str, Any] = {}
    written: list[str] = []  # keys of the memory that this run has written, or that came back to it
