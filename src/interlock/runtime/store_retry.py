"""Retries while the store is away, until it is back."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock.errors import StoreFailed
from interlock.ports import Clock

# How long to wait before a store that is away is asked again; longer after the first ten tries.
STORE_RETRY_MS = 500
STORE_RETRY_MAX_MS = 5_000

T = TypeVar("T")


async def retry_while_store_away(clock: Clock, ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until the store answers; raises an error that does not pass by waiting."""
    tries = 0
    while True:
        try:
            return await ask()
        except StoreFailed as error:
            if not error.passes:
                raise
        tries += 1
        await clock.sleep_until(clock.monotonic_ms() + retry_ms(tries))


def retry_ms(tries: int) -> int:
    return min(STORE_RETRY_MS * max(1, tries // 10), STORE_RETRY_MAX_MS)
