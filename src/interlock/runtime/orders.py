"""Orders of other processes for runs that this process drives.

Rule 1: an order is carried out with the record that it causes, in one transaction; so it happens once, also in a crash.
Rule 2: orders for one tree are carried out one after another, the oldest first; other trees do not wait.
Rule 3: an order for a run that this process no longer owns, or cannot drive, stays open for the next owner.
Rule 4: of the runs that rest, a worker takes only those that it may claim: of its crews and organizations, and none
that is private, except to cancel it.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from interlock import errors
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import MessageGiven
from interlock.errors import (
    HostLacks,
    InterlockError,
    NotOwner,
    OrderCarriedOut,
    OrderLost,
    OrderRefused,
    OutOfOrder,
    OwnedElsewhere,
    PortError,
    RunNotFound,
    StoreBroken,
)
from interlock.ids import root_of
from interlock.ports import NO_OWNER, Bus, Clock, Journal, OrderOutcome, Orders, RunOrder
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.store_retry import retry_while_store_away
from interlock.runtime.stored_crews import StoredCrews

# The kinds of orders.
RESUME, CANCEL, MESSAGE, EXPIRE = "resume", "cancel", "message", "expire"

# How long to wait before a store that is away is asked again.
AWAY_MS = 1_000

_log = logging.getLogger("interlock")
_encode = msgspec.json.Encoder().encode


class GivenAnswer(NamedTuple):
    """An answer to a wait of a run; without a token, to its only one.

    `may_hold`: the person may approve later calls too.
    """

    token: str | None = None
    text: str = ""
    by: str = ""
    may_hold: bool = False


class ResumeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an order to resume: an answer to a wait, or nothing for a parked run that is to continue."""

    token: str | None
    text: str
    continues_parked: bool = True
    may_hold: bool = False


class OrderRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error for the process that posted the order: the name of its class, its message and its parts."""

    kind: str
    message: str
    parts: dict[str, Any] = {}


_resume_of = msgspec.json.Decoder(ResumeOrder).decode
_message_of = msgspec.json.Decoder(MessageGiven).decode
_refusal_of = msgspec.json.Decoder(OrderRefusal).decode


class RunCommands(Protocol):
    """The commands that an order can ask for. `order` is its key."""

    async def resume(
        self, crew: CrewDefinition, run_id: str, answer: GivenAnswer, *, continues_parked: bool = True, order: str = ""
    ) -> None: ...

    async def cancel(self, crew: CrewDefinition, run_id: str, by: str, *, order: str = "") -> None: ...

    async def send_message(self, crew: CrewDefinition, run_id: str, given: MessageGiven, *, order: str = "") -> str: ...

    async def check_deadlines(self, run_id: str) -> None: ...


class OrderTaker:
    """Looks for orders when another process has written something, and when this one has claimed a run."""

    def __init__(
        self,
        commands: RunCommands,
        *,
        orders: Orders,
        journal: Journal,
        crews: StoredCrews,
        bus: Bus,
        clock: Clock,
        work: WorkSettings,
    ) -> None:
        self._commands, self._orders, self._journal = commands, orders, journal
        self._crews, self._bus, self._clock, self._work = crews, bus, clock, work
        self._wanted = asyncio.Event()
        # True for a worker: orders for runs that rest, and that no process owns, are carried out too.
        self.takes_unowned = False
        self._trees: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        stop = self._bus.watch(self.wake, "orders")
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._start_open_orders()
        finally:
            stop()
            await self._stop()

    async def _stop(self) -> None:
        """Cancels the tasks; a started command is completed, other orders stay for the next process."""
        for task in self._trees.values():
            task.cancel()
        await asyncio.gather(*self._trees.values(), return_exceptions=True)

    async def _start_open_orders(self) -> None:
        try:
            found = await self._open_orders()
        except StoreBroken:
            return
        except Exception as error:  # any error: without this task no order is carried out any more
            _log.warning("orders cannot be read now: %s", error)
            await self._clock.sleep_until(self._clock.monotonic_ms() + AWAY_MS)
            self.wake()
            return
        by_tree: dict[str, list[RunOrder]] = {}
        for order in found:
            by_tree.setdefault(root_of(order.run), []).append(order)
        for root, orders in by_tree.items():
            if root not in self._trees:
                self._trees[root] = asyncio.create_task(self._carry_out_all(root, orders))

    async def _open_orders(self) -> list[RunOrder]:
        own = await self._orders.orders_for(self._orders.owner)
        unowned = await self._orders.orders_for(NO_OWNER) if self.takes_unowned else ()
        mine = [order for order in unowned if await self._may_take(order)]
        return list({order.key: order for order in (*own, *mine)}.values())

    async def _may_take(self, order: RunOrder) -> bool:
        try:
            row = await self._journal.row(root_of(order.run))
        except RunNotFound:  # it was deleted meanwhile
            return False
        return self._work.may_take(row, to_end=order.kind == CANCEL)

    async def _carry_out_all(self, root: str, orders: Sequence[RunOrder]) -> None:
        try:
            for order in orders:
                await self._carry_out(order)
        finally:
            del self._trees[root]
        self.wake()  # more may have come for this tree

    async def _carry_out(self, order: RunOrder) -> None:
        clock = self._clock
        try:
            value = await retry_while_store_away(clock, lambda: self._perform(order))
            outcome = OrderOutcome(value=value)
        except (OrderCarriedOut, OrderLost):
            return
        except (NotOwner, OwnedElsewhere, OutOfOrder, StoreBroken, HostLacks) as error:
            _log.info("order %s of run %s is left to another process: %s", order.kind, order.run, error)
            await clock.sleep_until(clock.monotonic_ms() + AWAY_MS)
            return
        except Exception as error:
            if not isinstance(error, InterlockError):
                _log.exception("order %s of run %s failed", order.kind, order.run)
            outcome = OrderOutcome(refusal=refusal_of(error))
        try:
            await retry_while_store_away(clock, lambda: self._orders.settle(order.key, outcome))
        except PortError as error:
            _log.warning("the outcome of order %s of run %s cannot be stored: %s", order.kind, order.run, error)

    async def _perform(self, order: RunOrder) -> str:
        """Carries out the order, unless that was done before; returns its value."""
        crew = await self._crews.of((await self._journal.row(order.run)).crew_sha)
        match order.kind:
            case "resume":
                given = _resume_of(order.body)
                answer = GivenAnswer(given.token, given.text, order.by, given.may_hold)
                await self._commands.resume(
                    crew, order.run, answer, continues_parked=given.continues_parked, order=order.key
                )
            case "cancel":
                await self._commands.cancel(crew, order.run, by=order.by, order=order.key)
            case "message":
                return await self._commands.send_message(crew, order.run, _message_of(order.body), order=order.key)
            case "expire":
                await self._commands.check_deadlines(order.run)
            case _:
                raise OrderRefused(
                    order.run, f"it does not know the order '{order.kind}'; it may be of an older version"
                )
        return ""


def resume_body(token: str | None, text: str, *, continues_parked: bool, may_hold: bool = False) -> bytes:
    return _encode(ResumeOrder(token=token, text=text, continues_parked=continues_parked, may_hold=may_hold))


def message_body(given: MessageGiven) -> bytes:
    return _encode(given)


def refusal_of(error: Exception) -> bytes:
    """The error as it is stored for the process that posted the order."""
    parts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    try:
        return _encode(OrderRefusal(kind=type(error).__name__, message=str(error), parts=parts))
    except TypeError:  # a part that is not data
        return _encode(OrderRefusal(kind=type(error).__name__, message=str(error)))


def require_not_refused(run: str, outcome: OrderOutcome) -> None:
    """Raises the error that the process that drives the run raised."""
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
