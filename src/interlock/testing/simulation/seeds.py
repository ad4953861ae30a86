"""Random numbers from a seed. Each use has its own source, so that one does not shift the others."""

from random import Random


def chance_of(seed: int | str, use: str) -> Random:
    return Random(f"{seed}:{use}")  # noqa: S311 - it must be repeatable, not secret
