"""Budgets within a run: reserving room for a call, settling its cost, releasing the rest."""

import msgspec

from interlock.engine.budgets.inherited_limits import WAIT, WARN, Allowance
from interlock.engine.budgets.limits import CallBound, has_room, micros
from interlock.engine.budgets.shortages import Shortage, amount_text, owner_named_in, owner_of
from interlock.engine.effects import AckInbox, ReserveAgain, Settle
from interlock.engine.events import NO_USAGE, Reserved, Usage, Warned
from interlock.engine.kinds import TimerKind
from interlock.engine.state import Turn
from interlock.engine.timers import start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns.unanswered import cancel_model_call

_PER_RUN = {what: f"max_{what}_per_run" for what in ("calls", "tokens", "cost")}


def settle_reservation(t: Transition, turn: Turn, usage: Usage, before: Usage, *, failed: bool) -> None:
    """Settles a call that is over: its cost replaces the reserved estimate. `before` is the run's usage without it."""
    model = t.budgets[turn.agent].agent.model(backup=turn.backup)
    server = model.server if model is not None else ""
    whole = msgspec.structs.replace(usage, calls=usage.calls + 1)
    t.emit(Settle(key=turn.reserved, agent=turn.agent, usage=whole, failed=failed, provider=server))
    _warn_after_call(t, turn, before.cost_micros, usage)
    _clear_reservation(turn)


def count_lost_call(t: Transition, turn: Turn, before: Usage) -> None:
    """Settles a try that was lost with its process at its estimate, and reserves as much for the next try."""
    if turn.reserved:
        t.emit(Settle(key=turn.reserved, agent=turn.agent, usage=None))
        turn.reserved = t.new_key()
        held = {"tokens": turn.held_tokens, "cost_micros": turn.held_micros}
        t.emit(ReserveAgain(key=turn.reserved, agent=turn.agent, **held))
    _warn_of_run_cost(t, before.cost_micros)


def cancel_call_and_reservation(t: Transition, turn: Turn) -> None:
    """Cancels a call. Its cost will never be known, so the reserved estimate counts."""
    cancel_model_call(t, turn)
    if turn.taking:
        t.emit(AckInbox(key=turn.taking, put_back=True))
        turn.taking = ""
    if turn.reserving:
        if t.cancel(turn.reserving):
            t.emit(Settle(key=turn.reserving, agent=turn.agent, usage=NO_USAGE))
        turn.reserving = ""
    if turn.reserved:
        t.emit(Settle(key=turn.reserved, agent=turn.agent, usage=None))
        _clear_reservation(turn)


def release_reservation(t: Transition, turn: Turn, event: Reserved) -> None:
    """Releases the reservation of a call that is not made."""
    t.emit(Settle(key=event.call, agent=turn.agent, usage=NO_USAGE))


def wait_for_window(t: Transition, turn: Turn, event: Reserved) -> None:
    t.record(
        Warned(
            code="budget-wait",
            message=f"{turn.agent} waits {event.wait_ms / 1000:g} s for the next window of {event.refused}",
        )
    )
    start_timer(t, TimerKind.BUDGET.of(turn.number), event.wait_ms)


def warn_of_alerts(t: Transition, turn: Turn, event: Reserved) -> None:
    for name in event.alerts:
        t.record(Warned(code="budget-alert", message=f"a call of {turn.agent} takes {name} beyond its alert"))
    for name in event.exceeded:
        message = f"a call of {turn.agent} goes beyond {name}, which only warns"
        t.record(Warned(code="budget-exceeded", message=message))


def is_to_wait(event: Reserved) -> bool:
    return event.then == WAIT


def window_shortage(t: Transition, turn: Turn, event: Reserved) -> Shortage:
    """The limit for which the store refused a call."""
    call = {"calls": 1, "tokens": event.tokens, "cost": event.cost_micros, "errors": 0}[event.what]
    return Shortage(
        limit=event.refused,
        what=event.what,
        whose=owner_named_in(t, event.refused, event.above),
        most=event.most,
        used=event.used,
        agent=turn.agent,
        call=call,
        above=event.above,
    )


def estimate_shortage(t: Transition, turn: Turn, event: Reserved) -> Shortage | None:
    """The first limit of a call or of the run without room for the estimate."""
    estimates = {"tokens": event.tokens, "cost": event.cost_micros}
    for bound in t.budgets[turn.agent].of_call:
        if estimates[bound.what] > bound.most and not _only_warns(t, bound):
            whose = f"agent '{bound.scope}'" if bound.scope else owner_of(t, 0)
            return Shortage(
                limit=bound.name,
                what=bound.what,
                whose=whose,
                most=bound.most,
                agent=turn.agent,
                call=estimates[bound.what],
            )
    for what, estimate in estimates.items():
        tightest = _tightest_bound(t, what)
        if tightest is not None and not has_room(tightest.most, _amount_used(t, what), estimate):
            return _run_shortage(t, tightest, turn.agent, estimate)
    return None


def _only_warns(t: Transition, bound: CallBound) -> bool:
    """Whether the limit only warns; before rules 3 it stopped the run as well."""
    return bound.then == WARN and t.state.rules >= 3


