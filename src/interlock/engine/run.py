"""`Run.apply`: an event in, facts and effects out.

Rule 1: only `Run.apply` changes a run's state; it uses no clock, no randomness and no I/O.
Rule 2: an event for something that is closed is recorded as stale and does nothing.
Rule 3: what follows from an event at once happens in the same transition; stages are carried out one by one.
"""

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.budgets.inherited_limits import UNBOUNDED, InheritedLimits, with_caps
from interlock.engine.budgets.limits import CrewBudgets
from interlock.engine.delegation.advisory_calls import fail_advisory_call
from interlock.engine.delegation.hooks import suspend_turn
from interlock.engine.delegation.host_messages import on_message_given
from interlock.engine.delegation.overdue import on_ack_missing, on_answer_missing
from interlock.engine.delegation.reports import apply_verdict, close_task
from interlock.engine.delegation.sub_crew_tasks import report_crew_result
from interlock.engine.delegation.tasks import deliver_messages
from interlock.engine.effects import Effect, Settle
from interlock.engine.events import (
    ApprovalNeeded,
    BroadcastHeard,
    CancelRequested,
    ChildContinues,
    ChildReturned,
    ChildWaits,
    DerivedEvent,
    DriveFailed,
    HooksDecided,
    IncomingEvent,
    InputExpired,
    LimitReached,
    MailTaken,
    MessageGiven,
    ModelCallLost,
    ModelFailed,
    ModelReplied,
    ParkRequested,
    Reserved,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolDecided,
    ToolOutcomeLost,
    ToolReturned,
    Usage,
    Warned,
    WentStale,
)
from interlock.engine.flow.control import apply_decision, finish_run, route_reply
from interlock.engine.flow.groups import close_branch, join_group, on_group_timeout, start_group
from interlock.engine.flow.parking import park_run, record_parked_pause, unpark_run
from interlock.engine.flow.sub_crews import (
    call_sub_crews,
    is_stale_child_event,
    on_child_continues,
    on_child_returned,
    on_child_waits,
)
from interlock.engine.flow.waits import answer_wait, expire_wait, on_tool_outcome_lost, pause_if_idle
from interlock.engine.index import Index
from interlock.engine.kinds import RUNNING, HookPoint, RunStatus, TimerKind, TimerPurpose
from interlock.engine.outstanding import outstanding_effects
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.stages import (
    ApplyDecision,
    AskModel,
    CallSubCrews,
    CloseBranch,
    CloseTask,
    ConcludeTurn,
    EndSideTurn,
    FailAdvisoryCall,
    FinishRun,
    JoinGroup,
    ReportCrewResult,
    ReportVerdict,
    Stage,
    StartGroup,
    StartSideTurns,
    StartTurn,
    SuspendTurn,
)
from interlock.engine.state import RunState, wait_tokens_of
from interlock.engine.timers import RUN, WARNING, start_timer, update_timers
from interlock.engine.transition import Transition
from interlock.engine.turns.approvals import on_approval_needed, on_tool_decided
from interlock.engine.turns.hooks import on_hooks_decided, start_after_input_hooks
from interlock.engine.turns.model_calls import (
    ask_model,
    end_call,
    on_model_call_lost,
    on_model_failed,
    on_reserved,
    retry_call,
)
from interlock.engine.turns.replies import on_model_replied
from interlock.engine.turns.side_turns import end_side_turn, insert_side_turns, queue_side_turn, start_side_turns
from interlock.engine.turns.start import is_stale_broadcast, on_mail_taken, show_broadcast, start_turn
from interlock.engine.turns.tool_calls import is_tool_open, on_tool_returned, on_tools_timeout
from interlock.engine.turns.turn import ask, conclude_turn
from interlock.messages.mailbox import as_plain_messages, from_plain_messages

