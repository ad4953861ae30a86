"""Budgets that are wider than a run: counters by crew, agent and UTC window. Pure rules, shared by every store.

Rule 1: a reservation is applied once, however often it is repeated; a settlement corrects it, once.
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

from interlock.engine.budgets.inherited_limits import WARN, WindowLimit
from interlock.engine.budgets.limits import WINDOWS_MS, has_room
from interlock.ports import Grant, Reservation, Settlement

COOL_DOWN_MS = 60_000

# After this time every window of a reservation is over.
EXPIRED_MS = 2 * WINDOWS_MS["day"]

# The counter of consecutive errors has no window.
IN_A_ROW = ""


class BudgetCounter(msgspec.Struct, kw_only=True):
    """Usage in a window; for consecutive errors `start` is the time of the last error or trial."""

    start: int = 0
    calls: int = 0
    tokens: int = 0
    cost: int = 0
    errors: int = 0
    alerted: tuple[str, ...] = ()  # limits that have alerted in this window


class OpenReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation that was granted and is not settled."""

    key: str
    at: int
    tokens: int
    cost_micros: int
    alerts: tuple[str, ...] = ()
    exceeded: tuple[str, ...] = ()


class BudgetLedger(Protocol):
    """The counters and reservations of a store."""

    def counter(self, crew: str, scope: str, window: str) -> BudgetCounter: ...

    def put_counter(self, crew: str, scope: str, window: str, counter: BudgetCounter) -> None: ...

    def open_reservation(self, key: str) -> OpenReservation | None: ...

    def add_reservation(self, held: OpenReservation) -> None: ...

    def remove_reservation(self, key: str) -> None: ...

    def remove_reservations_before(self, at: int) -> None: ...


def spend(ledger: BudgetLedger, order: Reservation | Settlement) -> Grant | None:
    """Applies a reservation or settlement; only a reservation has an answer."""
    if isinstance(order, Reservation):
        return _reserve(ledger, order)
    _settle(ledger, order)
    return None


def _reserve(ledger: BudgetLedger, order: Reservation) -> Grant:
    held = ledger.open_reservation(order.key)
    if held is not None:
        return Grant(alerts=held.alerts, exceeded=held.exceeded)
    newest = ledger.counter(order.crew, "", "minute").start
    if newest > order.at:
        order = msgspec.structs.replace(order, at=newest)
    for limit in order.limits:
        refusal = None if limit.then == WARN else _refusal(ledger, order, limit)
        if refusal is not None:
            return refusal
    exceeded = tuple(limit_name(limit) for limit in order.limits if _warn_once(ledger, order, limit))
    alerts = tuple(limit_name(limit) for limit in order.limits if _alert_once(ledger, order, limit))
    for limit in order.limits:
        if not limit.window:
            _note_trial(ledger, order, limit)
    change = BudgetCounter(calls=1, tokens=order.tokens, cost=order.cost_micros)
    _add_to_counters(ledger, order.crew, ("", order.agent), order.at, change)
    for crew in crews_above(order.crew, order.limits):
        _add_to_counters(ledger, crew, ("",), order.at, change)
    ledger.remove_reservations_before(order.at - EXPIRED_MS)
    ledger.add_reservation(
        OpenReservation(
            key=order.key,
            at=order.at,
            tokens=order.tokens,
            cost_micros=order.cost_micros,
            alerts=alerts,
            exceeded=exceeded,
        )
    )
    return Grant(alerts=alerts, exceeded=exceeded)


def crews_above(crew: str, limits: Sequence[WindowLimit]) -> tuple[str, ...]:
    """The callers' crews whose counters include a call too; a crew of the same name shares the run's own."""
    return tuple(dict.fromkeys(limit.crew for limit in limits if limit.crew not in ("", crew)))


def limit_name(limit: WindowLimit) -> str:
    whose = limit.scope or (f"crew {limit.crew}" if limit.crew else "")
    return f"{limit.name} of {whose}" if whose else limit.name


def _refusal(ledger: BudgetLedger, order: Reservation, limit: WindowLimit) -> Grant | None:
    counter = _counter_of_limit(ledger, order, limit)
    if not limit.window:
        left_ms = counter.start + COOL_DOWN_MS - order.at
        is_open = counter.errors >= limit.most and left_ms > 0
    else:
        left_ms = counter.start + WINDOWS_MS[limit.window] - order.at
        is_open = not _has_room(limit, counter, order)
    if not is_open:
        return None
    return Grant(
        refused=limit_name(limit),
        what=limit.what,
        then=limit.then,
        wait_ms=left_ms,
        above=limit.above,
        most=limit.most,
        used=_amount_in_counter(limit, counter),
    )


