"""Subscriptions and types for our measurements and those of the peers."""

from collections.abc import Iterator
from random import Random

SUBSCRIPTIONS = 100_000
TYPES = 2_000


def patterns(number: int) -> list[str]:
    """About `number` distinct patterns of three segments; a tenth of them have one or two wildcards."""
    return list(dict.fromkeys(_patterns(number)))


def _patterns(number: int) -> Iterator[str]:
    chance = Random(7)
    for n in range(number):
        segments = [f"area{n % 50}", f"project{n % 5_000}", f"what{n}"]
        if chance.random() < 0.1:
            segments[chance.randrange(3)] = "*"
        if chance.random() < 0.01:
            segments[1] = segments[2] = "*"
        yield ":".join(segments)


def kinds() -> list[str]:
    chance = Random(8)
    picked = [chance.randrange(SUBSCRIPTIONS) for _ in range(TYPES)]
    return [f"area{n % 50}:project{n % 5_000}:what{n}" for n in picked]
