"""Chance that follows from a seed. Each use has a source of its own, so that one does not shift the others."""

from random import Random


def chance_of(seed: int | str, use: str) -> Random:
    return Random(f"{seed}:{use}")  # noqa: S311 - it must be repeatable, not secret
