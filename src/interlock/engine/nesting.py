"""Crews that call crews: children are started, come back, wait for people and are given up.

Rule 1: a child is a run of its own; its caller knows it by the key of the order that started it.
Rule 2: control comes back when all that one reply called are over; what they said is taken in file order.
Rule 3: what is left of the caller's own bounds on calls, tokens and cost is shared out before children start, and what
they did not use is the caller's again.
Rule 4: a child's own bound or failure is the caller's to handle; a bound of a caller, reached below, stops the tree.
"""

from collections.abc import Container, Sequence
from itertools import count

from interlock.crew.definition import HistoryShare, Route
from interlock.crew.templates import as_placeholder, fields_of_input, filled
from interlock.engine.bounds import Given
from interlock.engine.budgets import micros
from interlock.engine.effects import StartChild, StopChild
from interlock.engine.events import (
    ChildFinished,
    ChildGoesOn,
    ChildReturned,
    ChildStarted,
    ChildWaits,
    LimitReached,
    Warned,
)
from interlock.engine.moves import Begin, Call, CloseBranch, CrewReturned, Finish, Move
from interlock.engine.phrases import child_error, merged
from interlock.engine.remembering import as_text, keep
from interlock.engine.shortages import stop_for
from interlock.engine.spending import room_left, share_without_room
from interlock.engine.standing import moved
from interlock.engine.state import Calling, Child, Wait
from interlock.engine.transition import Transition
from interlock.ids import child_id, numbered, placed
from interlock.messages.states import Cause

# Which bounds of a run are shared out, and what a run that reaches one is stopped with.
SHARED = ("calls", "tokens", "cost")

NO_HISTORY = HistoryShare()


def call(t: Transition, move: Call) -> Move | None:
    decision = move.decision
    routes = [t.table.route(decision.agent, signal) for signal in decision.calls or (decision.signal,)]
    short = exhausted(t, len(routes))
    if short:
        return out_of_budget(t, short, len(routes))
    texts = [_input(t, route) for route in routes]
    if any(is_too_large(t, text) for text in texts):
        t.conclude(LimitReached(limit="max_input_size_kb"))
        return Finish("stopped", "max_input_size_kb")
    shares = [shared_out(t, route.target_crew, len(routes)) for route in routes]
    calling = t.state.calling = Calling(agent=decision.agent, signal=decision.signal, children=[])
    for route, text, given in zip(routes, texts, shares, strict=True):
        calling.children.append(start_child(t, route.target_crew, text, given, route))
    return None


def is_too_large(t: Transition, text: str) -> bool:
    """A template that repeats its fields could grow from level to level without end."""
    most = t.settings.max_input_size_kb * 1024
    return len(text) > most or (not text.isascii() and len(text.encode("utf-8", "replace")) > most)


def start_child(
    t: Transition,
    crew: str,
    text: str,
    given: tuple[Given, ...],
    route: Route | None = None,
    *,
    message: str = "",
    hops: int = 0,
) -> Child:
    """Without a route it is a member of a group or works on a task, and sees nothing of what was said here."""
    key, share = t.new_key(), route.context if route is not None else NO_HISTORY
    child = Child(
        key=key,
        crew=crew,
        run=child_id(t.state.run, key),
        input=text,
        until=len(t.state.history),
        message=message,
        shows=share.history,
        returns=share.return_history,
        signal=route.signal if route is not None else "",
        hops=hops,
        number=_free_number(t, crew),
        given=given,
    )
    t.conclude(ChildStarted(crew=crew, child=child.run, call=key, input=text, message_id=message))
    t.order(order_for(child))
    return child


def _free_number(t: Transition, crew: str) -> int:
    """The first that no run of the same crew has that is under way."""
    taken = [child.number for child in t.children() if child.crew == crew]
    return next(number for number in count(1) if number not in taken)


def order_for(child: Child) -> StartChild:
    return StartChild(
        key=child.key,
        crew=child.crew,
        child=child.run,
        input=child.input,
        until=child.until,
        history=child.shows,
        returns=child.returns,
        given=child.given,
        hops=child.hops,
        name=numbered(child.crew, child.number),
    )


