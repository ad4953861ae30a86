"""Suggestions for a misspelled name."""

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str], otherwise: str) -> str:
    """Advice for an unknown word: the closest known one, or `otherwise`."""
    near = closest(word, known)
    return f"did you mean '{near}'?" if near is not None else otherwise


def closest(word: str, known: Sequence[str]) -> str | None:
    if len(known) > 200:  # comparing with thousands of names costs more than the advice is worth
        known = [name for name in known if name[:2] == word[:2] and abs(len(name) - len(word)) < 3][:200]
    # All signals share brackets and upper case, so these must not make two of them similar.
    inner = {name.strip("[]").lower(): name for name in reversed(known)}
    found = get_close_matches(word.strip("[]").lower(), list(reversed(inner)), n=1, cutoff=0.6)
    return inner[found[0]] if found else None
