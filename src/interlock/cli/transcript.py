"""What was said and done in a run, as lines for people: the same whether they are printed or shown in a live view."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.cli.crews import shown

Kind = Literal["speaker", "said", "note", "printed", "log"]

# Every event has them, so they say nothing about this one.
_COMMON = ("run", "seq", "at", "type")
# Tools that send a message, which has a line of its own.
_SENDING = ("delegate", "report", "query_parent", "answer_child", "ask_user")
_OF_MAIL = ("message.sent", "message.settled", "children.selected", "report.checked")
_NOTED = ("handoff", "group.started", "group.joined", "nudged", "limit.reached", "warning")


class Line(NamedTuple):
    """One safe line: no letter of it acts on a terminal."""

    kind: Kind
    text: str


def lines_of(event: dict[str, Any]) -> Iterator[Line]:
    """The lines that an event adds to the transcript; most add none."""
    match event["type"]:
        case "model.replied" if event["text"] and not event["purpose"]:
            yield Line("speaker", f"{shown(event['agent'])}:")
            yield from (Line("said", f"  {shown(line)}") for line in event["text"].splitlines())
        case "model.failed":
            yield Line("note", f"  {shown(event['agent'])} got no reply: {shown(event['error'])}")
        case "tool.called" if event["name"] in _SENDING:
            return  # the message itself is shown
        case kind if kind in _OF_MAIL:
            yield from _mail(event)
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


def _mail(event: dict[str, Any]) -> Iterator[Line]:
    """What agents and people say to each other, and what became of it if that is worth a line."""
    match event["type"]:
        case "message.sent":
            yield from _letter(event)
        case "message.settled" if event["outcome"] != "answered":
            about = event["message_id"].rpartition(":")[2]
            yield Line("note", f"  message {about} is {event['outcome']}: {shown(event['because'])}")
        case "children.selected":
            names = ", ".join(event["children"]) or "nobody"
            yield Line("note", f"  {shown(event['agent'])} needs {shown(names)}")
        case "report.checked" if not event["ok"]:
            yield Line("note", f"  the report is not accepted ({event['by']}): {shown(event['reason'])}")
        case _:
            return


def _letter(event: dict[str, Any]) -> Iterator[Line]:
    """Who says what to whom; the first line of it."""
    message = event["message"]
    said = next(message[key] for key in ("task", "result", "question", "answer") if key in message)
    way = f"{message.get('from', 'user')} -> {message.get('to', 'user')}"
    again = " again" if event["attempt"] else ""
    status = f" ({message['status']})" if message.get("status", "completed") != "completed" else ""
    first, *rest = said.splitlines() or [""]
    yield Line("note", f"  {shown(way)} {message['type']}{again}{status}: {shown(first)}{' …' if rest else ''}")


def _as_word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
