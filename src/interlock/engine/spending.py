"""Budgets within a run: room for a call, what it cost, and what is given back."""

from interlock.engine.budgets import WAIT, fits, micros
from interlock.engine.effects import Settle
from interlock.engine.events import Reserved, Usage, Warned
from interlock.engine.state import Turn
from interlock.engine.timing import BUDGET, start_timer
from interlock.engine.transition import Transition

NOTHING = Usage()


def account_for(t: Transition, turn: Turn, usage: Usage, *, failed: bool = False) -> None:
    """A call is over: what it cost counts from now on, in place of what was held for it."""
    before = t.state.usage
    t.state.usage = before + usage + Usage(calls=1)
    if turn.reserved:
        model = t.budgets.of(turn.agent).agent.model(backup=turn.backup)
        server = model.server if model is not None else ""
        whole = usage + Usage(calls=1)
        t.order(Settle(key=turn.reserved, agent=turn.agent, usage=whole, failed=failed, provider=server))
        _let_go(turn)
        _warn(t, turn, before.cost_micros, usage)


def abandon_call(t: Transition, turn: Turn) -> None:
    """Nobody waits for the call any more. What it cost will never be known, so what was held for it counts."""
    t.give_up(turn.call)
    if turn.reserving:
        if t.give_up(turn.reserving):
            t.order(Settle(key=turn.reserving, agent=turn.agent, usage=NOTHING))
        turn.reserving = ""
    if turn.reserved:
        t.order(Settle(key=turn.reserved, agent=turn.agent, usage=None))
        _let_go(turn)


def give_back(t: Transition, turn: Turn, event: Reserved) -> None:
    """The call is not made after all."""
    t.order(Settle(key=event.call, agent=turn.agent, usage=NOTHING))


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


def bound_without_room(t: Transition, turn: Turn, event: Reserved) -> tuple[str, str] | None:
    """The first bound of a call or of the run that the estimate does not fit, and what it is on."""
    for bound in t.budgets.of(turn.agent).of_call:
        estimate = event.tokens if bound.what == "tokens" else event.cost_micros
        if estimate > bound.most:
            return bound.name, bound.what
    settings, others = t.settings, [other for other in t.turns() if other is not turn]
    tokens = t.state.usage.tokens + sum(other.held_tokens for other in others)
    if settings.max_tokens_per_run is not None and not fits(settings.max_tokens_per_run, tokens, event.tokens):
        return "max_tokens_per_run", "tokens"
    cost = t.state.usage.cost_micros + sum(other.held_micros for other in others)
    if settings.max_cost_per_run is not None and not fits(micros(settings.max_cost_per_run), cost, event.cost_micros):
        return "max_cost_per_run", "cost"
    return None


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
