"""Python values as nodes of a document: the form that the reader of crew files makes too.

Rule: a value that no crew file can have becomes a problem of the key that has it, never an exception.
"""

import math
import os
from collections.abc import Callable, Sized
from collections.abc import Mapping as AnyMapping
from enum import Enum

from interlock.authoring.call_places import Spot
from interlock.crew.nodes import ForeignValue, Mapping, Node, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.limits import YAML_DEPTH_MAX

# As in files: at most 18 digits.
_WHOLE_MAX = 10**18

Entry = tuple[Scalar, Node]


class NodeMaker:
    """Makes nodes. `node_of_object` gives the node of an object of this package, such as the id of an agent."""

    def __init__(self, problems: Problems, node_of_object: Callable[[object, Spot], Node | None] | None = None) -> None:
        self._problems, self._node_of_object = problems, node_of_object

    def node(self, value: object, spot: Spot, depth: int = 0) -> Node:
        if depth > YAML_DEPTH_MAX:
            return self.foreign(f"a value nested deeper than {YAML_DEPTH_MAX} levels", spot)
        if isinstance(value, AnyMapping):
            return self.mapping(value, spot, depth)
        if isinstance(value, list | tuple):
            items = zip(value, spot.items(len(value)), strict=True)
            return Sequence(tuple(self.node(item, each, depth + 1) for item, each in items), spot.place)
        found = self._node_of_object(value, spot) if self._node_of_object is not None else None
        return found if found is not None else self._scalar(value, spot)

    def scalar(self, value: object, spot: Spot) -> Scalar:
        """The node of a value that must be a single one, such as a key."""
        node = self.node(value, spot)
        return node if isinstance(node, Scalar) else self.foreign(_summary(value), spot)

    def foreign(self, summary: str, spot: Spot) -> Scalar:
        """The node of a value that no key takes."""
        return Scalar(ForeignValue(summary), summary, spot.place)

    def _scalar(self, value: object, spot: Spot) -> Scalar:
        if isinstance(value, Enum) and isinstance(value.value, str | int | float):
            value = value.value
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if value is None or isinstance(value, bool):
            return Scalar(value, "" if value is None else str(value).lower(), spot.place)
        if isinstance(value, str):
            return self._text(value, spot)
        if isinstance(value, int) and abs(value) < _WHOLE_MAX:
            return Scalar(int(value), str(int(value)), spot.place)
        if isinstance(value, float) and math.isfinite(value):
            return Scalar(float(value), str(float(value)), spot.place)
        return self.foreign(_summary(value), spot)

    def _text(self, value: str, spot: Spot) -> Scalar:
        text = str.__str__(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            return self.foreign("text that is not Unicode", spot)
        return Scalar(text, text, spot.place)

    def mapping(self, value: AnyMapping[object, object], spot: Spot, depth: int = 0) -> Mapping:
        self.report_double_keys(spot)
        entries: list[Entry] = []
        for (key, inner), (at, below) in zip(value.items(), spot.entries(list(value)), strict=True):
            name = self.scalar(key, at)
            if isinstance(name.value, str | int) and not isinstance(name.value, bool):
                entries.append((name, self.node(inner, below, depth + 1)))
            else:
                self._report("bad-value", f"a key must be text, got {_summary(key)}", at, "write the key as text")
        return self.without_doubles(entries, spot)

    def without_doubles(self, entries: list[Entry], spot: Spot) -> Mapping:
        """A mapping of these entries; a second one of the same name is a problem."""
        found: dict[str, Entry] = {}
        for entry in entries:
            key = entry[0]
            if key.text in found:
                message = f"key '{key.text}' is there twice, first in line {found[key.text][0].place.line}"
                self._problems.add("duplicate-key", message, place=key.place, fix="remove one of the two")
            else:
                found[key.text] = entry
        return Mapping(tuple(found.values()), spot.place)

    def report_double_keys(self, spot: Spot) -> None:
        for name, second, line in spot.double_keys():
            message = f"key '{name}' is there twice, first in line {line}"
            self._report("duplicate-key", message, second, "remove one of the two")

    def _report(self, code: str, message: str, spot: Spot, fix: str) -> None:
        self._problems.add(code, message, place=spot.place, fix=fix)


def key_at(name: str, spot: Spot) -> Scalar:
    return Scalar(name, name, spot.place)


def text_at(text: str, spot: Spot) -> Scalar:
    return Scalar(text, text, spot.place)


def _summary(value: object) -> str:
    if value is None or isinstance(value, bool | float):
        return str(value)
    if isinstance(value, int):
        return "a whole number of more than 18 digits"
    name = getattr(value, "__name__", "")
    of = f" '{name}'" if isinstance(name, str) and name else ""
    empty = " (empty)" if isinstance(value, Sized) and not isinstance(value, type) and not len(value) else ""
    return f"a Python {type(value).__name__}{of}{empty}"
