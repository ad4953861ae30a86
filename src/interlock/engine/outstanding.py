"""What a run has ordered and not been answered yet, derived from its state."""

from collections.abc import Iterator

from interlock.engine.effects import Effect, Reserve, SetAlarm, SetTimer, StopChild, TakeMail
from interlock.engine.nesting import order_for
from interlock.engine.timing import left
from interlock.engine.transition import Transition
from interlock.engine.turns import call_of, order_of


def outstanding(t: Transition) -> Iterator[Effect]:
    """Everything that is owed after a replay. A parked run is owed nothing that works: it waits for its resume."""
    if not t.state.parked:
        yield from owed_work(t)
    yield from _stops(t)
    if not t.state.parked:
        yield from _timers(t)
    yield from owed_alarms(t)


def owed_work(t: Transition) -> Iterator[Effect]:
    """Calls, tools and children without an answer, but for what a person is asked about."""
    asked_about = [wait.tool for wait in t.state.waits]
    for turn in t.turns():
        if turn.reserving:
            yield Reserve(key=turn.reserving, agent=turn.agent, turn=turn.number)
        if turn.taking:
            yield TakeMail(key=turn.taking, agent=turn.agent)
        if turn.call:
            yield call_of(t, turn)
        for tool in turn.tools:
            if tool.output is None and tool.key not in asked_about:
                yield order_of(turn, tool)
    for child in t.children():
        if child.status == "working":
            yield order_for(child)


def _stops(t: Transition) -> Iterator[Effect]:
    for child in t.state.leaving:
        yield StopChild(key=child.key, child=child.run)


def _timers(t: Transition) -> Iterator[Effect]:
    for timer in t.state.timers.values():
        if timer.key:
            yield SetTimer(key=timer.key, duration_ms=left(t, timer))


def owed_alarms(t: Transition) -> Iterator[Effect]:
    for wait in t.state.waits:
        if wait.alarm:
            yield SetAlarm(key=wait.alarm, token=wait.message, duration_ms=wait.deadline_ms)