# Changed rules get a new number; journals replay under the rules they were written with.
# 2: the timer of a task stops while its child waits for a person; a task's broadcasts have at least the hops of the
#    delegating turn; a question is refused if its schema has keys that are never checked, with another text if its
#    default does not fit; a deadline is at least a millisecond.
# 3: an unfilled field of an input_template is a warning;
#    cancelled model and tool calls, and tools that a person decided about, have an event that ends them;
#    the use of a deprecated signal is a warning;
#    `input.requested` has the agent's reason and the approval that it repeats; a task in the inbox of a child at work
#    is acknowledged; messages of the host's own types;
#    composed texts keep the authors of their parts; a broadcast has no envelope of its own;
#    HTML hides marks as code does; a text is read up to a stated size; removing marks also removes their emphasis;
#    limits that only warn never stop a run, not even those per call; a budget that stops a run has a sentence; a call
#    of unknown price under a limit in dollars is a warning; a retried tool gets its first key;
#    the schema of an answer may ask for a date.
RULES = 3


# Plain strings, for comparison with stored rows.
OVER = tuple(str(status) for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.STOPPED, RunStatus.CANCELLED))


class Step(msgspec.Struct, frozen=True, gc=False):
    """The result of one event."""

    facts: tuple[DerivedEvent, ...]
    effects: tuple[Effect, ...]


class Run:
    """One execution of a crew, as a pure state machine."""

    def __init__(self, crew: CrewDefinition, run: str, *, table: RoutingTable | None = None) -> None:
        self.crew = crew
        self.table = table or RoutingTable(crew)
        self.state = RunState(run=run)
        self.index = Index(self.state)
        self._apply_bounds(UNBOUNDED)

    def _apply_bounds(self, bounds: InheritedLimits) -> None:
        """Sets the run's settings and budgets: the crew's own within the caller's limits."""
        self.settings = with_caps(self.crew.settings, bounds.caps)
        self.budgets = CrewBudgets(self.crew, self.settings, bounds)
        # The calling crews whose budgets count these calls too, other than a crew of the same name.
        above = [limit.crew for limit in bounds.limits if limit.crew != self.crew.name]
        self.crews_above = tuple(dict.fromkeys(above))
        self._timeout_ms = self.settings.timeout_seconds * 1000

    def apply(self, event: IncomingEvent) -> Step:
        """Applies an event; returns the derived facts and the effects to carry out."""
        state = self.state
        state.seq += 1
        state.worked_ms += event.worked_ms
        if type(event) is RunStarted:
            self._apply_start(event)
        t = Transition(self.crew, self.settings, self.table, self.budgets, state, self.index, event.mail)
        if (state.status is not RUNNING and state.status in OVER) or _is_closed(t, event):
            _record_stale(t, event)
        else:
            self._take_event(t, event)
        state.seq += len(t.facts)
        return Step(tuple(t.facts), tuple(t.effects))

    def _take_event(self, t: Transition, event: IncomingEvent) -> None:
        """Carries out the stages that follow from an event, then pauses the run and sets its timers."""
        state = t.state
        waited_for, status = wait_tokens_of(state) if state.waits else (), state.status
        stage = _stop_if_running(t, event) if state.worked_ms >= self._timeout_ms else None
        stage = stage or _EVENT_HANDLERS[type(event)](t, event)
        # Messages are delivered whenever nothing else is left to do.
        while stage is not None or (state.mailboxes and (stage := deliver_messages(t)) is not None):
            if state.side:
                stage = insert_side_turns(t, stage)
            handlers = _HANDLERS_WITH_MESSAGING if t.has_messaging else _STAGE_HANDLERS
            stage = handlers[type(stage)](t, stage)
        if state.parked:
            record_parked_pause(t)
        elif state.waits:
            pause_if_idle(t)
        changed = status is not state.status or waited_for != (wait_tokens_of(state) if state.waits else ())
        if changed or t.timers_started:
            update_timers(t, all_=changed)

    def _apply_start(self, event: RunStarted) -> None:
        """Sets what the first event brings: the caller's limits and the rules."""
        if event.bounds != UNBOUNDED and self.state.status is RunStatus.NEW:
            self.state.bounds = event.bounds
            self._apply_bounds(event.bounds)
        if event.rules < RULES:
            self.table = self.table.for_rules(event.rules)

    def outstanding_effects(self) -> tuple[Effect, ...]:
        """The effects to carry out again after a replay: emitted, not answered, and not the subject of a question."""
        t = Transition(self.crew, self.settings, self.table, self.budgets, self.state, self.index)
        return tuple(outstanding_effects(t))

    def snapshot(self) -> Any:
        """The state as plain JSON values."""
        return msgspec.to_builtins(self.state, enc_hook=as_plain_messages)

    @classmethod
    def restore(cls, crew: CrewDefinition, snapshot: Any) -> "Run":
        run = cls(crew, snapshot["run"])
        run.state = msgspec.convert(snapshot, RunState, dec_hook=from_plain_messages)
        run.index = Index(run.state)
        run._apply_bounds(run.state.bounds)
        run.table = run.table.for_rules(run.state.rules)
        return run


