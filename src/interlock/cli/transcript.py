"""What was said and done in a run, as lines for people: the same whether they are printed or shown in a live view.

Rule 1: what a crew says that another one called is set in by one step a level, and carries its path.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.cli.crews import shown
from interlock.engine.events import CALLER
from interlock.ids import placed, run_of
from interlock.messages.wire import EVERY_KEY, TYPES

Kind = Literal["speaker", "said", "note", "printed", "log"]

# Every event has them, so they say nothing about this one.
_COMMON = ("run", "seq", "at", "type", "path")
# Tools that send a message, which has a line of its own.
_SENDING = ("delegate", "report", "query_parent", "answer_child", "ask_user")
_OF_MAIL = ("message.sent", "message.settled", "children.selected", "report.checked")
_NOTED = ("handoff", "group.started", "group.joined", "nudged", "limit.reached", "warning")

# Of what a crew is called with; all of it is in the run.
INPUT_CHARS_MAX = 100

# What each level of crews is set in by.
STEP = "  "


class Line(NamedTuple):
    """One safe line: no letter of it acts on a terminal."""

    kind: Kind
    text: str


def lines_of(event: dict[str, Any]) -> Iterator[Line]:
    """The lines that an event adds to the transcript; most add none."""
    path = event.get("path", ()) if event["type"] != "run.started" else ()
    for line in _said(event, path) or _noted(event, path):
        yield Line(line.kind, STEP * len(path) + line.text)


def _said(event: dict[str, Any], path: tuple[str, ...]) -> list[Line]:
    if event["type"] == "run.resumed" and event.get("input"):
        who = f"user ({event['by']}):" if event.get("by", CALLER) != CALLER else "user:"
        words = event["input"].splitlines()
        return [Line("speaker", shown(who)), *(Line("said", f"  {shown(line)}") for line in words)]
    if event["type"] != "model.replied" or not event["text"] or event.get("purpose"):
        return []
    model = f" ({event['model']})" if event.get("model") else ""
    speaker = Line("speaker", f"{shown(placed(path, event['agent']) + model)}:")
    return [speaker, *(Line("said", f"  {shown(line)}") for line in event["text"].splitlines())]


def _noted(event: dict[str, Any], path: tuple[str, ...]) -> list[Line]:
    note = _note(event, path)
    return [Line("note", f"  {shown(note)}")] if note else []


def _note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    match event["type"]:
        case "model.failed":
            return f"{placed(path, event['agent'])} got no reply: {event['error']}"
        case "tool.called" | "tool.returned":
            return _tool_note(event, path)
        case kind if kind in _OF_MAIL:
            return _mail(event, path)
        case "input.requested":
            return _asked(event, path)
        case "run.resumed" | "cancel.requested" if event.get("by", CALLER) != CALLER:
            return _person(event)
        case "child.started" | "child.finished" | "run.paused":
            return _crew_note(event, path)
        case kind if kind in _NOTED:
            rest = " ".join(f"{key}={_as_word(value)}" for key, value in _fields(event).items())
            return f"{'/'.join(path)}: {kind} {rest}" if path else f"{kind} {rest}"
        case _:
            return ""


def _tool_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    name = event.get("name", "")
    if event["type"] == "tool.returned" and not event["ok"]:
        return f"{name or 'the tool'} failed: {event['output']}"
    if not name or name in _SENDING:
        return ""  # the message itself is shown
    if event["type"] == "tool.returned":
        return f"{name} returned {_in_short(event['output'])}"
    return f"{placed(path, event['agent'])} uses {name} {_as_text(event['arguments'])}"


def _person(event: dict[str, Any]) -> str:
    """Who continued or cancelled a run; who answers stands before the answer, and who starts one need not be told."""
    return f"{'cancelled' if event['type'] == 'cancel.requested' else 'continued'} by {event['by']}"


def _asked(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """An approval, or a question that is asked again and why; what is asked first is a message."""
    question, id_ = " ".join(event["question"].split()), event.get("message_id", "")
    if id_ and id_ != event["token"]:
        return f"{placed(path, event['agent'])} asks again: {question}"
    return f"approval needed: {question}" if event.get("expects") and not id_ else ""


def _mail(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """What agents and people say to each other, and what became of it if that is worth a line."""
    match event["type"]:
        case "message.sent":
            return _letter(event, path)
        case "message.settled" if event["outcome"] != "answered":
            return f"message {event['message_id'].rpartition(':')[2]} is {event['outcome']}: {event['because']}"
        case "children.selected":
            return f"{placed(path, event['agent'])} needs {', '.join(event['children']) or 'nobody'}"
        case "report.checked" if not event["ok"]:
            return f"the report is not accepted ({event['by']}): {event['reason']}"
        case _:
            return ""


def _letter(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """Who says what to whom, in short."""
    message = event["message"]
    said = _words_of(message)
    sender, addressee = (placed(path, message[end]) if end in message else "user" for end in ("from", "to"))
    way = f"{sender} -> {addressee}"
    again = " again" if event["attempt"] else ""
    status = f" ({message['status']})" if message.get("status", "completed") != "completed" else ""
    why = f" (context: {_in_short(message['context'])})" if _is_asked_with_context(message) else ""
    return f"{way} {message['type']}{again}{status}: {_in_short(said)}{why}"


def _words_of(message: dict[str, Any]) -> str:
    for key in ("task", "result", "question", "answer"):
        if message["type"] in TYPES and key in message:
            return str(message[key])
    return _as_text({key: value for key, value in message.items() if key not in EVERY_KEY})


def _is_asked_with_context(message: dict[str, Any]) -> bool:
    return message["type"] == "REQUEST_USER_INPUT" and bool(message["context"])


def _crew_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """Of crews that are called: they begin, wait for a person, and come back."""
    match event["type"]:
        case "child.started":
            return f"{placed(path, event['crew'])} is called: {_in_short(event['input'])}"
        case "child.finished":
            return f"{placed(path, event['crew'])} comes back: {event['status']}, {event['reason']}"
        case _ if path and run_of(event["token"]) == event["run"]:
            return f"{placed(path, event['agent'])} waits: {event['reason']}"
        case _:  # how the whole run stands is said in the end
            return ""


def _in_short(text: str) -> str:
    first = text.strip().partition("\n")[0]
    whole = first == text.strip() and len(first) <= INPUT_CHARS_MAX
    return first if whole else f"{first[:INPUT_CHARS_MAX]} …"


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    """What is particular to an event; the numbers of a limit stand in its message."""
    if event["type"] == "limit.reached":
        return {key: event[key] for key in ("limit", "message") if event[key]}
    return {key: value for key, value in event.items() if key not in _COMMON}


def _as_word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
