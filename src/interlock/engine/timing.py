"""Bounds on working time. A timer stands still while the run is paused, a group's while a member waits, and that of
a reply's tools while a person is asked about one of them, that of a message while the other side waits for one.

Rule 1: what is bounded has one timer, by purpose: the run, the group, a message, a turn's next try, tools, budget.
Rule 2: rules start and drop timers; `keep_time` alone orders the driver to set them or give them up.
"""

from interlock.engine.effects import SetTimer
from interlock.engine.state import Timer
from interlock.engine.transition import Transition

RUN, GROUP, WARNING, RETRY, TOOLS, BUDGET = "run", "group", "warning", "retry:", "tools:", "budget:"
# Of messages: until somebody takes it up, until it is answered.
ACK, ANSWER = "ack:", "answer:"

# What a turn may be waiting for.
OF_TURNS = (RETRY, TOOLS, BUDGET)


def start_timer(t: Transition, purpose: str, milliseconds: int) -> None:
    t.state.timers[purpose] = Timer(left_ms=max(milliseconds, 0))
    t.timers_changed = True


def drop_timer(t: Transition, purpose: str) -> None:
    timer = t.state.timers.pop(purpose, None)
    if timer is not None:
        t.give_up(timer.key)


def keep_time(t: Transition) -> None:
    """Lets every timer run, or stand still, as the state asks for now."""
    for purpose, timer in t.state.timers.items():
        if _should_run(t, purpose) and not timer.key:
            timer.key, timer.since_ms = t.new_key(), t.state.worked_ms
            t.order(SetTimer(key=timer.key, duration_ms=timer.left_ms))
        elif timer.key and not _should_run(t, purpose):
            t.give_up(timer.key)
            timer.left_ms = left(t, timer)
            timer.key = ""


def left(t: Transition, timer: Timer) -> int:
    return max(0, timer.left_ms - (t.state.worked_ms - timer.since_ms)) if timer.key else timer.left_ms


def purpose_of(t: Transition, key: str) -> str | None:
    return next((purpose for purpose, timer in t.state.timers.items() if timer.key == key), None)


def _should_run(t: Transition, purpose: str) -> bool:
    if t.state.status != "running":
        return False
    if purpose == GROUP:
        return not t.state.waits
    if purpose.startswith(ANSWER):
        return not t.state.waits or not _waits_for_person(t, purpose.removeprefix(ANSWER))
    return purpose not in [f"{TOOLS}{wait.turn}" for wait in t.state.waits if wait.tool]


def _waits_for_person(t: Transition, message: str) -> bool:
    """Whether whoever is to answer this message, or somebody who works for it, waits for a person."""
    asked = next((box.sent[message].message for box in t.state.mailboxes.values() if message in box.sent), None)
    if asked is None:
        return False
    if asked.addressee in t.crew.sub_crews:
        return any(child.message == message and child.status == "waiting" for child in t.children())
    parents = {task.turn.number: task.parent for task in t.state.tasks if task.turn is not None}
    theirs = [turn.number for turn in t.turns() if turn.agent == asked.addressee]
    return any(_is_below(wait.turn, theirs, parents) for wait in t.state.waits)


def _is_below(number: int, ancestors: list[int], parents: dict[int, int]) -> bool:
    while number not in ancestors and number in parents:
        number = parents[number]
    return number in ancestors
