"""Orders from one process to the process that drives a run."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

# In place of the name of an owner: the runs that no process owns.
NO_OWNER = ""


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the process that drives a run: resume it, cancel it, give it a message.

    `key` identifies it; `by` is the caller; `at` is the time in milliseconds since 1970.
    """

    key: str
    run: str
    kind: str
    body: bytes = b""
    by: str = ""
    at: int = 0


class OrderOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an order. `seq` is the record that carried it out, if it needed one; `value` is its result.

    `refusal` is the reason if it was refused, else empty.
    """

    seq: int = 0
    value: str = ""
    refusal: bytes = b""


class OrderReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """An order is stored. `outcome` is set if it was posted before and has been carried out."""

    outcome: OrderOutcome | None = None


class Orders(Protocol):
    """Orders to the process that drives a run. It carries an order out with a record (`AtomicWrites.orders`)."""

    @property
    def owner(self) -> str:
        """The name under which this process owns runs."""
        ...

    async def post(self, order: RunOrder) -> OrderReceipt:
        """Stores an order; the same key again changes nothing. Orders older than a day are deleted.

        `RunNotFound` if there is no such run, `UsageError` if the run has `ORDERS_PER_RUN_MAX` open orders.
        """
        ...

    async def orders_for(self, owner: str) -> Sequence[RunOrder]:
        """The open orders for runs that a process owns, and for runs below them, the oldest first.

        With `NO_OWNER` those for runs without a living owner, in trees whose root has none either: a worker carries
        them out.
        """
        ...

    async def outcome(self, key: str) -> OrderOutcome | None:
        """None while the order is open; `OrderLost` if there is no such order, or it is damaged."""
        ...

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        """Stores the outcome of an order that no record carried out; the first outcome counts."""
        ...

    async def forget(self, key: str) -> None:
        """Deletes an order whose outcome was read, or that its sender has carried out."""
        ...
