"""Reservations and settlements of a batch, as a value for the function `apply_spending`.

Rule: counters and reservations are named by number, so that the function reads all of them at once, and applies the
orders to what it read. Which counters an order touches is known before; what it does to them is not.
"""

from collections.abc import Sequence

import msgspec

from interlock.adapters.store_rules.budget_rules import IN_A_ROW, circuit_scope, crews_above, limit_name
from interlock.engine.budgets.inherited_limits import WindowLimit
from interlock.engine.budgets.limits import WINDOWS_MS
from interlock.ports import Reservation, Settlement


class _Limit(msgspec.Struct, frozen=True):
    n: int
    counter: int
    name: str
    label: str
    what: str
    most: int
    alert: int | None
    then: str
    above: int


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """`adds` are the counters of windows that the call counts in, `newest` the one that tells if time went back."""

    place: int
    key: int
    is_settlement: bool
    at: int
    tokens: int
    cost: int
    adds: Sequence[int]
    newest: int = 0
    limits: Sequence[_Limit] = ()
    trials: Sequence[tuple[int, int]] = ()
    calls: int = 0
    is_known: bool = False
    has_failed: bool
    circuits: Sequence[int] = ()


class SpendingOrders:
    """Collects the orders of a batch."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str, str], int] = {}
        self._keys: dict[str, int] = {}
        self._orders: list[_Order] = []

    def add(self, place: int, order: Reservation | Settlement) -> None:
        key = self._keys.setdefault(order.key, len(self._keys) + 1)
        if isinstance(order, Reservation):
            self._orders.append(self._reserve(place, key, order))
        else:
            self._orders.append(self._settle(place, key, order))

    def encode(self) -> str | None:
        """The value as JSON; None if there are no orders."""
        if not self._orders:
            return None
        counters = [(*each, WINDOWS_MS.get(each[2], 0)) for each in self._counters]
        return msgspec.json.encode({"counters": counters, "keys": list(self._keys), "orders": self._orders}).decode()

    def _counter(self, crew: str, scope: str, window: str) -> int:
        return self._counters.setdefault((crew, scope, window), len(self._counters) + 1)

    def _windows(self, crew: str, agent: str, above: Sequence[str]) -> list[int]:
        places = [(crew, ""), (crew, agent), *((each, "") for each in above)]
        return [self._counter(*each, window) for each in places for window in WINDOWS_MS]

    def _reserve(self, place: int, key: int, order: Reservation) -> _Order:
        trials = [
            (self._counter(order.crew, circuit_scope(limit.scope, order.provider), IN_A_ROW), limit.most)
            for limit in order.limits
            if not limit.window
        ]
        return _Order(
            place=place,
            key=key,
            is_settlement=False,
            at=order.at,
            tokens=order.tokens,
            cost=order.cost_micros,
            newest=self._counter(order.crew, "", "minute"),
            limits=[self._limit(order, n, limit) for n, limit in enumerate(order.limits)],
            trials=trials,
            adds=self._windows(order.crew, order.agent, crews_above(order.crew, order.limits)),
            has_failed=False,
        )

    def _limit(self, order: Reservation, n: int, limit: WindowLimit) -> _Limit:
        scope = limit.scope if limit.window else circuit_scope(limit.scope, order.provider)
        return _Limit(
            n=n,
            counter=self._counter(limit.crew or order.crew, scope, limit.window),
            name=limit.name,
            label=limit_name(limit),
            what=limit.what,
            most=limit.most,
            alert=limit.alert,
            then=limit.then,
            above=limit.above,
        )

    def _settle(self, place: int, key: int, order: Settlement) -> _Order:
        usage = order.usage
        return _Order(
            place=place,
            key=key,
            is_settlement=True,
            at=order.at,
            tokens=usage.tokens if usage is not None else 0,
            cost=usage.cost_micros if usage is not None else 0,
            calls=usage.calls if usage is not None else 0,
            is_known=usage is not None,
            has_failed=order.failed,
            adds=self._windows(order.crew, order.agent, order.crews_above),
            circuits=[
                self._counter(order.crew, circuit_scope(owner, order.provider), IN_A_ROW) for owner in ("", order.agent)
            ],
        )
