"""The one entrance: an event in, facts and effects out.

Rule 1: only `Run.apply` changes a run's state; no clock, no chance, no I/O inside.
Rule 2: an event for something that is closed is recorded as stale and does nothing.
Rule 3: whatever an event leads to at once happens in the same transition; moves are carried out one by one.
"""

from typing import Any, assert_never

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.effects import Effect, RunTool, SetTimer
from interlock.engine.events import (
    CancelRequested,
    DerivedEvent,
    Entry,
    IncomingEvent,
    LimitReached,
    ModelFailed,
    ModelReplied,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolOutcomeLost,
    ToolReturned,
    Warned,
    WentStale,
)
from interlock.engine.joining import close_branch, fork, join, out_of_time
from interlock.engine.moves import Ask, Begin, CloseBranch, Conclude, Depart, Finish, Follow, Fork, Join, Move
from interlock.engine.routing import RoutingTable
from interlock.engine.state import RunState
from interlock.engine.steering import conclude, depart, finish, follow
from interlock.engine.timing import GROUP, RETRY, RUN, TOOLS, WARNING, keep_time, left, purpose_of, start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns import ask, begin, call_of, failed, replied, retry, tool_returned, tools_out_of_time
from interlock.engine.waiting import pause_if_idle, resumed, tool_lost

# Changed rules get a new number; journals replay under the one they were written with.
RULES = 1

OVER = ("completed", "failed", "stopped", "cancelled")


class Step(msgspec.Struct, frozen=True):
    """What one event led to."""

    facts: tuple[DerivedEvent, ...]
    effects: tuple[Effect, ...]


class Run:
    """One execution of a crew, as a pure state machine."""

    def __init__(self, crew: Crew, run: str, *, table: RoutingTable | None = None) -> None:
        self.crew = crew
        self.table = table or RoutingTable(crew)
        self.state = RunState(run=run)

    def apply(self, event: IncomingEvent) -> Step:
        """Takes a fact in, and says what follows from it and what is to be done."""
        self.state.seq += 1
        self.state.worked_ms += event.worked_ms
        t = Transition(self.crew, self.table, self.state)
        if _is_stale(t, event):
            t.conclude(WentStale(about=event.__struct_config__.tag))  # type: ignore[arg-type]
            return Step(tuple(t.facts), tuple(t.effects))
        move = _out_of_working_time(t) or _received(t, event)
        while move is not None:
            move = _carried_out(t, move)
        pause_if_idle(t)
        keep_time(t)
        return Step(tuple(t.facts), tuple(t.effects))

    def outstanding(self) -> tuple[Effect, ...]:
        """What is still owed after a replay: what was ordered, never answered, and is nobody's question."""
        t = Transition(self.crew, self.table, self.state)
        asked_about = [wait.tool for wait in self.state.waits]
        owed: list[Effect] = []
        for turn in t.turns():
            if turn.call:
                owed.append(call_of(turn))
            owed += [
                RunTool(key=tool.key, agent=turn.agent, name=tool.request.name, arguments=tool.request.arguments)
                for tool in turn.tools
                if tool.output is None and tool.key not in asked_about
            ]
        owed += [
            SetTimer(key=timer.key, duration_ms=left(t, timer)) for timer in self.state.timers.values() if timer.key
        ]
        return tuple(owed)

    def snapshot(self) -> Any:
        """The state as plain JSON values."""
        return msgspec.to_builtins(self.state)

    @classmethod
    def restore(cls, crew: Crew, snapshot: Any) -> "Run":
        run = cls(crew, snapshot["run"])
        run.state = msgspec.convert(snapshot, RunState)
        return run


def _is_stale(t: Transition, event: IncomingEvent) -> bool:
    if t.state.status in OVER:
        return True
    match event:
        case RunStarted():
            return t.state.status != "new"
        case ModelReplied() | ModelFailed():
            return t.turn_that(event.call) is None
        case ToolReturned() | ToolOutcomeLost():
            keys = [tool.key for turn in t.turns() for tool in turn.tools if tool.output is None]
            return event.call not in keys
        case TimerFired():
            return purpose_of(t, event.timer) is None
        case RunResumed():
            return t.wait_with(event.token) is None
        case CancelRequested():
            return False
        case _:
            assert_never(event)


