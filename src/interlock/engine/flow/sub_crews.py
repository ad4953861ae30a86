"""Sub-crews: child runs start, return, wait for people and are cancelled.

Rule 1: a child is a separate run; its caller knows it by the key of the effect that started it.
Rule 2: control returns when all sub-crews that one reply called are over; their results are merged in file order.
Rule 3: the rest of the caller's budget of calls, tokens and cost is shared before children start; they return what they
do not use.
Rule 4: the caller handles a child's own limit or failure; a limit of a caller that is reached below stops the tree.
"""

from collections.abc import Container, Sequence
from itertools import count

import msgspec

from interlock.crew.definition import HistoryShare, RouteDefinition
from interlock.crew.templates import as_placeholder, fields_of_input, fill_template, result_field
from interlock.engine.budgets.inherited_limits import Allowance
from interlock.engine.budgets.limits import micros
from interlock.engine.budgets.shortages import stop_at_limit
from interlock.engine.budgets.spending import remaining_allowance, share_shortage
from interlock.engine.delegation.agent_states import set_agent_state
from interlock.engine.effects import StartChild, StopChild
from interlock.engine.events import (
    ChildContinues,
    ChildFinished,
    ChildReturned,
    ChildStarted,
    ChildWaits,
    LimitReached,
    Warned,
)
from interlock.engine.kinds import OPEN, RunStatus, WorkStatus
from interlock.engine.prompt.phrases import child_error, merge_replies
from interlock.engine.shared_memory import as_text, store_value
from interlock.engine.stages import CallSubCrews, CloseBranch, FinishRun, ReportCrewResult, Stage, StartTurn
from interlock.engine.state import ChildRun, SubCrewCalls, Wait
from interlock.engine.transition import Transition
from interlock.ids import child_id, full_name, with_number
from interlock.messages.frames import Frame
from interlock.messages.reading import read_json
from interlock.messages.states import Cause

# The bounds of a run that are shared among children.
SHARED = ("calls", "tokens", "cost")

NO_HISTORY = HistoryShare()


def call_sub_crews(t: Transition, stage: CallSubCrews) -> Stage | None:
    decision = stage.decision
    routes = [t.table.route(decision.agent, signal) for signal in decision.calls or (decision.signal,)]
    short = first_exhausted_bound(t, len(routes))
    if short:
        return stop_for_shortage(t, short, len(routes))
    texts = [_child_input(t, route) for route in routes]
    if any(is_too_large(t, text) for text in texts):
        t.record(LimitReached(limit="max_input_size_kb"))
        return FinishRun(RunStatus.STOPPED, "max_input_size_kb")
    shares = [allowances_for_child(t, route.target_crew, len(routes)) for route in routes]
    calling = t.state.calling = SubCrewCalls(agent=decision.agent, signal=decision.signal, children=[])
    for route, text, given in zip(routes, texts, shares, strict=True):
        calling.children.append(start_child(t, route.target_crew, text, given, route))
    return None


def is_too_large(t: Transition, text: str) -> bool:
    """Whether an input is too large: a template that repeats its fields could grow with every level."""
    most = t.settings.max_input_size_kb * 1024
    return len(text) > most or (not text.isascii() and len(text.encode("utf-8", "replace")) > most)


def start_child(
    t: Transition,
    crew: str,
    text: str,
    given: tuple[Allowance, ...],
    route: RouteDefinition | None = None,
    *,
    message: str = "",
    hops: int = 0,
    frames: tuple[Frame, ...] = (),
) -> ChildRun:
    """Starts a child run. Without a route it is a member of a group or works on a task, and sees no history."""
    key, share = t.new_key(), route.context if route is not None else NO_HISTORY
    child = ChildRun(
        key=key,
        crew=crew,
        run=child_id(t.state.run, key),
        input=text,
        frames=frames,
        until=len(t.state.history),
        message=message,
        shows=share.history,
        returns=share.return_history,
        signal=route.signal if route is not None else "",
        hops=hops,
        number=_free_number(t, crew),
        given=given,
    )
    t.record(ChildStarted(crew=crew, child=child.run, call=key, input=text, message_id=message))
    t.emit(start_child_effect(child))
    return child


def _free_number(t: Transition, crew: str) -> int:
    """The first number that no run of the same crew in progress has."""
    taken = [child.number for child in t.children() if child.crew == crew]
    return next(number for number in count(1) if number not in taken)


def start_child_effect(child: ChildRun) -> StartChild:
    return StartChild(
        key=child.key,
        crew=child.crew,
        child=child.run,
        input=child.input,
        frames=child.frames,
        until=child.until,
        history=child.shows,
        returns=child.returns,
        given=child.given,
        hops=child.hops,
        name=with_number(child.crew, child.number),
    )