def _input(t: Transition, route: Route) -> str:
    if not route.input_template:
        return t.state.input
    state = t.state
    fields = {"Input": state.input, "OriginalInput": state.original_input, "PreviousResult": state.last_result}

    def value_of(field: str, key: str) -> str:
        if field == "PreviousResults":
            return state.results.get(key, "")
        if field == "SharedMemory":
            return as_text(state.memory.get(key, ""))
        return fields[field]

    if t.state.rules >= 3:
        _warn_of_unfilled(t, route)
    return filled(route.input_template, value_of)


def _warn_of_unfilled(t: Transition, route: Route) -> None:
    """Names every field that nothing has filled yet; the sub-crew gets an empty text in its place."""
    has: dict[str, Container[str]] = {
        "PreviousResult": ("",) if t.state.last_result else (),
        "PreviousResults": t.state.results,
        "SharedMemory": t.state.memory,
    }
    for field, key in dict.fromkeys(fields_of_input(route.input_template)):
        if key not in has.get(field, (key,)):
            message = f"{as_placeholder(field, key)} in the input_template of {route.signal} has no value"
            t.conclude(
                Warned(code="unfilled-field", message=f"{message}; {route.target_crew} gets nothing in its place")
            )


# Sharing out


def exhausted(t: Transition, sharers: int, bounds: Sequence[str] = SHARED) -> Given | None:
    """The first bound of which there is not enough left for so many; also those of callers."""
    return next((left for left in _left(t) if left.what in bounds and left.most < sharers), None)


def shared_out(t: Transition, crew: str, sharers: int) -> tuple[Given, ...]:
    """An equal part of what is left, and no more than the child may use anyway."""
    caps = t.crew.sub_crews[crew].settings
    most = {"calls": caps.max_calls_per_run, "tokens": caps.max_tokens_per_run, "cost": _micros(caps.max_cost_per_run)}
    shares = []
    for left in _left(t):
        cap, share = most[left.what], left.most // sharers
        shares.append(Given(what=left.what, most=share if cap is None else min(share, cap), above=left.above + 1))
    return tuple(shares)


def _left(t: Transition) -> list[Given]:
    """What is left of each bound of this run, the tightest of its own and its callers'."""
    return [left for what in SHARED if (left := room_left(t, what)) is not None]


def _micros(dollars: float | None) -> int | None:
    return None if dollars is None else micros(dollars)


def out_of_budget(t: Transition, short: Given, sharers: int) -> Finish:
    return stop_for(t, share_without_room(t, short.what, sharers))


# Coming back


def child_returned(t: Transition, event: ChildReturned) -> Move | None:
    child = t.child_with(event.call)
    t.state.usage += event.usage
    if child is None:
        return _has_left(t, event)
    _go_on(t, child)
    t.conclude(ChildFinished(crew=child.crew, child=child.run, status=event.status, reason=event.reason))
    branch, task = t.branch_with(child), t.task_with(child)
    child.given = ()
    child.status = "ok" if event.status == "completed" else "failed"
    if event.above:
        t.conclude(LimitReached(limit=event.reason, message=event.detail))
        return Finish("stopped", event.reason, event.above - 1, event.detail)
    child.text, child.memory, child.history = event.text, event.memory, event.history
    if child.status == "failed":
        child.text, child.memory = child_error(t.crew, child.crew, event.status, event.reason), {}
    _count_calls(t, child, event.calls)
    if branch is not None:
        branch.reply = child.text
        return CloseBranch(branch, child.status, child.text if child.status == "failed" else "")
    return CrewReturned(task, event) if task is not None else _after_child(t, child)


def _count_calls(t: Transition, child: Child, calls: dict[str, int]) -> None:
    """Its agents go on counting when it is called again."""
    for agent, made in calls.items():
        name = placed((numbered(child.crew, child.number),), agent)
        t.state.calls[name] = max(made, t.state.calls.get(name, 0))


def _has_left(t: Transition, event: ChildReturned) -> Move | None:
    """It was given up before; what it cost still counts. The last one ends a run that waits for nothing else."""
    child = next(each for each in t.state.leaving if each.key == event.call)
    t.state.leaving.remove(child)
    _count_calls(t, child, event.calls)
    t.conclude(ChildFinished(crew=child.crew, child=child.run, status=event.status, reason=event.reason))
    ending = t.state.ending
    if ending is None or t.state.leaving:
        return None
    return Finish(ending.status, ending.reason, ending.above, ending.detail)


