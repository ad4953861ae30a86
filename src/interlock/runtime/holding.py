"""Waiting for a store that is away: what is to be done is held, and tried again until the store is back."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock.errors import StoreFailed
from interlock.ports import Clock

# While the store is away it is asked again after this many milliseconds, and less often after the first ten times.
STORE_RETRY_MS = 500
STORE_RETRY_MAX_MS = 5_000

T = TypeVar("T")


async def while_away(clock: Clock, ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until the store answers; raises a failure that waiting does not mend."""
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
