"""The one entrance: an event in, facts and effects out.

Rule 1: only `Run.apply` changes a run's state; no clock, no chance, no I/O inside.
Rule 2: an event for something that is closed is recorded as stale and does nothing.
Rule 3: whatever an event leads to at once happens in the same transition; moves are carried out one by one.
"""

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from interlock.crew.definition import Crew
from interlock.engine.approving import approval_needed
from interlock.engine.beginning import comes_too_late, hear, mail_taken
from interlock.engine.bounds import UNBOUNDED, Bounds, capped
from interlock.engine.budgets import Budgets
from interlock.engine.crew_tasks import returned
from interlock.engine.delegating import ask_ready, close_task, conclude_turn, deliver, judged, overdue, rest
from interlock.engine.effects import Effect, Settle
from interlock.engine.errands import close_errand
from interlock.engine.events import (
    ApprovalNeeded,
    BroadcastHeard,
    CancelRequested,
    ChildGoesOn,
    ChildReturned,
    ChildWaits,
    DerivedEvent,
    DriveFailed,
    IncomingEvent,
    InputExpired,
    LimitReached,
    MailTaken,
    MessageGiven,
    ModelFailed,
    ModelReplied,
    ParkRequested,
    Reserved,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolOutcomeLost,
    ToolReturned,
    Usage,
    Warned,
    WentStale,
)
from interlock.engine.host_mail import message_given
from interlock.engine.index import Index
from interlock.engine.joining import close_branch, fork, join, out_of_time
from interlock.engine.moves import (
    Ask,
    Begin,
    Call,
    CloseBranch,
    CloseErrand,
    CloseTask,
    Conclude,
    CrewReturned,
    Depart,
    EndAside,
    Finish,
    Follow,
    Fork,
    Join,
    Judged,
    Move,
    Rest,
    StepAside,
)
from interlock.engine.nesting import call, child_goes_on, child_returned, child_waits, is_old_news
from interlock.engine.outstanding import outstanding
from interlock.engine.parking import park, stay_parked, unpark
from interlock.engine.questions import question_expired
from interlock.engine.routing import RoutingTable
from interlock.engine.side_turns import aside_first, end_aside, heard_aside, step_aside
from interlock.engine.state import RunState, tokens_of
from interlock.engine.steering import depart, finish, follow
from interlock.engine.timing import (
    ACK,
    ANSWER,
    BUDGET,
    GROUP,
    RETRY,
    RUN,
    TOOLS,
    WARNING,
    keep_time,
    start_timer,
)
from interlock.engine.transition import Transition
from interlock.engine.turns import (
    begin,
    call_ended,
    failed,
    is_open,
    replied,
    reserved,
    retry,
    tool_returned,
    tools_out_of_time,
)
from interlock.engine.waiting import pause_if_idle, resumed, tool_lost

