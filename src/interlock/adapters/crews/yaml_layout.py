"""The positions of a document's values in its text, for edits that leave the rest unchanged.

Positions are character indices. The document must have been read by `yaml_documents` without a problem.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """One value. `start` to `end` is its text; for a container only its opening sign, if it has one."""

    start: int
    end: int
    column: int
    flow: bool = False
    entries: tuple[tuple["ValueSpan", "ValueSpan"], ...] | None = None  # of a mapping: keys and values
    items: tuple["ValueSpan", ...] = ()  # of a list
    name: str = ""  # of a key or another single value

    def get(self, name: str) -> "tuple[ValueSpan, ValueSpan] | None":
        """The key of this name with its value."""
        return next((entry for entry in self.entries or () if entry[0].name == name), None)


def layout_of(text: str) -> ValueSpan:
    """The root of a document that is not empty."""
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    first = next(event for event in events if isinstance(event, yaml.NodeEvent))
    return _read_span(first, events)


def _read_span(event: yaml.Event, events: Iterator[yaml.Event]) -> ValueSpan:
    first, last = event.start_mark, event.end_mark
    assert first is not None, "the parser marks every event"
    assert last is not None, "the parser marks every event"
    start, end, column = first.index, last.index, first.column
    if isinstance(event, yaml.MappingStartEvent):
        entries = tuple(_entries(events))
        return ValueSpan(start, end, column, bool(event.flow_style), entries)
    if isinstance(event, yaml.SequenceStartEvent):
        return ValueSpan(start, end, column, bool(event.flow_style), items=tuple(_items(events)))
    return ValueSpan(start, end, column, name=event.value if isinstance(event, yaml.ScalarEvent) else "")


def _items(events: Iterator[yaml.Event]) -> Iterator[ValueSpan]:
    while not isinstance(item := next(events), yaml.SequenceEndEvent):
        yield _read_span(item, events)


def _entries(events: Iterator[yaml.Event]) -> Iterator[tuple[ValueSpan, ValueSpan]]:
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        name = _read_span(key, events)
        yield name, _read_span(next(events), events)