def _received(t: Transition, event: IncomingEvent) -> Move | None:
    match event:
        case RunStarted():
            return _started(t, event)
        case ModelReplied():
            return replied(t, event)
        case ModelFailed():
            return failed(t, event)
        case ToolReturned():
            return tool_returned(t, event)
        case ToolOutcomeLost():
            return tool_lost(t, event)
        case TimerFired():
            return _timer_fired(t, event)
        case RunResumed():
            return resumed(t, event)
        case CancelRequested():
            return Finish("cancelled", "cancelled")
        case _:
            assert_never(event)


def _carried_out(t: Transition, move: Move) -> Move | None:
    match move:
        case Begin():
            return begin(t, move)
        case Ask():
            return ask(t, move)
        case Conclude():
            return conclude(t, move)
        case Follow():
            return follow(t, move)
        case Depart():
            return depart(t, move)
        case Fork():
            return fork(t, move)
        case CloseBranch():
            return close_branch(t, move)
        case Join():
            return join(t, move)
        case Finish():
            finish(t, move)
            return None
        case _:
            assert_never(move)


def _started(t: Transition, event: RunStarted) -> Move:
    t.state.status = "running"
    t.state.history = [*event.history, Entry(role="user", author="user", text=event.input, turn=0)]
    _say_what_is_not_enforced(t)
    milliseconds = int(t.settings.timeout_seconds * 1000)
    start_timer(t, RUN, milliseconds)
    start_timer(t, WARNING, int(milliseconds * t.settings.timeout_warning_threshold_pct / 100))
    return Begin(t.crew.entry_point)


# Budgets that are read and checked, and not kept yet: better said in every run than ignored in silence.
_WINDOWS = {
    "calls": ("minute", "hour", "day"),
    "tokens": ("call", "minute", "hour", "day"),
    "cost": ("call", "minute", "hour", "day"),
    "errors": ("hour", "day"),
}
_NOT_ENFORCED = (
    *(f"max_{what}_per_{window}" for what, windows in _WINDOWS.items() for window in windows),
    "max_consecutive_errors",
)


def _say_what_is_not_enforced(t: Transition) -> None:
    names = [name for name in _NOT_ENFORCED if getattr(t.settings, name) is not None]
    names += [f"cost_limits of {agent.id}" for agent in t.crew.agents if agent.cost_limits is not None]
    names += [f"error_limits of {agent.id}" for agent in t.crew.agents if agent.error_limits is not None]
    if names:
        t.conclude(Warned(code="not-enforced", message=f"this version does not enforce {', '.join(names)}"))


def _out_of_working_time(t: Transition) -> Move | None:
    if t.state.status != "running" or t.state.worked_ms < t.settings.timeout_seconds * 1000:
        return None
    t.conclude(LimitReached(limit="timeout"))
    return Finish("stopped", "timeout")


def _timer_fired(t: Transition, event: TimerFired) -> Move | None:
    purpose = purpose_of(t, event.timer)
    assert purpose is not None, "stale timers are turned away before"
    del t.state.timers[purpose]
    if purpose == GROUP:
        return out_of_time(t)
    if purpose == WARNING:
        pct = t.settings.timeout_warning_threshold_pct
        t.conclude(Warned(code="timeout-near", message=f"{pct:g} % of the run's working time is used"))
        return None
    if purpose.startswith(TOOLS):
        return tools_out_of_time(t, int(purpose.removeprefix(TOOLS)))
    if purpose.startswith(RETRY):
        return retry(t, int(purpose.removeprefix(RETRY)))
    t.conclude(LimitReached(limit="timeout"))
    return Finish("stopped", "timeout")
