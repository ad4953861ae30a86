"""How often somebody may ask: a bucket each, filled at a steady rate."""

from interlock.ports import Clock

# Whose buckets are kept; the one unused for longest is forgotten first, and is full again when it comes back.
BUCKETS_MAX = 10_000


class Rates:
    """`per_second` in the long run, and `burst` at once."""

    def __init__(self, clock: Clock, per_second: float, burst: float) -> None:
        self._clock, self._per_ms, self._burst = clock, per_second / 1000, max(1.0, burst)
        self._left: dict[str, tuple[float, int]] = {}

    def wait_ms(self, who: str) -> int:
        """0, and one taken, if there is one to take; else how long until there will be."""
        now = self._clock.monotonic_ms()
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_ms)
        taken = left >= 1
        if len(self._left) >= BUCKETS_MAX:
            del self._left[next(iter(self._left))]
        self._left[who] = (left - 1 if taken else left, now)
        return 0 if taken else max(1, round((1 - left) / self._per_ms))