def _child_input(t: Transition, route: RouteDefinition) -> str:
    if not route.input_template:
        return t.state.input
    state = t.state
    fields = {"Input": state.input, "OriginalInput": state.original_input, "PreviousResult": state.last_result}

    def value_of(field: str, key: str) -> str:
        if field == "PreviousResults":
            return _result_of(t, key)
        if field == "SharedMemory":
            return as_text(state.memory.get(key, ""))
        return fields[field]

    if t.state.rules >= 3:
        _warn_of_unfilled(t, route)
    return fill_template(route.input_template, value_of)


def _result_of(t: Transition, key: str) -> str:
    """The result of a sub-crew, or a part of its typed output; empty if there is none."""
    crew, part = result_field(key, tuple(t.crew.sub_crews))
    text = t.state.results.get(crew, t.state.results.get(key, ""))
    return _part_of(text, part) if part and text else text


def _part_of(text: str, part: Sequence[str]) -> str:
    try:
        value = read_json(text)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    for name in part:
        value = value.get(name, "") if isinstance(value, dict) else ""
    return as_text(value)


def _warn_of_unfilled(t: Transition, route: RouteDefinition) -> None:
    """Warns of every field without a value; the sub-crew gets an empty text in its place."""
    has: dict[str, Container[str]] = {
        "PreviousResult": ("",) if t.state.last_result else (),
        "PreviousResults": t.state.results,
        "SharedMemory": t.state.memory,
    }
    for field, key in dict.fromkeys(fields_of_input(route.input_template)):
        if not (field == "PreviousResults" and _result_of(t, key)) and key not in has.get(field, (key,)):
            message = f"{as_placeholder(field, key)} in the input_template of {route.signal} has no value"
            t.record(Warned(code="unfilled-field", message=f"{message}; {route.target_crew} gets nothing in its place"))


def first_exhausted_bound(t: Transition, sharers: int, bounds: Sequence[str] = SHARED) -> Allowance | None:
    """The first bound, own or inherited, with too little left for so many."""
    return next((left for left in _remaining_allowances(t) if left.what in bounds and left.most < sharers), None)


def allowances_for_child(t: Transition, crew: str, sharers: int) -> tuple[Allowance, ...]:
    """An equal share of what is left, within the child's own caps."""
    caps = t.crew.sub_crews[crew].settings
    most = {"calls": caps.max_calls_per_run, "tokens": caps.max_tokens_per_run, "cost": _micros(caps.max_cost_per_run)}
    shares = []
    for left in _remaining_allowances(t):
        cap, share = most[left.what], left.most // sharers
        named = {"crew": left.crew, "whole": left.whole} if t.state.rules >= 3 else {"crew": "", "whole": 0}
        size = share if cap is None else min(share, cap)
        shares.append(msgspec.structs.replace(left, most=size, above=left.above + 1, **named))
    return tuple(shares)


def _remaining_allowances(t: Transition) -> list[Allowance]:
    """The rest of each bound of this run: its own or a caller's, whichever is tighter."""
    return [left for what in SHARED if (left := remaining_allowance(t, what)) is not None]


def _micros(dollars: float | None) -> int | None:
    return None if dollars is None else micros(dollars)


def stop_for_shortage(t: Transition, short: Allowance, sharers: int) -> FinishRun:
    return stop_at_limit(t, share_shortage(t, short.what, sharers))


def on_child_returned(t: Transition, event: ChildReturned) -> Stage | None:
    child = t.child_with(event.call)
    t.state.usage += event.usage
    if child is None:
        return _on_stopped_child_returned(t, event)
    _mark_working(t, child)
    t.record(ChildFinished(crew=child.crew, child=child.run, status=event.status, reason=event.reason))
    branch, task = t.branch_with(child), t.task_with(child)
    child.given = ()
    child.status = WorkStatus.OK if event.status == RunStatus.COMPLETED else WorkStatus.FAILED
    if event.above:
        t.record(LimitReached(limit=event.reason, message=event.detail))
        return FinishRun(RunStatus.STOPPED, event.reason, event.above - 1, event.detail)
    child.text, child.memory, child.history = event.text, event.memory, event.history
    if child.status is WorkStatus.FAILED:
        child.text, child.memory = child_error(t.crew, child.crew, event.status, event.reason), {}
    _count_calls(t, child, event.calls)
    if branch is not None:
        branch.reply = child.text
        return CloseBranch(branch, child.status, child.text if child.status is WorkStatus.FAILED else "")
    return ReportCrewResult(task, event) if task is not None else _move_after_child(t, child, event.detail)


def _count_calls(t: Transition, child: ChildRun, calls: dict[str, int]) -> None:
    """Keeps the call numbers of its agents, which continue when it is called again."""
    for agent, made in calls.items():
        name = full_name((with_number(child.crew, child.number),), agent)
        t.state.calls[name] = max(made, t.state.calls.get(name, 0))