def _after_child(t: Transition, child: Child) -> Move | None:
    calling = t.state.calling
    assert calling is not None, "a child that is no member's was called"
    if child.status == "failed" and t.table.route(calling.agent, child.signal).on_error == "fail":
        return Finish("failed", "child_failed")
    if any(each.status in ("working", "waiting") for each in calling.children):
        return None
    return _come_back(t, calling)


def _come_back(t: Transition, calling: Calling) -> Move:
    t.state.calling = None
    children = calling.children
    take_results(t, children)
    alone = len(children) == 1
    said = merged("result", [(child.crew, child.text) for child in children])
    text, frames = (children[0].text, ()) if alone else (said.text, said.frames)
    t.state.last_result = t.state.output = text
    t.remember("user", children[0].crew if alone else "system", text, t.state.turns, frames)
    return Begin(_goes_on_at(t, calling))


def _goes_on_at(t: Transition, calling: Calling) -> str:
    """Where the first that failed says, else where the winner does."""
    for child in calling.children:
        on_error = t.table.route(calling.agent, child.signal).on_error
        if child.status == "failed" and on_error != "return":
            return on_error
    return t.table.route(calling.agent, calling.signal).return_to or calling.agent


def take_results(t: Transition, children: Sequence[Child]) -> None:
    """What children said and wrote, in file order."""
    for child in children:
        if child.status == "ok":
            t.state.results[child.crew] = child.text
        t.state.history += child.history
    _take_memory(t, children)


def _take_memory(t: Transition, children: Sequence[Child]) -> None:
    writers: dict[str, Child] = {}
    for child in children:
        for key, value in sorted(child.memory.items()):  # the journal keeps no order of keys
            before = writers.get(key)
            if before is not None and before.memory[key] != value:
                message = f"{before.crew} and {child.crew} wrote '{key}' differently; what {child.crew} wrote counts"
                t.conclude(Warned(code="memory-conflict", message=message))
            writers[key] = child
            keep(t, key, value, by=child.crew)


# Waiting


def child_waits(t: Transition, event: ChildWaits) -> None:
    """Its waits are open here too: an answer to one of them goes to the child."""
    child = t.child_with(event.call)
    assert child is not None, "stale news is turned away before"
    task = t.task_with(child)
    if task is not None and child.status == "working":
        moved(t, task.worker, Cause.REQUEST_USER_INPUT)
    child.status = "waiting"
    _close_waits(t, child)
    turn = task.parent if task is not None else t.state.turns
    for wait in event.waits:
        agent = f"{child.crew}/{wait.agent}"
        t.state.waits.append(Wait(token=wait.token, reason=wait.reason, agent=agent, turn=turn, child=child.key))


def child_goes_on(t: Transition, event: ChildGoesOn) -> None:
    child = t.child_with(event.call)
    assert child is not None, "stale news is turned away before"
    _go_on(t, child)


def _go_on(t: Transition, child: Child) -> None:
    """It waits for nobody any more."""
    task = t.task_with(child)
    if task is not None and child.status == "waiting":
        moved(t, task.worker, Cause.USER_RESPONSE)
    child.status = "working"
    _close_waits(t, child)
    t.go_on()


def is_old_news(t: Transition, event: ChildReturned | ChildWaits | ChildGoesOn) -> bool:
    """Whether the child is over already, or goes on anyway."""
    child = t.child_with(event.call)
    if isinstance(event, ChildReturned):
        return child is None and event.call not in [leaving.key for leaving in t.state.leaving]
    return child is None or (isinstance(event, ChildGoesOn) and child.status == "working")


def stop_child(t: Transition, child: Child) -> None:
    """What it has cost by then is told when it has stopped."""
    child.status = "cancelled"
    t.state.leaving.append(child)
    t.order(StopChild(key=child.key, child=child.run))
    _close_waits(t, child)


def _close_waits(t: Transition, child: Child) -> None:
    t.state.waits = [wait for wait in t.state.waits if wait.child != child.key]
