"""Where functions of the host are called: in this loop, in the loop of the caller, or in threads.

Rule 1: clients and locks of a program belong to the loop that made them, so its async functions run there.
Rule 2: nothing here blocks the loop that drives runs, unless the program opened the data folder in it.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.errors import ModelUnavailable

# What `next_of` gives when an iterator has ended.
ENDED = object()


class FunctionCaller(Protocol):
    """`loop` is where async functions are awaited; None if that is the loop of the call."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None: ...

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function, and awaits its value if that can be awaited."""
        ...

    async def next_of(self, pieces: AsyncIterator[Any]) -> Any:
        """The next piece, or `ENDED`."""
        ...


class CallsHere:
    """The loop that drives the runs. A synchronous function blocks it."""

    loop: asyncio.AbstractEventLoop | None = None

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await _await_if_needed(function(*arguments))

    async def next_of(self, pieces: AsyncIterator[Any]) -> Any:
        return await anext(pieces, ENDED)


class CallsInThreads(CallsHere):
    """Synchronous functions run in threads, async ones in the loop that drives the runs."""

    def __init__(self) -> None:
        self._threads = ToolThreads()

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            return await super().call(function, *arguments)
        return await _await_if_needed(await self._threads.call(lambda: function(*arguments)))


class CallsInLoop:
    """The loop of the program that started the run; it may be another one, in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        async def work() -> Any:
            return await _await_if_needed(function(*arguments))

        return await self._run(work)

    async def next_of(self, pieces: AsyncIterator[Any]) -> Any:
        async def work() -> Any:
            return await anext(pieces, ENDED)

        return await self._run(work)

    async def _run(self, work: Callable[[], Any]) -> Any:
        if self.loop is asyncio.get_running_loop():
            return await work()
        coroutine = work()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError as error:
            coroutine.close()
            raise ModelUnavailable("the event loop of the program that started the run is closed") from error
        return await asyncio.wrap_future(future)


OWN_LOOP = CallsHere()


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
