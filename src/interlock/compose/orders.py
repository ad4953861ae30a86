"""Orders to runs: this process carries them out, or the process that drives the run.

Rule 1: if no living process drives the run, this process claims it and carries the order out.
Rule 2: if another process drives the run, the order is posted for it. If that process dies first, rule 1 holds.
Rule 3: a process that drives no run posts every order: a worker carries it out.
Rule 4: after `WAIT_MS` without an outcome, `OrderPending` tells the caller that the order is posted.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

from interlock.errors import InterlockError, OrderCarriedOut, OrderPending, OwnedElsewhere
from interlock.ids import root_of
from interlock.ports import OrderOutcome, RunOrder
from interlock.runtime.orders import require_not_refused
from interlock.runtime.runner import Runner

# The longest wait for the outcome of an order.
WAIT_MS = 10_000

# The interval of checks that the driver lives: its death changes nothing in the store.
LOOK_MS = 1_000

# The caller, in journals, of what a program does with its `Interlock`.
BY_HOST = "host"

# Carries an order out in this process; gets the key of the order, or "" if none is posted.
Act = Callable[[str], Awaitable[str]]


class OrderDesk:
    """Gets orders carried out, in whichever process their runs are driven."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def is_driven_elsewhere(self, run: str) -> bool:
        """True if another process drives the run, or the tree that it belongs to, or is to do so."""
        runner, root = self._runner, root_of(run)
        if not runner.work.drives:
            return True
        if runner.live_runs.has_claimed(run) or runner.live_runs.has_claimed(root):
            return False
        return await runner.owners.is_owned(run) or (root != run and await runner.owners.is_owned(root))

    def new_order(self, run: str, kind: str, body: bytes = b"", *, by: str = BY_HOST) -> RunOrder:
        now = self._runner.clock.now_ms()
        return RunOrder(key=f"{now:012x}{secrets.token_hex(8)}", run=run, kind=kind, body=body, by=by, at=now)

    async def ensure(self, order: RunOrder, act: Act) -> str:
        """Gets the order carried out, and returns its value; raises the reason if it was refused, here or elsewhere.

        Raises `OrderPending` if the process that drives the run does not carry it out in time.
        """
        if not await self.is_driven_elsewhere(order.run):
            with suppress(OwnedElsewhere):  # another process was first
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

    async def _wait(self, order: RunOrder, act: Act) -> OrderOutcome:
        runner, news = self._runner, asyncio.Event()
        until = runner.clock.monotonic_ms() + WAIT_MS
        runner.order_taker.wake()  # this process may be about to claim the run itself
        stop = runner.hub.bus.watch(news.set)
        try:
            while (outcome := await self._outcome(order, act)) is None:
                if runner.clock.monotonic_ms() >= until:
                    raise OrderPending(order.run, order.kind, WAIT_MS // 1000)
                await self._wait_for_news(news)
                news.clear()
            return outcome
        finally:
            stop()

    async def _outcome(self, order: RunOrder, act: Act) -> OrderOutcome | None:
        """The outcome so far. If no process drives the run any more, this process carries the order out."""
        orders = self._runner.orders
        if (outcome := await orders.outcome(order.key)) is not None:
            return outcome
        if await self.is_driven_elsewhere(order.run):
            return None
        try:
            return OrderOutcome(value=await act(order.key))
        except OrderCarriedOut:
            return await orders.outcome(order.key)
        except OwnedElsewhere:  # another process was first
            return None

    async def _wait_for_news(self, news: asyncio.Event) -> None:
        """Waits until another process has written something, or it is time to check that the driver lives."""
        clock = self._runner.clock
        sleeping = asyncio.ensure_future(clock.sleep_until(clock.monotonic_ms() + LOOK_MS))
        notified = asyncio.ensure_future(news.wait())
        try:
            await asyncio.wait((sleeping, notified), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            notified.cancel()
