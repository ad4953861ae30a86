"""Incoming events without the secrets of the host.

Rule 1: it happens before the engine sees an event, so that what is journalled is what the engine saw, and a replay
concludes the same.
Rule 2: every text that comes from outside is looked at; ids, names, digests and keys of JSON objects stay as they are.
A test fills every field of every incoming event with a secret, and looks what is left.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.broadcast.record import Heard
from interlock.engine.events import (
    NO_CONTEXT,
    ApprovalNeeded,
    BroadcastHeard,
    CancelRequested,
    ChildReturned,
    CrewContext,
    DriveFailed,
    Entry,
    IncomingEvent,
    MailTaken,
    MessageGiven,
    ModelFailed,
    ModelReplied,
    ParkRequested,
    RunResumed,
    RunStarted,
    ToolRequest,
    ToolReturned,
)
from interlock.frames import Frame, requote

S = TypeVar("S", bound=msgspec.Struct)


class Redactor(Protocol):
    """Takes the secrets it knows out of what it is given; what holds none is given back as it is."""

    def hidden(self, text: str) -> str: ...

    def hidden_json(self, text: str) -> str: ...

    def hidden_value(self, value: Any) -> Any: ...


def redact_event(event: IncomingEvent, by: Redactor) -> IncomingEvent:
    redact = _REDACTORS.get(type(event))
    return redact(event, by) if redact is not None else event


def _replaced(struct: S, **values: Any) -> S:
    """The struct itself where nothing has changed, which is nearly always."""
    changed = {name: value for name, value in values.items() if value != getattr(struct, name)}
    return msgspec.structs.replace(struct, **changed) if changed else struct


def _started(event: RunStarted, by: Redactor) -> RunStarted:
    text, frames = _with_frames(event.input, event.frames, by)
    return _replaced(
        event,
        input=text,
        frames=frames,
        by=by.hidden(event.by),
        history=_entries(event.history, by),
        context=event.context if event.context is NO_CONTEXT else _context(event.context, by),
        heard=None if event.heard is None else _heard(event.heard, by),
    )


def _context(context: CrewContext, by: Redactor) -> CrewContext:
    return _replaced(
        context,
        original_input=by.hidden(context.original_input),
        previous_results=by.hidden_value(context.previous_results),
        shared_memory=by.hidden_value(context.shared_memory),
        parent_history=_entries(context.parent_history, by),
    )


def _entries(entries: tuple[Entry, ...], by: Redactor) -> tuple[Entry, ...]:
    return tuple(_entry(entry, by) for entry in entries)


def _entry(entry: Entry, by: Redactor) -> Entry:
    text, frames = _with_frames(entry.text, entry.frames or (), by)
    return _replaced(entry, text=text, frames=frames or msgspec.UNSET)


def _with_frames(text: str, frames: tuple[Frame, ...], by: Redactor) -> tuple[str, tuple[Frame, ...]]:
    """A text and its frames; none if a secret begins in the words of one and ends in those of another."""
    hidden = by.hidden(text)
    if hidden == text or not frames:
        return hidden, frames
    said = requote(text, frames, by.hidden)
    return (said.text, said.frames) if by.hidden(said.text) == said.text else (hidden, ())


def _heard(heard: Heard, by: Redactor) -> Heard:
    return _replaced(heard, broadcast=_replaced(heard.broadcast, data=by.hidden_value(heard.broadcast.data)))


def _replied(event: ModelReplied, by: Redactor) -> ModelReplied:
    if not event.tool_calls:
        return _replaced(event, text=by.hidden(event.text))
    return _replaced(event, text=by.hidden(event.text), tool_calls=tuple(_call(each, by) for each in event.tool_calls))


def _call(call: ToolRequest, by: Redactor) -> ToolRequest:
    """Id and name are the model's own words, and not yet ids of ours."""
    return _replaced(call, id=by.hidden(call.id), name=by.hidden(call.name), arguments=by.hidden_json(call.arguments))


def _failed(event: ModelFailed, by: Redactor) -> ModelFailed:
    return _replaced(event, error=by.hidden(event.error))


def _returned(event: ToolReturned, by: Redactor) -> ToolReturned:
    return _replaced(event, output=by.hidden(event.output))


def _resumed(event: RunResumed, by: Redactor) -> RunResumed:
    return _replaced(event, input=by.hidden(event.input), by=by.hidden(event.by))


def _cancelled(event: CancelRequested, by: Redactor) -> CancelRequested:
    return _replaced(event, by=by.hidden(event.by))


def _held(event: ApprovalNeeded, by: Redactor) -> ApprovalNeeded:
    return _replaced(event, fault=by.hidden(event.fault))


def _broadcast(event: BroadcastHeard, by: Redactor) -> BroadcastHeard:
    return _replaced(event, heard=_heard(event.heard, by))


def _mail(event: MailTaken, by: Redactor) -> MailTaken:
    return _replaced(event, heard=tuple(_heard(each, by) for each in event.heard))


def _child(event: ChildReturned, by: Redactor) -> ChildReturned:
    return _replaced(
        event,
        text=by.hidden(event.text),
        detail=by.hidden(event.detail),
        memory=by.hidden_value(event.memory),
        history=_entries(event.history, by),
    )


def _message(event: MessageGiven, by: Redactor) -> MessageGiven:
    return _replaced(event, body=by.hidden_value(event.body))


def _parked(event: ParkRequested, by: Redactor) -> ParkRequested:
    return _replaced(event, hindrance=by.hidden(event.hindrance))


def _not_driven(event: DriveFailed, by: Redactor) -> DriveFailed:
    return _replaced(event, error=by.hidden(event.error))


_REDACTORS: dict[type, Callable[[Any, Redactor], Any]] = {
    RunStarted: _started,
    ModelReplied: _replied,
    ModelFailed: _failed,
    ToolReturned: _returned,
    RunResumed: _resumed,
    CancelRequested: _cancelled,
    ApprovalNeeded: _held,
    BroadcastHeard: _broadcast,
    MailTaken: _mail,
    ChildReturned: _child,
    MessageGiven: _message,
    DriveFailed: _not_driven,
    ParkRequested: _parked,
}
