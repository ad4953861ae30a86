"""Where the values of a document stand in its text, for whoever edits the text and leaves the rest as it is.

Positions are indices of characters. A document comes here after `yaml_documents` has read it without a problem.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class Written:
    """One value. `start` to `end` is what was written; of a container that is only its opening, if it has one."""

    start: int
    end: int
    column: int
    flow: bool = False
    entries: tuple[tuple["Written", "Written"], ...] | None = None  # of a mapping: keys and values
    items: tuple["Written", ...] = ()  # of a list
    name: str = ""  # of a key or another single value: what it says

    def get(self, name: str) -> "tuple[Written, Written] | None":
        """The key of this name with its value."""
        return next((entry for entry in self.entries or () if entry[0].name == name), None)


def layout_of(text: str) -> Written:
    """The root of a document that holds something."""
    events = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    first = next(event for event in events if isinstance(event, yaml.NodeEvent))
    return _written(first, events)


def _written(event: yaml.Event, events: Iterator[yaml.Event]) -> Written:
    first, last = event.start_mark, event.end_mark
    assert first is not None, "the parser marks every event"
    assert last is not None, "the parser marks every event"
    start, end, column = first.index, last.index, first.column
    if isinstance(event, yaml.MappingStartEvent):
        entries = tuple(_entries(events))
        return Written(start, end, column, bool(event.flow_style), entries)
    if isinstance(event, yaml.SequenceStartEvent):
        return Written(start, end, column, bool(event.flow_style), items=tuple(_items(events)))
    return Written(start, end, column, name=event.value if isinstance(event, yaml.ScalarEvent) else "")


def _items(events: Iterator[yaml.Event]) -> Iterator[Written]:
    while not isinstance(item := next(events), yaml.SequenceEndEvent):
        yield _written(item, events)


def _entries(events: Iterator[yaml.Event]) -> Iterator[tuple[Written, Written]]:
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        name = _written(key, events)
        yield name, _written(next(events), events)
