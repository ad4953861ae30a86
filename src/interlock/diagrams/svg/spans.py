"""Spans on parallel tracks or lanes, and the number of the track of each."""

from typing import TypeVar

Key = TypeVar("Key")
Spans = dict[Key, tuple[float, float]]


def widen(spans: Spans[Key], key: Key, start: float, end: float) -> None:
    """Widens the span of the key so that it covers both ends."""
    low, high = spans.get(key, (start, end))
    spans[key] = (min(low, start, end), max(high, start, end))


def assign_tracks(spans: Spans[Key], most: int) -> dict[Key, int]:
    """Assigns a number to each span; overlapping spans differ as long as `most` numbers are enough."""
    numbers: dict[Key, int] = {}
    ends: list[float] = []
    for key, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        free = next((n for n, last in enumerate(ends) if last < start), len(ends))
        if free == most:
            free = len(numbers) % most
        ends[free : free + 1] = [end]
        numbers[key] = free
    return numbers
