"""Budgets that are wider than a run: counters by crew, agent and UTC window. Pure rules, shared by every store.

Rule 1: a reservation is carried out once, whoever asks again; a settlement corrects it, and only once.
Rule 2: a call counts in the windows in which it was reserved. A reservation that is never settled counts as it was
made until its windows are over: that is how it expires.
Rule 3: after too many errors in a row one call is let through every `COOL_DOWN_MS`; its success closes the circuit.
Errors in a row are counted by provider, so that one that is down does not keep an agent from its backup.
Rule 4: a call of a child counts for the crews above it too, where those have limits; their agents are not its agents.
Rule 5: windows do not come back: with a clock that was set back, calls count in the newest window there is.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.engine.bounds import WARN, Limit
from interlock.engine.budgets import WINDOWS_MS, fits
from interlock.ports import Grant, Reservation, Settlement

COOL_DOWN_MS = 60_000

# By then every window is over in which a reservation could count.
EXPIRED_MS = 2 * WINDOWS_MS["day"]

# The counter of errors in a row has no window.
IN_A_ROW = ""


class Counter(msgspec.Struct, kw_only=True):
    """What was spent in a window; for errors in a row `start` is when the last one, or the last trial, was."""

    start: int = 0
    calls: int = 0
    tokens: int = 0
    cost: int = 0
    errors: int = 0
    alerted: tuple[str, ...] = ()  # limits whose alert was given in this window


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that was granted and is not settled."""

    key: str
    at: int
    tokens: int
    cost_micros: int
    alerts: tuple[str, ...] = ()
    exceeded: tuple[str, ...] = ()


class Ledger(Protocol):
    """Where a store keeps counters and reservations."""

    def counter(self, crew: str, scope: str, window: str) -> Counter: ...

    def put_counter(self, crew: str, scope: str, window: str, counter: Counter) -> None: ...

    def held(self, key: str) -> Held | None: ...

    def hold(self, held: Held) -> None: ...

    def drop(self, key: str) -> None: ...

    def drop_older(self, at: int) -> None: ...


def spend(ledger: Ledger, order: Reservation | Settlement) -> Grant | None:
    """Carries an order out; a reservation has an answer."""
    if isinstance(order, Reservation):
        return _reserve(ledger, order)
    _settle(ledger, order)
    return None


def _reserve(ledger: Ledger, order: Reservation) -> Grant:
    held = ledger.held(order.key)
    if held is not None:
        return Grant(alerts=held.alerts, exceeded=held.exceeded)
    newest = ledger.counter(order.crew, "", "minute").start
    if newest > order.at:
        order = msgspec.structs.replace(order, at=newest)
    for limit in order.limits:
        refusal = None if limit.then == WARN else _refusal(ledger, order, limit)
        if refusal is not None:
            return refusal
    exceeded = tuple(_name(limit) for limit in order.limits if _is_to_warn(ledger, order, limit))
    alerts = tuple(_name(limit) for limit in order.limits if _is_to_alert(ledger, order, limit))
    for limit in order.limits:
        if not limit.window:
            _note_trial(ledger, order, limit)
    change = Counter(calls=1, tokens=order.tokens, cost=order.cost_micros)
    _count(ledger, order.crew, ("", order.agent), order.at, change)
    for crew in crews_above(order.crew, order.limits):
        _count(ledger, crew, ("",), order.at, change)
    ledger.drop_older(order.at - EXPIRED_MS)
    ledger.hold(
        Held(
            key=order.key,
            at=order.at,
            tokens=order.tokens,
            cost_micros=order.cost_micros,
            alerts=alerts,
            exceeded=exceeded,
        )
    )
    return Grant(alerts=alerts, exceeded=exceeded)


def crews_above(crew: str, limits: Sequence[Limit]) -> tuple[str, ...]:
    """The callers' crews in whose counters a call is as well; one of the same name shares the run's own."""
    return tuple(dict.fromkeys(limit.crew for limit in limits if limit.crew not in ("", crew)))


def _name(limit: Limit) -> str:
    whose = limit.scope or (f"crew {limit.crew}" if limit.crew else "")
    return f"{limit.name} of {whose}" if whose else limit.name


def _refusal(ledger: Ledger, order: Reservation, limit: Limit) -> Grant | None:
    counter = _counter(ledger, order, limit)
    if not limit.window:
        left_ms = counter.start + COOL_DOWN_MS - order.at
        is_open = counter.errors >= limit.most and left_ms > 0
    else:
        left_ms = counter.start + WINDOWS_MS[limit.window] - order.at
        is_open = not _has_room(limit, counter, order)
    if not is_open:
        return None
    return Grant(
        refused=_name(limit),
        what=limit.what,
        then=limit.then,
        wait_ms=left_ms,
        above=limit.above,
        most=limit.most,
        used=_spent(limit, counter),
    )


