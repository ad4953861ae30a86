"""Rate limits: a token bucket per caller."""

from interlock.ports import Clock

# Buckets that are kept; the least recently used is dropped first, and is full when its caller returns.
BUCKETS_MAX = 10_000


class RateLimiter:
    """A limit of `per_second` on average, and of `burst` at once."""

    def __init__(self, clock: Clock, per_second: float, burst: float) -> None:
        self._clock, self._per_ms, self._burst = clock, per_second / 1000, max(1.0, burst)
        self._left: dict[str, tuple[float, int]] = {}

    def take_token_or_wait_ms(self, who: str) -> int:
        """Takes a token and returns 0; if there is none, returns the seconds until there is one."""
        now = self._clock.monotonic_ms()
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_ms)
        taken = left >= 1
        if len(self._left) >= BUCKETS_MAX:
            del self._left[next(iter(self._left))]
        self._left[who] = (left - 1 if taken else left, now)
        return 0 if taken else max(1, round((1 - left) / self._per_ms))
