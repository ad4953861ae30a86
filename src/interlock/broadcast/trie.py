"""An index of patterns: the cost of a lookup depends on the segments of the type, not on the number of patterns.

Rule 1: it gives the same result as `matches` for each pattern alone; a test compares the two.
Rule 2: results are cached until a pattern is added or removed.
"""

from typing import Any, Generic, TypeVar

from interlock.broadcast.pattern import segments_of

T = TypeVar("T")

# Types whose result is cached. A busy crew announces dozens of types.
ANSWERS_MAX = 10_000

_Node = dict[Any, Any]

# The key of a node's values, added with the pattern that ends there. No segment is None.
_HERE = None


class PatternTrie(Generic[T]):
    """Values by pattern. A value may be added with several patterns, once with each."""

    def __init__(self) -> None:
        self._root: _Node = {}
        self._answers: dict[str, tuple[T, ...]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, pattern: str, value: T) -> bool:
        """Adds a value; true if it is new. An empty pattern matches nothing and is not stored."""
        segments = segments_of(pattern)
        if not segments:
            return False
        node = self._root
        for segment in segments:
            node = node.setdefault(segment, {})
        here = node.setdefault(_HERE, {})
        if value in here:
            return False
        here[value] = True
        self._count += 1
        self._answers.clear()
        return True

    def remove(self, pattern: str, value: T) -> bool:
        """Removes a value; true if it was there."""
        path: list[tuple[_Node, str]] = []
        node = self._root
        for segment in segments_of(pattern):
            if segment not in node:
                return False
            path.append((node, segment))
            node = node[segment]
        if value not in node.get(_HERE, ()):
            return False
        del node[_HERE][value]
        self._count -= 1
        self._answers.clear()
        _prune(node, path)
        return True

    def match(self, kind: str) -> tuple[T, ...]:
        """The values of all patterns that match the type; a value is repeated for each of its patterns that match."""
        found = self._answers.get(kind)
        if found is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            found = self._answers[kind] = self._find_matches(kind)
        return found

    def _find_matches(self, kind: str) -> tuple[T, ...]:
        segments = segments_of(kind)
        if not segments:
            return ()
        nodes = [self._root]
        for segment in segments:
            following = []
            for node in nodes:  # most have neither, and `in` is cheaper than `get`
                if segment in node:
                    following.append(node[segment])
                if "*" in node and segment != "*":
                    following.append(node["*"])
            if not following:
                return ()
            nodes = following
        found: list[T] = []
        for node in nodes:
            if _HERE in node:
                found += node[_HERE]
        return tuple(found)


def _prune(node: _Node, path: list[tuple[_Node, str]]) -> None:
    """Removes empty nodes, so that repeated subscribing and unsubscribing costs no memory."""
    if not node.get(_HERE):
        node.pop(_HERE, None)
    for parent, segment in reversed(path):
        if parent[segment]:
            return
        del parent[segment]