def _has_room(limit: WindowLimit, counter: BudgetCounter, order: Reservation) -> bool:
    if limit.what == "errors":
        return counter.errors < limit.most
    return has_room(limit.most, _amount_in_counter(limit, counter), _amount(limit, order))


def _amount_in_counter(limit: WindowLimit, counter: BudgetCounter) -> int:
    return int(getattr(counter, limit.what))


def _amount(limit: WindowLimit, order: Reservation) -> int:
    return {"calls": 1, "tokens": order.tokens, "cost": order.cost_micros, "errors": 0}[limit.what]


def _warn_once(ledger: BudgetLedger, order: Reservation, limit: WindowLimit) -> bool:
    """Whether this call exceeds a limit that only warns, or is beyond it; once per window."""
    if limit.then != WARN or limit.alert == limit.most:  # an alert at the end says the same
        return False
    if _amount_in_counter(limit, _counter_of_limit(ledger, order, limit)) + _amount(limit, order) <= limit.most:
        return False
    return _note_once(ledger, order, limit, f"{limit.name} exceeded")


def _alert_once(ledger: BudgetLedger, order: Reservation, limit: WindowLimit) -> bool:
    """Whether this call reaches the alert level of a limit, or is beyond it; once per window."""
    if limit.alert is None:
        return False
    if _amount_in_counter(limit, _counter_of_limit(ledger, order, limit)) + _amount(limit, order) < limit.alert:
        return False
    return _note_once(ledger, order, limit, limit.name)


def _note_once(ledger: BudgetLedger, order: Reservation, limit: WindowLimit, note: str) -> bool:
    """Notes an alert in the limit's window. Returns whether it is the first."""
    counter = _counter_of_limit(ledger, order, limit)
    if note in counter.alerted:
        return False
    counter.alerted = (*counter.alerted, note)
    ledger.put_counter(limit.crew or order.crew, _scope_of_limit(limit, order), limit.window, counter)
    return True


def _note_trial(ledger: BudgetLedger, order: Reservation, limit: WindowLimit) -> None:
    scope = _scope_of_limit(limit, order)
    counter = ledger.counter(order.crew, scope, IN_A_ROW)
    if counter.errors >= limit.most:
        counter.start = order.at
        ledger.put_counter(order.crew, scope, IN_A_ROW, counter)


def _settle(ledger: BudgetLedger, order: Settlement) -> None:
    held = ledger.open_reservation(order.key)
    if held is None:
        return
    ledger.remove_reservation(order.key)
    if order.usage is None:
        return
    change = BudgetCounter(
        calls=order.usage.calls - 1,
        tokens=order.usage.tokens - held.tokens,
        cost=order.usage.cost_micros - held.cost_micros,
        errors=int(order.failed),
    )
    _add_to_counters(ledger, order.crew, ("", order.agent), held.at, change)
    for crew in order.crews_above:
        _add_to_counters(ledger, crew, ("",), held.at, change)
    if order.usage.calls:
        _note_outcome(ledger, order)


def _note_outcome(ledger: BudgetLedger, order: Settlement) -> None:
    for owner in ("", order.agent):
        scope = circuit_scope(owner, order.provider)
        counter = ledger.counter(order.crew, scope, IN_A_ROW)
        counter.errors = counter.errors + 1 if order.failed else 0
        counter.alerted = counter.alerted if order.failed else ()
        counter.start = order.at
        ledger.put_counter(order.crew, scope, IN_A_ROW, counter)


def _add_to_counters(ledger: BudgetLedger, crew: str, scopes: Sequence[str], at: int, change: BudgetCounter) -> None:
    for scope in scopes:
        for window, length in WINDOWS_MS.items():
            counter = _current_counter(ledger, crew, scope, window, at)
            if counter.start != at - at % length:
                continue  # that window was over before the call was
            counter.calls += change.calls
            counter.tokens += change.tokens
            counter.cost += change.cost
            counter.errors += change.errors
            ledger.put_counter(crew, scope, window, counter)


def _counter_of_limit(ledger: BudgetLedger, order: Reservation, limit: WindowLimit) -> BudgetCounter:
    return _current_counter(ledger, limit.crew or order.crew, _scope_of_limit(limit, order), limit.window, order.at)


def _scope_of_limit(limit: WindowLimit, order: Reservation) -> str:
    return limit.scope if limit.window else circuit_scope(limit.scope, order.provider)


def circuit_scope(scope: str, provider: str) -> str:
    return f"{scope}@{provider}" if provider else scope


def _current_counter(ledger: BudgetLedger, crew: str, scope: str, window: str, at: int) -> BudgetCounter:
    """The counter of the window that holds `at`, or of a later one."""
    counter = ledger.counter(crew, scope, window)
    if window and counter.start < at - at % WINDOWS_MS[window]:
        return BudgetCounter(start=at - at % WINDOWS_MS[window])
    return counter
