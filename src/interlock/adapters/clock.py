"""The machine's clocks."""

import asyncio
import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep_until(self, monotonic_ms: int) -> None:
        await asyncio.sleep(max(0, monotonic_ms - self.monotonic_ms()) / 1000)