def _has_room(limit: Limit, counter: Counter, order: Reservation) -> bool:
    if limit.what == "errors":
        return counter.errors < limit.most
    return fits(limit.most, _spent(limit, counter), _amount(limit, order))


def _spent(limit: Limit, counter: Counter) -> int:
    return int(getattr(counter, limit.what))


def _amount(limit: Limit, order: Reservation) -> int:
    return {"calls": 1, "tokens": order.tokens, "cost": order.cost_micros, "errors": 0}[limit.what]


def _is_to_warn(ledger: Ledger, order: Reservation, limit: Limit) -> bool:
    """Whether this call takes a limit beyond its end that only warns, or finds it there; once a window."""
    if limit.then != WARN or limit.alert == limit.most:  # an alert at the end says the same
        return False
    if _spent(limit, _counter(ledger, order, limit)) + _amount(limit, order) <= limit.most:
        return False
    return _note_once(ledger, order, limit, f"{limit.name} exceeded")


def _is_to_alert(ledger: Ledger, order: Reservation, limit: Limit) -> bool:
    """Whether this call takes the limit to where somebody wants to know, or finds it there; once a window."""
    if limit.alert is None:
        return False
    if _spent(limit, _counter(ledger, order, limit)) + _amount(limit, order) < limit.alert:
        return False
    return _note_once(ledger, order, limit, limit.name)


def _note_once(ledger: Ledger, order: Reservation, limit: Limit, note: str) -> bool:
    """Whether this was not said in the limit's window before; from now on it was."""
    counter = _counter(ledger, order, limit)
    if note in counter.alerted:
        return False
    counter.alerted = (*counter.alerted, note)
    ledger.put_counter(limit.crew or order.crew, _scope(limit, order), limit.window, counter)
    return True


def _note_trial(ledger: Ledger, order: Reservation, limit: Limit) -> None:
    scope = _scope(limit, order)
    counter = ledger.counter(order.crew, scope, IN_A_ROW)
    if counter.errors >= limit.most:
        counter.start = order.at
        ledger.put_counter(order.crew, scope, IN_A_ROW, counter)


def _settle(ledger: Ledger, order: Settlement) -> None:
    held = ledger.held(order.key)
    if held is None:
        return
    ledger.drop(order.key)
    if order.usage is None:
        return
    change = Counter(
        calls=order.usage.calls - 1,
        tokens=order.usage.tokens - held.tokens,
        cost=order.usage.cost_micros - held.cost_micros,
        errors=int(order.failed),
    )
    _count(ledger, order.crew, ("", order.agent), held.at, change)
    for crew in order.crews_above:
        _count(ledger, crew, ("",), held.at, change)
    if order.usage.calls:
        _note_outcome(ledger, order)


def _note_outcome(ledger: Ledger, order: Settlement) -> None:
    for owner in ("", order.agent):
        scope = _circuit(owner, order.provider)
        counter = ledger.counter(order.crew, scope, IN_A_ROW)
        counter.errors = counter.errors + 1 if order.failed else 0
        counter.alerted = counter.alerted if order.failed else ()
        counter.start = order.at
        ledger.put_counter(order.crew, scope, IN_A_ROW, counter)


def _count(ledger: Ledger, crew: str, scopes: Sequence[str], at: int, change: Counter) -> None:
    for scope in scopes:
        for window, length in WINDOWS_MS.items():
            counter = _current(ledger, crew, scope, window, at)
            if counter.start != at - at % length:
                continue  # that window was over before the call was
            counter.calls += change.calls
            counter.tokens += change.tokens
            counter.cost += change.cost
            counter.errors += change.errors
            ledger.put_counter(crew, scope, window, counter)


def _counter(ledger: Ledger, order: Reservation, limit: Limit) -> Counter:
    return _current(ledger, limit.crew or order.crew, _scope(limit, order), limit.window, order.at)


def _scope(limit: Limit, order: Reservation) -> str:
    return limit.scope if limit.window else _circuit(limit.scope, order.provider)


def _circuit(scope: str, provider: str) -> str:
    return f"{scope}@{provider}" if provider else scope


def _current(ledger: Ledger, crew: str, scope: str, window: str, at: int) -> Counter:
    """The counter of the window that holds `at`, or of a later one."""
    counter = ledger.counter(crew, scope, window)
    if window and counter.start < at - at % WINDOWS_MS[window]:
        return Counter(start=at - at % WINDOWS_MS[window])
    return counter
