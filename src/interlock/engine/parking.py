"""A run whose process a person stopped: it rests, and only a resume continues it.

Rule 1: parking gives up nothing for good. Calls, tools and children in progress keep their keys; they are cancelled now
and ordered again by the resume.
Rule 2: a parked run still takes in what comes, such as the answer to a question, and moves on in its state; what that
orders is held until the resume.
"""

from interlock.engine.effects import CallModel, Cancel, Reserve, RunTool, SetTimer, StartChild, TakeMail
from interlock.engine.events import ParkRequested, RunPaused, RunResumed, Warned
from interlock.engine.outstanding import owed_alarms, owed_work
from interlock.engine.state import RunState
from interlock.engine.transition import Transition

# The reasons of the pause: a person stopped the process, or the process that found the run cannot drive it.
PARKED, SET_ASIDE = "parked", "set_aside"

# What works, spends or waits on behalf of a run.
_WORK = (CallModel, RunTool, StartChild, Reserve, TakeMail, SetTimer)


def rest_reason(state: RunState) -> str:
    return SET_ASIDE if state.is_set_aside else PARKED


def park(t: Transition, event: ParkRequested) -> None:
    for work in list(owed_work(t)):
        t.order(Cancel(key=work.key))
    t.state.parked, t.state.status, t.state.is_set_aside = t.new_token(), "paused", bool(event.hindrance)
    if event.hindrance:
        t.conclude(Warned(code="set-aside", message=event.hindrance))


def unpark(t: Transition, event: RunResumed) -> None:
    t.state.answered[event.token] = event.input
    t.state.parked, t.state.status, t.state.is_set_aside = "", "running", False
    for owed in [*owed_work(t), *owed_alarms(t)]:
        t.order(owed)


def stay_parked(t: Transition) -> None:
    """The last event of each record of a parked run says that it rests."""
    t.conclude(RunPaused(agent=t.state.agent, token=t.state.parked, reason=rest_reason(t.state)))
    t.effects[:] = [effect for effect in t.effects if not isinstance(effect, _WORK)]
