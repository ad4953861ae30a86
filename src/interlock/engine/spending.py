"""Budgets within a run: room for a call, what it cost, and what is given back."""

import msgspec

from interlock.engine.bounds import WAIT, WARN, Given
from interlock.engine.budgets import CallBound, fits, micros
from interlock.engine.effects import MailRead, Settle
from interlock.engine.events import NO_USAGE, Reserved, Usage, Warned
from interlock.engine.shortages import Shortage, amount, owner_named_in, owner_of
from interlock.engine.state import Turn
from interlock.engine.timing import BUDGET, start_timer
from interlock.engine.transition import Transition
from interlock.engine.unanswered import give_up_call

_PER_RUN = {what: f"max_{what}_per_run" for what in ("calls", "tokens", "cost")}


def account_for(t: Transition, turn: Turn, usage: Usage, *, failed: bool = False) -> None:
    """A call is over: what it cost counts from now on, in place of what was held for it."""
    before = t.state.usage
    t.state.usage = before.with_call(usage)
    if turn.reserved:
        model = t.budgets.of(turn.agent).agent.model(backup=turn.backup)
        server = model.server if model is not None else ""
        whole = NO_USAGE.with_call(usage)
        t.order(Settle(key=turn.reserved, agent=turn.agent, usage=whole, failed=failed, provider=server))
        _warn(t, turn, before.cost_micros, usage)
        _let_go(turn)
    if usage.unpriced_calls:
        _warn_of_unknown_price(t, turn)


def abandon_call(t: Transition, turn: Turn) -> None:
    """Nobody waits for the call any more. What it cost will never be known, so what was held for it counts."""
    give_up_call(t, turn)
    if turn.taking:
        t.order(MailRead(key=turn.taking, put_back=True))
        turn.taking = ""
    if turn.reserving:
        if t.give_up(turn.reserving):
            t.order(Settle(key=turn.reserving, agent=turn.agent, usage=NO_USAGE))
        turn.reserving = ""
    if turn.reserved:
        t.order(Settle(key=turn.reserved, agent=turn.agent, usage=None))
        _let_go(turn)


def give_back(t: Transition, turn: Turn, event: Reserved) -> None:
    """The call is not made after all."""
    t.order(Settle(key=event.call, agent=turn.agent, usage=NO_USAGE))


def wait_for_window(t: Transition, turn: Turn, event: Reserved) -> None:
    t.conclude(
        Warned(
            code="budget-wait",
            message=f"{turn.agent} waits {event.wait_ms / 1000:g} s for the next window of {event.refused}",
        )
    )
    start_timer(t, f"{BUDGET}{turn.number}", event.wait_ms)


def say_alerts(t: Transition, turn: Turn, event: Reserved) -> None:
    for name in event.alerts:
        t.conclude(Warned(code="budget-alert", message=f"a call of {turn.agent} takes {name} beyond its alert"))
    for name in event.exceeded:
        message = f"a call of {turn.agent} goes beyond {name}, which only warns"
        t.conclude(Warned(code="budget-exceeded", message=message))


def is_to_wait(event: Reserved) -> bool:
    return event.then == WAIT


def window_without_room(t: Transition, turn: Turn, event: Reserved) -> Shortage:
    """The limit for which the store has refused a call."""
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


def bound_without_room(t: Transition, turn: Turn, event: Reserved) -> Shortage | None:
    """The first bound of a call or of the run that the estimate does not fit."""
    estimates = {"tokens": event.tokens, "cost": event.cost_micros}
    for bound in t.budgets.of(turn.agent).of_call:
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
        tightest = _tightest(t, what)
        if tightest is not None and not fits(tightest.most, _used(t, what), estimate):
            return _run_shortage(t, tightest, turn.agent, estimate)
    return None


def _only_warns(t: Transition, bound: CallBound) -> bool:
    """Before rules 3 such a bound stopped the run as well."""
    return bound.then == WARN and t.state.rules >= 3


def warn_of_large_call(t: Transition, turn: Turn, event: Reserved) -> None:
    """A call that is made although it shows more than a bound that only warns."""
    estimates = {"tokens": event.tokens, "cost": event.cost_micros}
    for bound in t.budgets.of(turn.agent).of_call:
        size = estimates[bound.what]
        if size > bound.most and _only_warns(t, bound):
            limit = f"{bound.name} of agent '{bound.scope}' is {amount(bound.most, bound.what)}"
            message = f"{limit}; this call needs about {amount(size, bound.what)} and is made, because it only warns"
            t.conclude(Warned(code="budget-exceeded", message=message))


