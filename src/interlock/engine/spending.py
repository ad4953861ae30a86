"""Budgets within a run: room for a call, what it cost, and what is given back."""

from typing import NamedTuple

import msgspec

from interlock.engine.bounds import WAIT, Given
from interlock.engine.budgets import fits, micros
from interlock.engine.effects import MailRead, Settle
from interlock.engine.events import NO_USAGE, Reserved, Usage, Warned
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
        _let_go(turn)
        _warn(t, turn, before.cost_micros, usage)


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


def is_to_wait(event: Reserved) -> bool:
    return event.then == WAIT


class Short(NamedTuple):
    """A bound that has no room, what it is on, and whose it is."""

    limit: str
    what: str
    above: int = 0


def bound_without_room(t: Transition, turn: Turn, event: Reserved) -> Short | None:
    """The first bound of a call or of the run that the estimate does not fit."""
    for bound in t.budgets.of(turn.agent).of_call:
        estimate = event.tokens if bound.what == "tokens" else event.cost_micros
        if estimate > bound.most:
            return Short(bound.name, bound.what)
    for what, estimate in (("tokens", event.tokens), ("cost", event.cost_micros)):
        tightest = _tightest(t, what)
        if tightest is not None and not fits(tightest.most, _used(t, what), estimate):
            return Short(f"max_{what}_per_run", what, tightest.above)
    return None


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
        bounds.insert(0, Given(what=what, most=micros(most) if what == "cost" else most, above=0))
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
        if used > bound.most:
            t.conclude(Warned(code="budget-exceeded", message=f"a call of {turn.agent} went beyond {bound.name}"))
    most, share = t.settings.max_cost_per_run, t.settings.cost_alert_threshold
    if most is not None and share is not None and cost_before < micros(most * share) <= t.state.usage.cost_micros:
        t.conclude(Warned(code="budget-alert", message=f"{share:.0%} of max_cost_per_run is used"))
