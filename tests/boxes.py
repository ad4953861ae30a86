"""A box for the time of a story, in tests of commands: each of those runs a loop of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock import Interlock

T = TypeVar("T")


def inside(box: Interlock, ask: Callable[[Interlock], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with box:
            return await ask(box)

    return asyncio.run(asked())
