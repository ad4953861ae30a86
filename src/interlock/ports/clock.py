"""The clock."""

from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for people and journals, monotonic time for timeouts."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    async def sleep_until(self, monotonic_ms: int) -> None: ...