# Changed rules get a new number; journals replay under the one they were written with.
# 2: a task waits as long as its child waits for a person; who works on a task announces with the hops of who gave it;
#    a question is refused whose schema says what is never looked at, with other words if its default does not fit,
#    and its deadline is a millisecond at least.
# 3: a field of an input_template that nothing has filled is a warning;
#    calls of models and tools that were given up, and tools that a person decided about, have an event that ends them;
#    the use of a deprecated signal is a warning;
#    `input.requested` says why an agent asks, and which approval is asked again; a task in the inbox of a child at work
#    is acknowledged; messages of the host's own types;
#    what Interlock composes of others' words keeps who said which of them; a broadcast has no envelope of its own;
#    HTML hides marks as code does, a text is read up to a stated size, and what is left of a text without its marks
#    holds no emphasis of theirs;
#    limits that only warn never stop a run, also those by call; a budget that stops one says so in a sentence; a call
#    without a known price under a limit in dollars is warned of; a tool that is tried again is given its first key;
#    the schema of an answer may ask for a date.
RULES = 3

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
        self.index = Index(self.state)
        self._bind(UNBOUNDED)

    def _bind(self, bounds: Bounds) -> None:
        """What holds for this run: the crew's own settings and budgets, and what its caller allows."""
        self.settings = capped(self.crew.settings, bounds.caps)
        self.budgets = Budgets(self.crew, self.settings, bounds)
        # The callers' crews in whose budgets calls count as well; one of the same name has its own counted.
        above = [limit.crew for limit in bounds.limits if limit.crew != self.crew.name]
        self.crews_above = tuple(dict.fromkeys(above))

    def apply(self, event: IncomingEvent) -> Step:
        """Takes a fact in, and says what follows from it and what is to be done."""
        self.state.seq += 1
        self.state.worked_ms += event.worked_ms
        if isinstance(event, RunStarted) and event.bounds != UNBOUNDED and self.state.status == "new":
            self.state.bounds = event.bounds
            self._bind(event.bounds)
        if isinstance(event, RunStarted):
            self.table = self.table.for_rules(event.rules)
        t = Transition(self.crew, self.settings, self.table, self.budgets, self.state, self.index)
        t.mail = event.mail
        if _is_stale(t, event):
            if isinstance(event, Reserved) and not event.refused:  # nobody will make the call
                t.order(Settle(key=event.call, agent=event.agent, usage=Usage()))
            t.conclude(WentStale(about=event.__struct_config__.tag))  # type: ignore[arg-type]
            return Step(tuple(t.facts), tuple(t.effects))
        waited_for, status = tokens_of(self.state), self.state.status
        move = _out_of_working_time(t, event) or _RECEIVED[type(event)](t, event) or deliver(t)
        while move is not None:
            if self.state.side:
                move = aside_first(t, move)
            move = _CARRIED_OUT[type(move)](t, move) or deliver(t)
        if self.state.parked:
            stay_parked(t)
        elif self.state.waits:
            pause_if_idle(t)
        changed = status != self.state.status or waited_for != tokens_of(self.state)
        if changed or t.timers_started:
            keep_time(t, all_=changed)
        return Step(tuple(t.facts), tuple(t.effects))

    def outstanding(self) -> tuple[Effect, ...]:
        """What is still owed after a replay: what was ordered, never answered, and is nobody's question."""
        t = Transition(self.crew, self.settings, self.table, self.budgets, self.state, self.index)
        return tuple(outstanding(t))

    def snapshot(self) -> Any:
        """The state as plain JSON values."""
        return msgspec.to_builtins(self.state)

    @classmethod
    def restore(cls, crew: Crew, snapshot: Any) -> "Run":
        run = cls(crew, snapshot["run"])
        run.state = msgspec.convert(snapshot, RunState)
        run.index = Index(run.state)
        run._bind(run.state.bounds)
        run.table = run.table.for_rules(run.state.rules)
        return run


def _is_stale(t: Transition, event: IncomingEvent) -> bool:
    return t.state.status in OVER or _is_closed(t, event)


def _is_closed(t: Transition, event: IncomingEvent) -> bool:
    """Whether what the event is about is open no more."""
    match event:
        case ModelReplied() | ModelFailed():
            return t.turn_that(event.call, event.agent) is None
        case Reserved():
            return t.turn_that_reserves(event.call, event.agent) is None
        case RunStarted():
            return t.state.status != "new"
        case CancelRequested() | ParkRequested() | DriveFailed():
            return t.state.ending is not None or (isinstance(event, ParkRequested) and bool(t.state.parked))
        case ToolReturned() | ToolOutcomeLost() | ApprovalNeeded():
            return not _is_awaited(t, event.call)
        case TimerFired():
            return event.timer not in t.index.ticking
        case RunResumed() | InputExpired():
            return _asks_nobody(t, event)
        case BroadcastHeard() | MailTaken() | MessageGiven():
            return comes_too_late(t, event)
        case ChildReturned() | ChildWaits() | ChildGoesOn():
            return is_old_news(t, event)
        case _:
            assert_never(event)


def _asks_nobody(t: Transition, event: RunResumed | InputExpired) -> bool:
    """What a child asks is answered there; a deadline is that of a question, whatever its token is by now."""
    if isinstance(event, InputExpired):
        return not any(wait.message == event.token for wait in t.state.waits)
    if event.token == t.state.parked:
        return not event.token
    wait = t.wait_with(event.token)
    return wait is None or bool(wait.child)


def _is_awaited(t: Transition, tool: str) -> bool:
    """Whether a tool has no output yet, and nobody is asked about it."""
    return is_open(t, tool) and tool not in [wait.tool for wait in t.state.waits]