def _on_stopped_child_returned(t: Transition, event: ChildReturned) -> Stage | None:
    """Counts the cost of a cancelled child; the last one ends a run that is ending."""
    child = next(each for each in t.state.leaving if each.key == event.call)
    t.state.leaving.remove(child)
    _count_calls(t, child, event.calls)
    t.record(ChildFinished(crew=child.crew, child=child.run, status=event.status, reason=event.reason))
    ending = t.state.ending
    if ending is None or t.state.leaving:
        return None
    return FinishRun(ending.status, ending.reason, ending.above, ending.detail)


def _move_after_child(t: Transition, child: ChildRun, detail: str) -> Stage | None:
    calling = t.state.calling
    assert calling is not None, "a child outside groups and tasks was called by a reply"
    if child.status is WorkStatus.FAILED and t.table.route(calling.agent, child.signal).on_error == "fail":
        return FinishRun(RunStatus.FAILED, "child_failed", detail=detail)
    if any(each.status in OPEN for each in calling.children):
        return None
    return _return_control(t, calling)


def _return_control(t: Transition, calling: SubCrewCalls) -> Stage:
    t.state.calling = None
    children = calling.children
    merge_results(t, children)
    alone = len(children) == 1
    said = merge_replies("result", [(child.crew, child.text) for child in children])
    text, frames = (children[0].text, ()) if alone else (said.text, said.frames)
    t.state.last_result = t.state.output = text
    t.state.value, t.state.value_text = msgspec.UNSET, ""
    t.add_history("user", children[0].crew if alone else "system", text, t.state.turns, frames)
    return StartTurn(_return_agent(t, calling))


def _return_agent(t: Transition, calling: SubCrewCalls) -> str:
    """The agent that continues: as the first failed call says, else as the winning one does."""
    for child in calling.children:
        on_error = t.table.route(calling.agent, child.signal).on_error
        if child.status is WorkStatus.FAILED and on_error != "return":
            return on_error
    return t.table.route(calling.agent, calling.signal).return_to or calling.agent


def merge_results(t: Transition, children: Sequence[ChildRun]) -> None:
    """Merges results, history and memory of children, in file order."""
    for child in children:
        if child.status is WorkStatus.OK:
            t.state.results[child.crew] = child.text
        t.state.history += child.history
    _merge_memory(t, children)


def _merge_memory(t: Transition, children: Sequence[ChildRun]) -> None:
    writers: dict[str, ChildRun] = {}
    for child in children:
        for key, value in sorted(child.memory.items()):  # the journal keeps no order of keys
            before = writers.get(key)
            if before is not None and before.memory[key] != value:
                message = f"{before.crew} and {child.crew} wrote '{key}' differently; what {child.crew} wrote counts"
                t.record(Warned(code="memory-conflict", message=message))
            writers[key] = child
            store_value(t, key, value, by=child.crew)


def on_child_waits(t: Transition, event: ChildWaits) -> None:
    """Opens the child's waits here too; an answer to one of them goes to the child."""
    child = t.child_with(event.call)
    assert child is not None, "stale events are rejected before"
    task = t.task_with(child)
    if task is not None and child.status is WorkStatus.WORKING:
        set_agent_state(t, task.worker, Cause.REQUEST_USER_INPUT)
    child.status = WorkStatus.WAITING
    _drop_waits(t, child)
    turn = task.parent if task is not None else t.state.turns
    for wait in event.waits:
        agent = f"{child.crew}/{wait.agent}"
        t.state.waits.append(Wait(token=wait.token, reason=wait.reason, agent=agent, turn=turn, child=child.key))


def on_child_continues(t: Transition, event: ChildContinues) -> None:
    child = t.child_with(event.call)
    assert child is not None, "stale events are rejected before"
    _mark_working(t, child)


def _mark_working(t: Transition, child: ChildRun) -> None:
    """Marks the child as working, and closes its waits."""
    task = t.task_with(child)
    if task is not None and child.status is WorkStatus.WAITING:
        set_agent_state(t, task.worker, Cause.USER_RESPONSE)
    child.status = WorkStatus.WORKING
    _drop_waits(t, child)
    t.mark_running()


def is_stale_child_event(t: Transition, event: ChildReturned | ChildWaits | ChildContinues) -> bool:
    """Whether the child is over, or is working anyway."""
    child = t.child_with(event.call)
    if isinstance(event, ChildReturned):
        return child is None and event.call not in [leaving.key for leaving in t.state.leaving]
    return child is None or (isinstance(event, ChildContinues) and child.status is WorkStatus.WORKING)


def stop_child(t: Transition, child: ChildRun) -> None:
    """Cancels a child; its cost counts when it has stopped."""
    child.status = WorkStatus.CANCELLED
    t.state.leaving.append(child)
    t.emit(StopChild(key=child.key, child=child.run))
    _drop_waits(t, child)


def _drop_waits(t: Transition, child: ChildRun) -> None:
    t.state.waits = [wait for wait in t.state.waits if wait.child != child.key]