def _record_stale(t: Transition, event: IncomingEvent) -> None:
    if isinstance(event, Reserved) and not event.refused:  # the call will not be made
        t.emit(Settle(key=event.call, agent=event.agent, usage=Usage()))
    t.record(WentStale(about=event.__struct_config__.tag))  # type: ignore[arg-type]


def _is_closed(t: Transition, event: IncomingEvent) -> bool:
    """Whether the subject of the event is closed."""
    match event:
        case ModelReplied() | ModelFailed() | ModelCallLost():
            t.caller = t.turn_calling(event.call, event.agent)
            return t.caller is None
        case Reserved():
            return t.turn_reserving(event.call, event.agent) is None
        case RunStarted():
            return t.state.status is not RunStatus.NEW
        case CancelRequested() | ParkRequested() | DriveFailed():
            return t.state.is_ending or (isinstance(event, ParkRequested) and bool(t.state.parked))
        case ToolReturned() | ToolOutcomeLost() | ApprovalNeeded() | ToolDecided() | HooksDecided():
            return not _is_awaited(t, event)
        case TimerFired():
            return event.timer not in t.index.ticking
        case RunResumed() | InputExpired():
            return _is_stale_answer(t, event)
        case BroadcastHeard() | MailTaken() | MessageGiven():
            return is_stale_broadcast(t, event)
        case ChildReturned() | ChildWaits() | ChildContinues():
            return is_stale_child_event(t, event)
        case _:
            assert_never(event)


def _is_stale_answer(t: Transition, event: RunResumed | InputExpired) -> bool:
    """Waits of a child are answered there; a deadline names its question, because the token may have changed."""
    if isinstance(event, InputExpired):
        return not any(wait.id == event.token and wait.deadline_ms for wait in t.state.waits)
    if event.token == t.state.parked:
        return not event.token
    wait = t.wait_with(event.token)
    return wait is None or bool(wait.child)


def _is_awaited(
    t: Transition, event: ToolReturned | ToolOutcomeLost | ApprovalNeeded | ToolDecided | HooksDecided
) -> bool:
    """Whether the call is not over: a tool has no output and no person is asked about it, or hooks were to decide."""
    point = event.verdict.point if isinstance(event, HooksDecided) else ""
    if isinstance(event, HooksDecided) and point == HookPoint.BEFORE_MODEL:
        return t.turn_calling(event.call, event.agent) is not None
    if point == HookPoint.ON_OUTPUT:
        return t.state.ending is not None and t.state.ending.checking == event.call
    return is_tool_open(t, event.call) and event.call not in [wait.tool for wait in t.state.waits]


def _on_run_started(t: Transition, event: RunStarted) -> Stage | None:
    t.state.status, t.state.rules = RunStatus.RUNNING, event.rules
    t.state.path, t.state.way, t.state.input = event.path, event.way, event.input
    t.state.calls = dict(event.calls)
    t.state.original_input = event.context.original_input or event.input
    t.state.results, t.state.memory = dict(event.context.previous_results), dict(event.context.shared_memory)
    t.state.history = list(event.history)
    t.state.hops, t.state.user, t.state.needs = event.hops, event.user, event.needs
    t.state.message_types = {each.type: each for each in event.messages}
    if event.heard is None:
        t.add_history("user", "user", event.input, 0, event.frames)
    else:
        t.state.hops = event.heard.hops + 1
        show_broadcast(t, event.entry, event.heard, "floor")
    milliseconds = int(t.settings.timeout_seconds * 1000)
    start_timer(t, RUN, milliseconds)
    start_timer(t, WARNING, int(milliseconds * t.settings.timeout_warning_threshold_pct / 100))
    t.state.checks_output = event.checks_output
    return start_after_input_hooks(t, event, event.entry or t.crew.entry_point)


