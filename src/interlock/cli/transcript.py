"""What was said and done in a run, as lines for people: the same whether they are printed or shown in a live view."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.cli.crews import shown

Kind = Literal["speaker", "said", "note", "printed", "log"]

# Every event has them, so they say nothing about this one.
_COMMON = ("run", "seq", "at", "type")
_NOTED = ("handoff", "group.started", "group.joined", "nudged", "limit.reached", "warning")


class Line(NamedTuple):
    """One safe line: no letter of it acts on a terminal."""

    kind: Kind
    text: str


def lines_of(event: dict[str, Any]) -> Iterator[Line]:
    """The lines that an event adds to the transcript; most add none."""
    match event["type"]:
        case "model.replied" if event["text"]:
            yield Line("speaker", f"{shown(event['agent'])}:")
            yield from (Line("said", f"  {shown(line)}") for line in event["text"].splitlines())
        case "model.failed":
            yield Line("note", f"  {shown(event['agent'])} got no reply: {shown(event['error'])}")
        case "tool.called":
            arguments = _as_text(event["arguments"])
            yield Line("note", f"  {shown(event['agent'])} uses {shown(event['name'])} {shown(arguments)}")
        case "tool.returned" if not event["ok"]:
            yield Line("note", f"  the tool failed: {shown(event['output'])}")
        case kind if kind in _NOTED:
            rest = " ".join(f"{key}={_as_word(value)}" for key, value in event.items() if key not in _COMMON)
            yield Line("note", f"  {kind} {shown(rest)}")
        case _:
            return


def _as_word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
