"""The transcript of a run as lines, the same when printed and in the live view.

Rule 1: lines of a sub-crew are indented by one step per level, and carry its path.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.cli.crew_argument import safe_line
from interlock.cli.view.answer_hints import approval_text
from interlock.engine.events import CALLER
from interlock.engine.turns.model_calls import RETRIES_MAX
from interlock.ids import full_name, run_of
from interlock.messages.wire import EVERY_KEY, TYPES

Kind = Literal["speaker", "said", "note", "printed", "log"]

# Tools that send a message, which has its own line.
_MESSAGE_TOOLS = ("delegate", "report", "query_parent", "answer_child", "ask_user")
_MESSAGE_EVENTS = ("message.sent", "message.settled", "children.selected", "report.checked")
_NOTE_EVENTS = ("handoff", "group.started", "group.joined", "nudged", "limit.reached", "warning")

# Of the input of a sub-crew; its run has all of it.
INPUT_CHARS_MAX = 100

# The indentation per level of sub-crews.
STEP = "  "


class TranscriptLine(NamedTuple):
    """A line without control characters."""

    kind: Kind
    text: str


def lines_of(event: dict[str, Any]) -> Iterator[TranscriptLine]:
    """The lines that an event adds to the transcript; most add none."""
    path = event.get("path", ()) if event["type"] != "run.started" else ()
    for line in _speech_lines(event, path) or _note_lines(event, path):
        yield TranscriptLine(line.kind, STEP * len(path) + line.text)


def _speech_lines(event: dict[str, Any], path: tuple[str, ...]) -> list[TranscriptLine]:
    if event["type"] == "run.resumed" and event.get("input"):
        who = f"user ({event['by']}):" if event.get("by", CALLER) != CALLER else "user:"
        words = event["input"].splitlines()
        return [
            TranscriptLine("speaker", safe_line(who)),
            *(TranscriptLine("said", f"  {safe_line(line)}") for line in words),
        ]
    if event["type"] != "model.replied" or not event["text"] or event.get("purpose"):
        return []
    model = f" ({event['model']})" if event.get("model") else ""
    speaker = TranscriptLine("speaker", f"{safe_line(full_name(path, event['agent']) + model)}:")
    return [speaker, *(TranscriptLine("said", f"  {safe_line(line)}") for line in event["text"].splitlines())]


def _note_lines(event: dict[str, Any], path: tuple[str, ...]) -> list[TranscriptLine]:
    note = _note_text(event, path)
    return [TranscriptLine("note", f"  {safe_line(note)}")] if note else []


def _note_text(event: dict[str, Any], path: tuple[str, ...]) -> str:
    match event["type"]:
        case "model.failed":
            return _failure_note(event, path)
        case "model.lost":
            return f"{full_name(path, event['agent'])}: a model call was lost with its process, and is made again"
        case "tool.called" | "tool.returned":
            return _tool_note(event, path)
        case kind if kind in _MESSAGE_EVENTS:
            return _message_note(event, path)
        case "input.requested":
            return _question_note(event, path)
        case "run.resumed" | "cancel.requested" if event.get("by", CALLER) != CALLER:
            return _person_note(event)
        case "child.started" | "child.finished" | "run.paused":
            return _crew_note(event, path)
        case kind if kind in _NOTE_EVENTS:
            return _control_note(event, path)
        case _:
            return ""


def _failure_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """`attempt` and `retry_ms` are annotations; without them the call is not retried, or they are unknown."""
    tries = f" ({event['attempt'] + 1}/{RETRIES_MAX + 1})" if "attempt" in event and event.get("retry") else ""
    retry = f", retrying in {event['retry_ms'] / 1000:g} s" if "retry_ms" in event else ""
    return f"{full_name(path, event['agent'])}: model call failed{tries}{retry}: {event['error']}"


def _control_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """Transfers of control, limits and warnings."""
    where = f"{'/'.join(path)}: " if path else ""
    match event["type"]:
        case "handoff":
            way = f"{full_name(path, event['from'])} → {full_name(path, event['to'])}"
            return f"{way}  {event['signal']}" if event.get("signal") else way
        case "group.started":
            return f"{where}group {event['group']} started: {', '.join(event['members'])}"
        case "group.joined":
            return f"{where}group {event['group']} done" + (f" → {event['next']}" if event["next"] else "")
        case "nudged":
            return f"{full_name(path, event['agent'])} is asked again ({event['because']})"
        case "limit.reached":
            return f"{where}limit reached: {event['message'] or event['limit']}"
        case _:
            return f"{where}warning: {event['message']} ({event['code']})"


def _tool_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    name = event.get("name", "")
    if event["type"] == "tool.returned" and not event["ok"]:
        return f"{name or 'the tool'} failed: {event['output']}"
    if not name or name in _MESSAGE_TOOLS or event.get("again"):
        return ""  # the message itself, or the call before it was decided about, is shown
    if event["type"] == "tool.returned":
        return f"{name} returned {_shorten(event['output'])}"
    return f"{full_name(path, event['agent'])} uses {name} {_as_text(event['arguments'])}"


def _person_note(event: dict[str, Any]) -> str:
    """The user that continued or cancelled a run. An answer shows its user itself."""
    return f"{'cancelled' if event['type'] == 'cancel.requested' else 'continued'} by {event['by']}"


def _question_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """An approval, or a repeated question with the reason; a first question is shown as a message."""
    question, id_ = " ".join(approval_text(event["question"]).split()), event.get("message_id", "")
    if id_ and id_ != event["token"]:
        return f"{full_name(path, event['agent'])} asks again: {question}"
    return f"approval needed: {question}" if event.get("expects") and not id_ else ""


def _message_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """Messages between agents and people, and their outcome if it matters."""
    match event["type"]:
        case "message.sent":
            return _note_of_message(event, path)
        case "message.settled" if event["outcome"] != "answered":
            return f"message {event['message_id'].rpartition(':')[2]} is {event['outcome']}: {event['because']}"
        case "children.selected":
            return f"{full_name(path, event['agent'])} needs {', '.join(event['children']) or 'no child'}"
        case "report.checked" if not event["ok"]:
            return f"the report is not accepted ({event['by']}): {event['reason']}"
        case _:
            return ""


def _note_of_message(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """A message in short."""
    message = event["message"]
    said = _message_text(message)
    sender, addressee = (full_name(path, message[end]) if end in message else "user" for end in ("from", "to"))
    way = f"{sender} -> {addressee}"
    again = " again" if event["attempt"] else ""
    status = f" ({message['status']})" if message.get("status", "completed") != "completed" else ""
    why = f" (context: {_shorten(message['context'])})" if _has_question_context(message) else ""
    return f"{way} {message['type']}{again}{status}: {_shorten(said)}{why}"


def _message_text(message: dict[str, Any]) -> str:
    for key in ("task", "result", "question", "answer"):
        if message["type"] in TYPES and key in message:
            return str(message[key])
    return _as_text({key: value for key, value in message.items() if key not in EVERY_KEY})


def _has_question_context(message: dict[str, Any]) -> bool:
    return message["type"] == "REQUEST_USER_INPUT" and bool(message["context"])


def _crew_note(event: dict[str, Any], path: tuple[str, ...]) -> str:
    """Start, wait and end of a sub-crew."""
    match event["type"]:
        case "child.started":
            return f"{full_name(path, event['crew'])} started: {_shorten(event['input'])}"
        case "child.finished":
            return _end_of_sub_crew(event, path)
        case _ if path and run_of(event["token"]) == event["run"]:
            return f"{full_name(path, event['agent'])} waits: {event['reason']}"
        case _:  # the status of the whole run is printed at the end
            return ""


def _end_of_sub_crew(event: dict[str, Any], path: tuple[str, ...]) -> str:
    name = full_name(path, event["crew"])
    if event["status"] == "completed":
        return f"{name} finished ({event['reason'].removeprefix('signal:')})"
    return f"{name} {event['status']}: {event['reason']}"


def _shorten(text: str) -> str:
    first = text.strip().partition("\n")[0]
    whole = first == text.strip() and len(first) <= INPUT_CHARS_MAX
    return first if whole else f"{first[:INPUT_CHARS_MAX]} …"


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
