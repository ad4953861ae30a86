"""The clock.

Rule: wall-clock time comes from the clock of the store (`OpenedStore.clock`): processes on several machines compare
it with stored times. Monotonic time is that of this process.
"""

from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for people and journals, monotonic time for timeouts."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    async def sleep_until(self, monotonic_ms: int) -> None: ...