def call_without_room(t: Transition, agent: str) -> Shortage | None:
    """The bound on calls of a run, if no further one may be made."""
    tightest = _tightest(t, "calls")
    if tightest is None or tightest.most - _used(t, "calls") >= 1:
        return None
    return _run_shortage(t, tightest, agent, 1)


def share_without_room(t: Transition, what: str, sharers: int) -> Shortage:
    """The bound of the run of which too little is left for so many runs or members."""
    tightest = _tightest(t, what)
    assert tightest is not None, "a bound that is short is there"
    return _run_shortage(t, tightest, "", sharers)


def _run_shortage(t: Transition, bound: Given, agent: str, call: int) -> Shortage:
    return Shortage(
        limit=f"max_{bound.what}_per_run",
        what=bound.what,
        whose=f"crew '{bound.crew}'" if bound.crew else owner_of(t, bound.above),
        most=bound.most,
        whole=bound.whole,
        given_to=t.crew.name if bound.above and bound.crew else "",
        used=_used(t, bound.what),
        agent=agent,
        call=call,
        above=bound.above,
    )


def room_left(t: Transition, what: str) -> Given | None:
    """What is left of the run's bound on calls, tokens or cost: its own or a caller's, whichever is tighter."""
    tightest = _tightest(t, what)
    return msgspec.structs.replace(tightest, most=tightest.most - _used(t, what)) if tightest is not None else None


def _tightest(t: Transition, what: str) -> Given | None:
    """Of two that are equal its own, which is a caller's to handle and stops nobody else."""
    most = getattr(t.settings, _PER_RUN[what])
    if most is None and not t.state.bounds.given:
        return None
    bounds = [given for given in t.state.bounds.given if given.what == what]
    if most is not None:
        size = micros(most) if what == "cost" else most
        bounds.insert(0, Given(what=what, most=size, above=0, crew=t.crew.name, whole=size))
    return min(bounds, key=lambda bound: bound.most, default=None)


def _used(t: Transition, what: str) -> int:
    """What is spent, what calls under way hold, and what is reserved for children. A call counts while it is made."""
    turns, usage = t.turns(), t.state.usage
    given = sum(g.most for child in (*t.children(), *t.state.leaving) for g in child.given if g.what == what)
    if what == "tokens":
        return usage.tokens + sum(turn.held_tokens for turn in turns) + given
    if what == "cost":
        return usage.cost_micros + sum(turn.held_micros for turn in turns) + given
    return usage.calls + sum(bool(turn.call or turn.reserving) for turn in turns) + given


def _let_go(turn: Turn) -> None:
    turn.reserved, turn.held_tokens, turn.held_micros = "", 0, 0


def _warn(t: Transition, turn: Turn, cost_before: int, usage: Usage) -> None:
    """What is known only afterwards: a call beyond its bound, a run beyond the share that somebody asked about."""
    for bound in t.budgets.of(turn.agent).of_call:
        used = usage.tokens if bound.what == "tokens" else usage.cost_micros
        shown = turn.held_tokens if bound.what == "tokens" else turn.held_micros
        if used > bound.most >= shown:  # a call that showed more was warned of when it was made
            t.conclude(Warned(code="budget-exceeded", message=f"a call of {turn.agent} went beyond {bound.name}"))
    most, share = t.settings.max_cost_per_run, t.settings.cost_alert_threshold
    if most is not None and share is not None and cost_before < micros(most * share) <= t.state.usage.cost_micros:
        t.conclude(Warned(code="budget-alert", message=f"{share:.0%} of max_cost_per_run is used"))


def _warn_of_unknown_price(t: Transition, turn: Turn) -> None:
    """A limit in dollars does not hold for a call that cannot be priced; said once for each agent of a run."""
    if t.state.rules < 3 or turn.agent in t.state.unpriced:
        return
    limit = t.budgets.of(turn.agent).cost_limit or ("max_cost_per_run" if _tightest(t, "cost") is not None else "")
    if limit:
        t.state.unpriced.append(turn.agent)
        message = (
            f"{limit} cannot count a call of {turn.agent}: its price is unknown; write its prices, 0 if it is free"
        )
        t.conclude(Warned(code="unpriced-call", message=message))
