"""Effects that a run has emitted and that are not answered yet, derived from its state."""

from collections.abc import Iterator

from interlock.engine.effects import CheckOutput, ClaimInbox, Effect, Reserve, SetAlarm, SetTimer, StopChild
from interlock.engine.flow.sub_crews import start_child_effect
from interlock.engine.kinds import WorkStatus
from interlock.engine.state import PendingEnd
from interlock.engine.timers import remaining_ms
from interlock.engine.transition import Transition
from interlock.engine.turns.model_calls import call_model_effect
from interlock.engine.turns.tool_calls import run_tool_effect


def outstanding_effects(t: Transition) -> Iterator[Effect]:
    """Everything to carry out again after a replay. A parked run does no work until its resume."""
    if not t.state.parked:
        yield from outstanding_work(t)
    yield from _outstanding_stops(t)
    if not t.state.parked:
        yield from _outstanding_timers(t)
    yield from outstanding_alarms(t)


def outstanding_work(t: Transition) -> Iterator[Effect]:
    """Calls, tools and children without an answer, but for what a person is asked about."""
    asked_about = [wait.tool for wait in t.state.waits]
    for turn in t.turns():
        if turn.reserving:
            yield Reserve(key=turn.reserving, agent=turn.agent, turn=turn.number)
        if turn.taking:
            yield ClaimInbox(key=turn.taking, agent=turn.agent)
        if turn.call:
            yield call_model_effect(t, turn)
        for tool in turn.tools:
            if tool.output is None and tool.key not in asked_about:
                yield run_tool_effect(turn, tool)
    for child in t.children():
        if child.status is WorkStatus.WORKING:
            yield start_child_effect(child)
    if t.state.ending is not None and t.state.ending.checking:
        yield check_output_effect(t.state.ending)


def check_output_effect(ending: PendingEnd) -> CheckOutput:
    return CheckOutput(key=ending.checking, status=str(ending.status), reason=ending.reason)


def _outstanding_stops(t: Transition) -> Iterator[Effect]:
    for child in t.state.leaving:
        yield StopChild(key=child.key, child=child.run)


def _outstanding_timers(t: Transition) -> Iterator[Effect]:
    for timer in t.state.timers.values():
        if timer.key:
            yield SetTimer(key=timer.key, duration_ms=remaining_ms(t, timer))


def outstanding_alarms(t: Transition) -> Iterator[Effect]:
    for wait in t.state.waits:
        if wait.alarm:
            yield SetAlarm(key=wait.alarm, token=wait.id, duration_ms=wait.deadline_ms)
