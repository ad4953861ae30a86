"""Orders from here: what is asked of a run is done by this process, or by the one that drives the run.

Rule 1: a run that no living process drives is taken by this one, and the order carried out here.
Rule 2: one that another process drives gets an order. Its driver carries it out; if it dies first, rule 1 holds.
Rule 3: after `WAIT_MS` without an outcome the caller is told that the order is posted and not yet taken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from interlock.errors import InterlockError, OrderCarriedOut, OrderPending, OwnedElsewhere
from interlock.ids import root_of
from interlock.ports import Order, OrderOutcome
from interlock.runtime.ordering import require_not_refused
from interlock.runtime.runner import Runner

# How long the outcome of an order is waited for.
WAIT_MS = 10_000

# How often it is looked whether the driver lives: that it died is no change in the store.
LOOK_MS = 1_000

# Does what an order asks, in this process; gets the order's key, or nothing if none is posted.
Act = Callable[[str], Awaitable[str]]


class OrderDesk:
    """Has orders carried out, wherever their runs are driven."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def is_driven_elsewhere(self, run: str) -> bool:
        """Whether another process drives the run, or the tree that it belongs to."""
        runner, root = self._runner, root_of(run)
        if run in runner.live or root in runner.live:
            return False
        return await runner.owners.is_owned(run) or (root != run and await runner.owners.is_owned(root))

    async def ensure(self, order: Order, act: Act) -> str:
        """Has the order carried out, and gives its value; raises why it was refused, here or elsewhere.

        `OrderPending` if the process that drives the run does not carry it out in time.
        """
        if not await self.is_driven_elsewhere(order.run):
            with suppress(OwnedElsewhere):  # another process was quicker
                return await act("")
        orders = self._runner.orders
        try:
            outcome = (await orders.post(order)).outcome or await self._wait(order, act)
        except OrderPending:
            raise
        except InterlockError:
            await orders.forget(order.key)
            raise
        await orders.forget(order.key)
        require_not_refused(order.run, outcome)
        return outcome.value

    async def _wait(self, order: Order, act: Act) -> OrderOutcome:
        runner, news = self._runner, asyncio.Event()
        until = runner.clock.monotonic_ms() + WAIT_MS
        runner.order_taker.wake()  # this process may be about to have the run itself
        stop = runner.board.bus.watch(news.set)
        try:
            while (outcome := await self._outcome(order, act)) is None:
                if runner.clock.monotonic_ms() >= until:
                    raise OrderPending(order.run, order.kind, WAIT_MS // 1000)
                await self._rest(news)
                news.clear()
            return outcome
        finally:
            stop()

    async def _outcome(self, order: Order, act: Act) -> OrderOutcome | None:
        """What became of it so far. If nobody drives the run any more, it is carried out by this process."""
        orders = self._runner.orders
        if (outcome := await orders.outcome(order.key)) is not None:
            return outcome
        if await self.is_driven_elsewhere(order.run):
            return None
        try:
            return OrderOutcome(value=await act(order.key))
        except OrderCarriedOut:
            return await orders.outcome(order.key)
        except OwnedElsewhere:  # yet another process was quicker
            return None

    async def _rest(self, news: asyncio.Event) -> None:
        """Until another process has written something, or it is time to look whether the driver lives."""
        clock = self._runner.clock
        sleeping = asyncio.ensure_future(clock.sleep_until(clock.monotonic_ms() + LOOK_MS))
        told = asyncio.ensure_future(news.wait())
        try:
            await asyncio.wait((sleeping, told), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            told.cancel()
