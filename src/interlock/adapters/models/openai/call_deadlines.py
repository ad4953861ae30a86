"""The deadlines of a call: for the connection, the first byte, between bytes, and in total.

Rule 1: a reply comes in many small pieces, most of which are already there. So one timer serves all waits of a call: a
wait only sets its deadline, and the timer is set again if it fires too early.
Rule 2: only our own waits are cut short. The time between two waits belongs to the consumer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Self, TypeVar

from interlock.adapters.models.openai.endpoint import CallLimits
from interlock.errors import ModelUnavailable

T = TypeVar("T")


class CallDeadlines:
    """The deadlines of one call, from its start; used in a `with`, which cancels the timer."""

    def __init__(self, name: str, limits: CallLimits) -> None:
        self._name, self._limits = name, limits
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._total = now + limits.total_seconds
        # Until the first byte of the body: a server may send its headers immediately and then nothing.
        self._first: float | None = now + limits.first_byte_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._until = self._total
        self._waiting: asyncio.Task[object] | None = None
        self._is_late = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def next_piece(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        data = await self.wait_bounded(anext(pieces, None))
        self._first = None
        return data

    async def wait_bounded(self, work: Awaitable[T], *, opening: bool = False) -> T:
        deadline = self._first if self._first is not None else self._loop.time() + self._limits.idle_seconds
        if opening:
            deadline += self._limits.connect_seconds
        task = self._wait_until(min(deadline, self._total))
        asked_before = task.cancelling()
        try:
            return await work
        except asyncio.CancelledError:
            # As in `asyncio.timeout`: a cancellation by another caller is passed on.
            if self._is_late and task.cancelling() - 1 <= asked_before:
                raise ModelUnavailable(f"{self._name} {self._timeout_message(deadline)}") from None
            raise
        finally:
            self._waiting = None
            if self._is_late:
                self._is_late = False
                task.uncancel()

    def _wait_until(self, until: float) -> asyncio.Task[object]:
        task = asyncio.current_task()
        assert task is not None, "calls are made by tasks"
        self._waiting, self._until = task, until
        if self._timer is None or self._timer.when() > until:
            self._set_timer(until)
        return task

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if self._loop.time() < self._until:
            self._set_timer(self._until)
            return
        self._is_late = True
        self._waiting.cancel()

    def _timeout_message(self, deadline: float) -> str:
        limits = self._limits
        if deadline >= self._total:
            return f"took longer than {limits.total_seconds:g} s for its reply"
        if self._first is not None:
            return f"said nothing for {limits.first_byte_seconds:g} s"
        return f"stopped in the middle of its reply and said nothing for {limits.idle_seconds:g} s"
