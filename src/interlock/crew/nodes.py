"""A document as it was written: values with their places. An adapter reads YAML into this form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import msgspec

PathPart = str | int
Path = tuple[PathPart, ...]


# A document has tens of thousands of these two. They cannot be part of a reference cycle, so the garbage collector
# need not scan them while a document is read.
class SourceLocation(msgspec.Struct, frozen=True, gc=False):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int


class ForeignValue(msgspec.Struct, frozen=True, gc=False):
    """A value of a Python program that no crew file can have; `summary` tells it in problems."""

    summary: str

    def __repr__(self) -> str:
        return self.summary


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """One value. `text` is its spelling, for keys that are text even if the value looks like a number."""

    value: str | int | float | bool | ForeignValue | None
    text: str
    place: SourceLocation


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple["Node", ...]
    place: SourceLocation


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys in file order; the reader reports a duplicate key, and the first one is used."""

    entries: tuple[tuple[Scalar, "Node"], ...]
    place: SourceLocation
    _index: dict[str, tuple[Scalar, "Node"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.entries:
            self._index.setdefault(entry[0].text, entry)

    def __iter__(self) -> Iterator[tuple[str, Scalar, "Node"]]:
        return ((name, key, node) for name, (key, node) in self._index.items())

    def get(self, name: str) -> "Node | None":
        entry = self._index.get(name)
        return entry[1] if entry else None

    def key(self, name: str) -> Scalar | None:
        entry = self._index.get(name)
        return entry[0] if entry else None


Node = Scalar | Sequence | Mapping


def node_at(root: Node, path: Path) -> Node | None:
    """The node at `path`, if it was written."""
    node: Node | None = root
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str):
            node = node.get(part)
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def location_of(root: Node, path: Path) -> SourceLocation:
    """The place of the node at `path`, or of the innermost part of the path that was written."""
    while path and node_at(root, path) is None:
        path = path[:-1]
    node = node_at(root, path)
    assert node is not None, "the empty path leads to the root"
    holder = node_at(root, path[:-1]) if path else None
    # For a container, or an empty value, the key is the better place to point at.
    if isinstance(holder, Mapping) and (not isinstance(node, Scalar) or not node.text):
        key = holder.key(str(path[-1]))
        assert key is not None, "the holder gave the node by this key"
        return key.place
    return node.place


def path_text(path: Path) -> str:
    """`routing.signals.teacher[2].target`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def summary_of(node: Node) -> str:
    """A short description of the value as written."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool):
        return str(node.value).lower()
    return repr(node.value) if len(node.text) <= 40 else repr(node.text[:37] + "...")


def plain_value(node: Node) -> Any:
    """The value without its places."""
    if isinstance(node, Mapping):
        return {name: plain_value(inner) for name, _, inner in node}
    return [plain_value(item) for item in node.items] if isinstance(node, Sequence) else node.value


def scalar_without_json(node: Node) -> Scalar | None:
    """The first value in the node that JSON does not have."""
    if isinstance(node, Scalar):
        is_number = not isinstance(node.value, float) or isfinite(node.value)
        return None if is_number and not isinstance(node.value, ForeignValue) else node
    inner = (inner for _, _, inner in node) if isinstance(node, Mapping) else iter(node.items)
    return next((found for found in map(scalar_without_json, inner) if found is not None), None)