def _stop_if_running(t: Transition, event: IncomingEvent) -> Stage | None:
    """Stops a run that is out of time, unless it waits or is ending."""
    if t.state.status is not RunStatus.RUNNING or t.state.ending is not None:
        return None
    if isinstance(event, ModelReplied | ModelFailed):
        end_call(t, event)  # a late reply still costs
    t.record(LimitReached(limit="timeout"))
    return FinishRun(RunStatus.STOPPED, "timeout")


def _on_timer_fired(t: Transition, event: TimerFired) -> Stage | None:
    key = t.index.ticking.pop(event.timer)
    del t.state.timers[key]
    purpose = TimerPurpose.of_key(key)
    match purpose.kind:
        case TimerKind.RUN:
            t.record(LimitReached(limit="timeout"))
            return FinishRun(RunStatus.STOPPED, "timeout")
        case TimerKind.WARNING:
            pct = t.settings.timeout_warning_threshold_pct
            t.record(Warned(code="timeout-near", message=f"{pct:g} % of the run's working time is used"))
            return None
        case TimerKind.GROUP:
            return on_group_timeout(t)
        case TimerKind.TOOLS:
            return on_tools_timeout(t, int(purpose.owner))
        case TimerKind.RETRY | TimerKind.BUDGET:
            return retry_call(t, int(purpose.owner))
        case TimerKind.ACK:
            return on_ack_missing(t, purpose.owner)
        case TimerKind.ANSWER:
            return on_answer_missing(t, purpose.owner)
        case _:
            assert_never(purpose.kind)


def _on_run_resumed(t: Transition, event: RunResumed) -> Stage | None:
    if event.token == t.state.parked:
        unpark_run(t, event)
        return None
    return answer_wait(t, event)


def _on_cancel_requested(t: Transition, event: CancelRequested) -> Stage:
    return FinishRun(RunStatus.CANCELLED, "cancelled")


def _on_drive_failed(t: Transition, event: DriveFailed) -> Stage:
    t.record(Warned(code="cannot-continue", message=event.error))
    return FinishRun(RunStatus.FAILED, "cannot_continue")


# The handlers of events and stages. A test compares them with the unions.
_EVENT_HANDLERS: dict[type, Callable[[Transition, Any], Stage | None]] = {
    RunStarted: _on_run_started,
    Reserved: on_reserved,
    ModelReplied: on_model_replied,
    ModelFailed: on_model_failed,
    ModelCallLost: on_model_call_lost,
    ToolReturned: on_tool_returned,
    ToolOutcomeLost: on_tool_outcome_lost,
    TimerFired: _on_timer_fired,
    RunResumed: _on_run_resumed,
    InputExpired: expire_wait,
    HooksDecided: on_hooks_decided,
    ApprovalNeeded: on_approval_needed,
    ToolDecided: on_tool_decided,
    BroadcastHeard: queue_side_turn,
    MailTaken: on_mail_taken,
    ChildReturned: on_child_returned,
    ChildWaits: on_child_waits,
    ChildContinues: on_child_continues,
    CancelRequested: _on_cancel_requested,
    ParkRequested: park_run,
    DriveFailed: _on_drive_failed,
    MessageGiven: on_message_given,
}

_STAGE_HANDLERS: dict[type, Callable[[Transition, Any], Stage | None]] = {
    StartTurn: start_turn,
    AskModel: ask_model,
    ConcludeTurn: route_reply,
    ApplyDecision: apply_decision,
    StartGroup: start_group,
    CallSubCrews: call_sub_crews,
    CloseBranch: close_branch,
    JoinGroup: join_group,
    SuspendTurn: suspend_turn,
    CloseTask: close_task,
    ReportCrewResult: report_crew_result,
    FailAdvisoryCall: fail_advisory_call,
    ReportVerdict: apply_verdict,
    StartSideTurns: start_side_turns,
    EndSideTurn: end_side_turn,
    FinishRun: finish_run,
}
# In runs whose agents exchange messages, delegation is called before a model call and around a conclusion.
_HANDLERS_WITH_MESSAGING: dict[type, Callable[[Transition, Any], Stage | None]] = {
    **_STAGE_HANDLERS,
    AskModel: ask,
    ConcludeTurn: conclude_turn,
}