def warn_of_large_call(t: Transition, turn: Turn, event: Reserved) -> None:
    """Warns of a call that is made although its prompt exceeds a limit that only warns."""
    estimates = {"tokens": event.tokens, "cost": event.cost_micros}
    for bound in t.budgets[turn.agent].of_call:
        size = estimates[bound.what]
        if size > bound.most and _only_warns(t, bound):
            limit = f"{bound.name} of agent '{bound.scope}' is {amount_text(bound.most, bound.what)}"
            message = (
                f"{limit}; this call needs about {amount_text(size, bound.what)} and is made, because it only warns"
            )
            t.record(Warned(code="budget-exceeded", message=message))


def call_shortage(t: Transition, agent: str) -> Shortage | None:
    """The limit on calls of a run, if no call is left."""
    tightest = _tightest_bound(t, "calls")
    if tightest is None or tightest.most - _amount_used(t, "calls") >= 1:
        return None
    return _run_shortage(t, tightest, agent, 1)


def share_shortage(t: Transition, what: str, sharers: int) -> Shortage:
    """The limit of the run with too little left for so many runs or members."""
    tightest = _tightest_bound(t, what)
    assert tightest is not None, "a shortage has a limit"
    return _run_shortage(t, tightest, "", sharers)


def _run_shortage(t: Transition, bound: Allowance, agent: str, call: int) -> Shortage:
    return Shortage(
        limit=f"max_{bound.what}_per_run",
        what=bound.what,
        whose=f"crew '{bound.crew}'" if bound.crew else owner_of(t, bound.above),
        most=bound.most,
        whole=bound.whole,
        given_to=t.crew.name if bound.above and bound.crew else "",
        used=_amount_used(t, bound.what),
        agent=agent,
        call=call,
        above=bound.above,
    )


def remaining_allowance(t: Transition, what: str) -> Allowance | None:
    """The rest of the run's limit on calls, tokens or cost: its own or a caller's, whichever is tighter."""
    tightest = _tightest_bound(t, what)
    return (
        msgspec.structs.replace(tightest, most=tightest.most - _amount_used(t, what)) if tightest is not None else None
    )


def _tightest_bound(t: Transition, what: str) -> Allowance | None:
    """The tightest limit; of two equal ones the run's own, which does not stop its callers."""
    most = getattr(t.settings, _PER_RUN[what])
    if most is None and not t.state.bounds.given:
        return None
    bounds = [given for given in t.state.bounds.given if given.what == what]
    if most is not None:
        size = micros(most) if what == "cost" else most
        bounds.insert(0, Allowance(what=what, most=size, above=0, crew=t.crew.name, whole=size))
    return min(bounds, key=lambda bound: bound.most, default=None)


def _amount_used(t: Transition, what: str) -> int:
    """The amount spent, held by calls in progress, and reserved for children."""
    turns, usage = t.turns(), t.state.usage
    given = sum(g.most for child in (*t.children(), *t.state.leaving) for g in child.given if g.what == what)
    if what == "tokens":
        return usage.tokens + sum(turn.held_tokens for turn in turns) + given
    if what == "cost":
        return usage.cost_micros + sum(turn.held_micros for turn in turns) + given
    return usage.calls + sum(bool(turn.call or turn.reserving) for turn in turns) + given


def _clear_reservation(turn: Turn) -> None:
    turn.reserved, turn.held_tokens, turn.held_micros = "", 0, 0


def _warn_after_call(t: Transition, turn: Turn, cost_before: int, usage: Usage) -> None:
    """Warns of a call that exceeded its limit, and of a run beyond its alert threshold."""
    for bound in t.budgets[turn.agent].of_call:
        used = usage.tokens if bound.what == "tokens" else usage.cost_micros
        shown = turn.held_tokens if bound.what == "tokens" else turn.held_micros
        if used > bound.most >= shown:  # a larger prompt had its warning before the call
            t.record(Warned(code="budget-exceeded", message=f"a call of {turn.agent} went beyond {bound.name}"))
    _warn_of_run_cost(t, cost_before)


def _warn_of_run_cost(t: Transition, cost_before: int) -> None:
    most, share = t.settings.max_cost_per_run, t.settings.cost_alert_threshold
    if most is not None and share is not None and cost_before < micros(most * share) <= t.state.usage.cost_micros:
        t.record(Warned(code="budget-alert", message=f"{share:.0%} of max_cost_per_run is used"))


def warn_of_unknown_price(t: Transition, turn: Turn) -> None:
    """Warns once per agent that a limit in dollars cannot count calls of unknown price."""
    if t.state.rules < 3 or turn.agent in t.state.unpriced:
        return
    limit = t.budgets[turn.agent].cost_limit or ("max_cost_per_run" if _tightest_bound(t, "cost") is not None else "")
    if limit:
        t.state.unpriced.append(turn.agent)
        message = (
            f"{limit} cannot count a call of {turn.agent}: its price is unknown; write its prices, 0 if it is free"
        )
        t.record(Warned(code="unpriced-call", message=message))