def _started(t: Transition, event: RunStarted) -> Move:
    t.state.status, t.state.rules = "running", event.rules
    t.state.path, t.state.way, t.state.input = event.path, event.way, event.input
    t.state.calls = dict(event.calls)
    t.state.original_input = event.context.original_input or event.input
    t.state.results, t.state.memory = dict(event.context.previous_results), dict(event.context.shared_memory)
    t.state.history = list(event.history)
    t.state.hops = event.hops
    t.state.message_types = {each.type: each for each in event.messages}
    if event.heard is None:
        t.remember("user", "user", event.input, 0, event.frames)
    else:
        t.state.hops = event.heard.hops + 1
        hear(t, event.entry, event.heard, "floor")
    milliseconds = int(t.settings.timeout_seconds * 1000)
    start_timer(t, RUN, milliseconds)
    start_timer(t, WARNING, int(milliseconds * t.settings.timeout_warning_threshold_pct / 100))
    return Begin(event.entry or t.crew.entry_point)


def _out_of_working_time(t: Transition, event: IncomingEvent) -> Move | None:
    if (
        t.state.status != "running"
        or t.state.ending is not None
        or t.state.worked_ms < t.settings.timeout_seconds * 1000
    ):
        return None
    if isinstance(event, ModelReplied | ModelFailed):
        call_ended(t, event)  # what it cost counts, although it came too late
    t.conclude(LimitReached(limit="timeout"))
    return Finish("stopped", "timeout")


def _timer_fired(t: Transition, event: TimerFired) -> Move | None:
    purpose = t.index.ticking.pop(event.timer)
    del t.state.timers[purpose]
    if purpose == GROUP:
        return out_of_time(t)
    if purpose == WARNING:
        pct = t.settings.timeout_warning_threshold_pct
        t.conclude(Warned(code="timeout-near", message=f"{pct:g} % of the run's working time is used"))
        return None
    if purpose.startswith(TOOLS):
        return tools_out_of_time(t, int(purpose.removeprefix(TOOLS)))
    if purpose.startswith((ACK, ANSWER)):
        return overdue(t, purpose)
    if purpose.startswith((RETRY, BUDGET)):
        return retry(t, int(purpose.partition(":")[2]))
    t.conclude(LimitReached(limit="timeout"))
    return Finish("stopped", "timeout")


def _resumed(t: Transition, event: RunResumed) -> Move | None:
    if event.token == t.state.parked:
        unpark(t, event)
        return None
    return resumed(t, event)


def _cancelled(t: Transition, event: CancelRequested) -> Move:
    return Finish("cancelled", "cancelled")


def _cannot_be_driven(t: Transition, event: DriveFailed) -> Move:
    t.conclude(Warned(code="cannot-continue", message=event.error))
    return Finish("failed", "cannot_continue")


# Who takes an event in, and who carries a move out. A test compares them with the unions.
_RECEIVED: dict[type, Callable[[Transition, Any], Move | None]] = {
    RunStarted: _started,
    Reserved: reserved,
    ModelReplied: replied,
    ModelFailed: failed,
    ToolReturned: tool_returned,
    ToolOutcomeLost: tool_lost,
    TimerFired: _timer_fired,
    RunResumed: _resumed,
    InputExpired: question_expired,
    ApprovalNeeded: approval_needed,
    BroadcastHeard: heard_aside,
    MailTaken: mail_taken,
    ChildReturned: child_returned,
    ChildWaits: child_waits,
    ChildGoesOn: child_goes_on,
    CancelRequested: _cancelled,
    ParkRequested: park,
    DriveFailed: _cannot_be_driven,
    MessageGiven: message_given,
}

_CARRIED_OUT: dict[type, Callable[[Transition, Any], Move | None]] = {
    Begin: begin,
    Ask: ask_ready,
    Conclude: conclude_turn,
    Follow: follow,
    Depart: depart,
    Fork: fork,
    Call: call,
    CloseBranch: close_branch,
    Join: join,
    Rest: rest,
    CloseTask: close_task,
    CrewReturned: returned,
    CloseErrand: close_errand,
    Judged: judged,
    StepAside: step_aside,
    EndAside: end_aside,
    Finish: finish,
}
