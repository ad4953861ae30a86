"""The measurements of every client, ours and the peers'."""

import asyncio
from collections.abc import Awaitable, Callable

PIECES = 20
MODEL = f"{PIECES}/0"
CALLS, TOGETHER = 50, 200

Call = Callable[[], Awaitable[str]]


async def in_a_row(call: Call) -> None:
    for _ in range(CALLS):
        await call()


async def together(call: Call) -> None:
    await asyncio.gather(*(call() for _ in range(TOGETHER)))
