"""Orders of other processes for runs that this process drives.

Rule 1: an order is carried out with the record that it causes, in one transaction; so it happens once, whoever dies.
Rule 2: orders for one tree are carried out one after another, the oldest first; those for other trees do not wait.
Rule 3: an order that cannot be carried out here, because the run is no longer this process's, stays open for the next.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from interlock import errors
from interlock.engine.events import MessageGiven
from interlock.errors import (
    InterlockError,
    NotOwner,
    OrderCarriedOut,
    OrderLost,
    OrderRefused,
    OutOfOrder,
    OwnedElsewhere,
    PortError,
    StoreBroken,
)
from interlock.ids import root_of
from interlock.ports import Order, OrderOutcome
from interlock.runtime.holding import while_away

if TYPE_CHECKING:
    from interlock.runtime.runner import Runner

# The orders that there are.
RESUME, CANCEL, MESSAGE = "resume", "cancel", "message"

# While the store is away it is asked again after this many milliseconds.
AWAY_MS = 1_000

_log = logging.getLogger("interlock")
_encode = msgspec.json.Encoder().encode


class GivenAnswer(NamedTuple):
    """An answer to a wait of a run, which may be its only one, and who gives it."""

    token: str | None = None
    text: str = ""
    by: str = ""


class ResumeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an order to resume: an answer to a wait, or nothing for a parked run that is to continue."""

    token: str | None
    text: str
    continues_parked: bool = True


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error as its poster is to raise it: the name of its class, its message and its parts."""

    kind: str
    message: str
    parts: dict[str, Any] = {}


_resume_of = msgspec.json.Decoder(ResumeOrder).decode
_message_of = msgspec.json.Decoder(MessageGiven).decode
_refusal_of = msgspec.json.Decoder(Refusal).decode


class OrderTaker:
    """Looks for orders when another process has written something, and when this one has taken a run up."""

    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self._wanted = asyncio.Event()
        self._trees: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        stop = self._runner.board.bus.watch(self.wake)
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._look()
        finally:
            stop()
            await self._stop()

    async def _stop(self) -> None:
        """What an order has begun is not left half done; what it has not begun stays for the next process."""
        for task in self._trees.values():
            task.cancel()
        await asyncio.gather(*self._trees.values(), return_exceptions=True)

    async def _look(self) -> None:
        try:
            found = await self._runner.orders.orders_for(self._runner.orders.owner)
        except StoreBroken:
            return
        except Exception as error:  # whatever it is: without this task no order is carried out any more
            _log.warning("orders cannot be read now: %s", error)
            await self._runner.clock.sleep_until(self._runner.clock.monotonic_ms() + AWAY_MS)
            self.wake()
            return
        by_tree: dict[str, list[Order]] = {}
        for order in found:
            by_tree.setdefault(root_of(order.run), []).append(order)
        for root, orders in by_tree.items():
            if root not in self._trees:
                self._trees[root] = asyncio.create_task(self._carry_out_all(root, orders))

    async def _carry_out_all(self, root: str, orders: Sequence[Order]) -> None:
        try:
            for order in orders:
                await self._carry_out(order)
        finally:
            del self._trees[root]
        self.wake()  # more may have come for this tree

    async def _carry_out(self, order: Order) -> None:
        orders, clock = self._runner.orders, self._runner.clock
        try:
            value = await while_away(clock, lambda: self._perform(order))
            outcome = OrderOutcome(value=value)
        except (OrderCarriedOut, OrderLost):
            return
        except (NotOwner, OwnedElsewhere, OutOfOrder, StoreBroken) as error:
            _log.info("order %s of run %s is left to another process: %s", order.kind, order.run, error)
            await clock.sleep_until(clock.monotonic_ms() + AWAY_MS)
            return
        except Exception as error:
            if not isinstance(error, InterlockError):
                _log.exception("order %s of run %s failed", order.kind, order.run)
            outcome = OrderOutcome(refusal=refusal_of(error))
        try:
            await while_away(clock, lambda: orders.settle(order.key, outcome))
        except PortError as error:
            _log.warning("the outcome of order %s of run %s cannot be stored: %s", order.kind, order.run, error)

    async def _perform(self, order: Order) -> str:
        """What it gives; nothing is done if it was carried out before."""
        runner = self._runner
        crew = await runner.crews.of((await runner.journal.row(order.run)).crew_sha)
        match order.kind:
            case "resume":
                given = _resume_of(order.body)
                answer = GivenAnswer(given.token, given.text, order.by)
                await runner.resume(crew, order.run, answer, continues_parked=given.continues_parked, order=order.key)
            case "cancel":
                await runner.cancel(crew, order.run, by=order.by, order=order.key)
            case "message":
                return await runner.send_message(crew, order.run, _message_of(order.body), order=order.key)
            case _:
                raise OrderRefused(
                    order.run, f"it does not know the order '{order.kind}'; it may be of an older version"
                )
        return ""


def resume_body(token: str | None, text: str, *, continues_parked: bool) -> bytes:
    return _encode(ResumeOrder(token=token, text=text, continues_parked=continues_parked))


def message_body(given: MessageGiven) -> bytes:
    return _encode(given)


def refusal_of(error: Exception) -> bytes:
    """The error as it is kept for the process that posted the order."""
    parts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    try:
        return _encode(Refusal(kind=type(error).__name__, message=str(error), parts=parts))
    except TypeError:  # a part that is not data
        return _encode(Refusal(kind=type(error).__name__, message=str(error)))


def require_not_refused(run: str, outcome: OrderOutcome) -> None:
    """Raises what the process that drives the run raised."""
    if not outcome.refusal:
        return
    refusal = _refusal_of(outcome.refusal)
    kind = getattr(errors, refusal.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, InterlockError)):
        raise OrderRefused(run, refusal.message)
    error = kind.__new__(kind)
    Exception.__init__(error, refusal.message)
    vars(error).update(refusal.parts)
    raise error
