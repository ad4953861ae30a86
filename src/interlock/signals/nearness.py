"""Suggestions for misspelled marks: known names that differ by one edit."""

from collections.abc import Iterable, Iterator

from interlock.signals.matching import normal_form


class NameSuggestions:
    """Finds a known name that differs from a mark by one edit: a letter added, lost, changed, or two swapped."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_variant: dict[str, list[str]] = {}
        self._longest = 0
        for name in names:
            key = normal_form(name[1:-1])
            self._longest = max(self._longest, len(key))
            for variant in _variants(key):
                self._by_variant.setdefault(variant, []).append(name)

    def nearest(self, inner: str) -> str | None:
        """The first known name within one edit; None for a known name itself."""
        key = normal_form(inner)
        if not key or len(key) > self._longest + 1:
            return None
        for variant in _variants(key):
            for name in self._by_variant.get(variant, ()):
                if _is_one_edit(key, normal_form(name[1:-1])):
                    return name
        return None


def _variants(key: str) -> Iterator[str]:
    """The key, and the key with each letter left out: near keys share one of these."""
    yield key
    for n in range(len(key)):
        yield key[:n] + key[n + 1 :]


def _is_one_edit(a: str, b: str) -> bool:
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    start = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[start:], b[start:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])
