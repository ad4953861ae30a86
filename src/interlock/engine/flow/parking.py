"""Parking: a person stopped the process of a run, and only a resume continues the run.

Rule 1: parking loses nothing. Calls, tools and children in progress keep their keys; they are cancelled now and
started again by the resume.
Rule 2: a parked run still accepts events, such as the answer to a question; the work that follows waits for the resume.
"""

from interlock.engine.effects import CallModel, Cancel, CheckOutput, ClaimInbox, Reserve, RunTool, SetTimer, StartChild
from interlock.engine.events import ParkRequested, RunPaused, RunResumed, Warned
from interlock.engine.kinds import RunStatus
from interlock.engine.outstanding import outstanding_alarms, outstanding_work
from interlock.engine.state import RunState
from interlock.engine.transition import Transition

# The reasons of the pause: a person stopped the process, or the process that found the run cannot drive it.
PARKED, SET_ASIDE = "parked", "set_aside"

# Effects that work, spend or wait for a run.
_WORK = (CallModel, RunTool, CheckOutput, StartChild, Reserve, ClaimInbox, SetTimer)


def pause_reason(state: RunState) -> str:
    return SET_ASIDE if state.is_set_aside else PARKED


def park_run(t: Transition, event: ParkRequested) -> None:
    for work in list(outstanding_work(t)):
        t.emit(Cancel(key=work.key))
    t.state.parked, t.state.status, t.state.is_set_aside = t.new_token(), RunStatus.PAUSED, bool(event.hindrance)
    if event.hindrance:
        t.record(Warned(code="set-aside", message=event.hindrance))


def unpark_run(t: Transition, event: RunResumed) -> None:
    t.state.answered[event.token] = event.input
    t.state.parked, t.state.status, t.state.is_set_aside = "", RunStatus.RUNNING, False
    for owed in [*outstanding_work(t), *outstanding_alarms(t)]:
        t.emit(owed)


def record_parked_pause(t: Transition) -> None:
    """Records that the run is parked, and drops the work of this transition."""
    t.record(RunPaused(agent=t.state.agent, token=t.state.parked, reason=pause_reason(t.state)))
    t.effects[:] = [effect for effect in t.effects if not isinstance(effect, _WORK)]
