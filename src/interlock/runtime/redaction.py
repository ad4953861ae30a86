"""Incoming events without the secrets of the host.

Rule 1: it happens before the engine sees an event, so that the journal holds what the engine saw, and a replay
concludes the same.
Rule 2: every text from outside is redacted; ids, names, digests and keys of JSON objects stay as they are.
A test fills every field of every incoming event with a secret, and checks what is left.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.broadcast.record import ReceivedBroadcast
from interlock.engine.events import (
    NO_CONTEXT,
    ApprovalNeeded,
    BroadcastHeard,
    CancelRequested,
    ChildReturned,
    CrewContext,
    DriveFailed,
    Entry,
    HookedReply,
    HooksDecided,
    HookVerdict,
    IncomingEvent,
    MailTaken,
    MessageGiven,
    ModelFailed,
    ModelReplied,
    OutputVerdict,
    ParkRequested,
    RunResumed,
    RunStarted,
    ToolDecided,
    ToolRequest,
    ToolReturned,
)
from interlock.engine.events.values import redact_reasoning
from interlock.messages.frames import Frame, requote

S = TypeVar("S", bound=msgspec.Struct)

_REDACTED = "a secret of the host was in it"


class Redactor(Protocol):
    """Replaces the secrets it knows; a value without secrets is returned as it is."""

    def redact(self, text: str) -> str: ...

    def redact_json(self, text: str) -> str: ...

    def redact_value(self, value: Any) -> Any: ...


def redact_event(event: IncomingEvent, by: Redactor) -> IncomingEvent:
    redact = _REDACTORS.get(type(event))
    return redact(event, by) if redact is not None else event


def _replace_changed(struct: S, **values: Any) -> S:
    """The struct itself where nothing has changed, which is nearly always."""
    changed = {name: value for name, value in values.items() if value != getattr(struct, name)}
    return msgspec.structs.replace(struct, **changed) if changed else struct


def _redact_verdict_if_any(verdict: HookVerdict | None, by: Redactor) -> HookVerdict | None:
    return None if verdict is None else _redact_verdict(verdict, by)


def _redact_verdict(verdict: HookVerdict, by: Redactor) -> HookVerdict:
    """Names of hooks stay; their reasons, questions and replacements are texts of the host."""
    decisions = tuple(_replace_changed(each, reason=by.redact(each.reason)) for each in verdict.decisions)
    replacement = None if verdict.replacement is None else by.redact_json(verdict.replacement)
    return _replace_changed(verdict, decisions=decisions, replacement=replacement, question=by.redact(verdict.question))


def _redact_original(original: HookedReply | None, by: Redactor) -> HookedReply | None:
    if original is None:
        return None
    calls = tuple(_redact_tool_request(each, by) for each in original.tool_calls)
    return _replace_changed(original, text=by.redact(original.text), tool_calls=calls)


def _redact_hooks_decided(event: HooksDecided, by: Redactor) -> HooksDecided:
    verdict, output = _redact_verdict(event.verdict, by), event.output
    if output is not None and verdict.replacement != event.verdict.replacement:
        output = OutputVerdict(fault=_REDACTED)  # what was checked is not what is left
    return _replace_changed(event, verdict=verdict, output=None if output is None else _redact_output(output, by))


def _redact_output(output: OutputVerdict, by: Redactor) -> OutputVerdict:
    return _replace_changed(output, fault=by.redact(output.fault), at_end=by.redact(output.at_end))


def _redact_run_started(event: RunStarted, by: Redactor) -> RunStarted:
    text, frames = _redact_with_frames(event.input, event.frames, by)
    return _replace_changed(
        event,
        input=text,
        frames=frames,
        by=by.redact(event.by),
        user=by.redact(event.user),
        history=_redact_entries(event.history, by),
        context=event.context if event.context is NO_CONTEXT else _redact_context(event.context, by),
        heard=None if event.heard is None else _redact_received_broadcast(event.heard, by),
        verdict=_redact_verdict_if_any(event.verdict, by),
    )


def _redact_context(context: CrewContext, by: Redactor) -> CrewContext:
    return _replace_changed(
        context,
        original_input=by.redact(context.original_input),
        previous_results=by.redact_value(context.previous_results),
        shared_memory=by.redact_value(context.shared_memory),
        parent_history=_redact_entries(context.parent_history, by),
    )


def _redact_entries(entries: tuple[Entry, ...], by: Redactor) -> tuple[Entry, ...]:
    return tuple(_redact_entry(entry, by) for entry in entries)


def _redact_entry(entry: Entry, by: Redactor) -> Entry:
    text, frames = _redact_with_frames(entry.text, entry.frames or (), by)
    return _replace_changed(entry, text=text, frames=frames or msgspec.UNSET)


def _redact_with_frames(text: str, frames: tuple[Frame, ...], by: Redactor) -> tuple[str, tuple[Frame, ...]]:
    """A text and its frames; none if a secret begins in the words of one and ends in those of another."""
    redacted = by.redact(text)
    if redacted == text or not frames:
        return redacted, frames
    quoted = requote(text, frames, by.redact)
    return (quoted.text, quoted.frames) if by.redact(quoted.text) == quoted.text else (redacted, ())


def _redact_received_broadcast(received: ReceivedBroadcast, by: Redactor) -> ReceivedBroadcast:
    data = by.redact_value(received.broadcast.data)
    return _replace_changed(received, broadcast=_replace_changed(received.broadcast, data=data))


def _redact_model_replied(event: ModelReplied, by: Redactor) -> ModelReplied:
    text = by.redact(event.text)
    if event.output is not None:
        # A verdict holds for the text that was checked. Without one the value is not taken.
        event = _replace_changed(event, output=_redact_output(event.output, by) if text == event.text else None)
    if event.reasoning:
        event = _replace_changed(event, reasoning=redact_reasoning(event.reasoning, by.redact))
    if not event.tool_calls and event.verdict is None:
        return _replace_changed(event, text=text)
    return _replace_changed(
        event,
        text=text,
        tool_calls=tuple(_redact_tool_request(each, by) for each in event.tool_calls),
        verdict=_redact_verdict_if_any(event.verdict, by),
        original=_redact_original(event.original, by),
    )


def _redact_tool_request(call: ToolRequest, by: Redactor) -> ToolRequest:
    """Id and name are words of the model, not yet ids of ours."""
    return _replace_changed(
        call, id=by.redact(call.id), name=by.redact(call.name), arguments=by.redact_json(call.arguments)
    )


def _redact_model_failed(event: ModelFailed, by: Redactor) -> ModelFailed:
    return _replace_changed(event, error=by.redact(event.error))


def _redact_tool_returned(event: ToolReturned, by: Redactor) -> ToolReturned:
    return _replace_changed(
        event,
        output=by.redact(event.output),
        memory=by.redact_value(event.memory),
        held_memory=by.redact_value(event.held_memory),
        verdict=_redact_verdict_if_any(event.verdict, by),
    )


def _redact_run_resumed(event: RunResumed, by: Redactor) -> RunResumed:
    return _replace_changed(event, input=by.redact(event.input), by=by.redact(event.by))


def _redact_cancel_requested(event: CancelRequested, by: Redactor) -> CancelRequested:
    return _replace_changed(event, by=by.redact(event.by))


def _redact_approval_needed(event: ApprovalNeeded, by: Redactor) -> ApprovalNeeded:
    terms = event.terms
    if terms is not None:
        terms = _replace_changed(terms, because=by.redact(terms.because), pattern=by.redact(terms.pattern))
    return _replace_changed(event, fault=by.redact(event.fault), terms=terms)


def _redact_tool_decided(event: ToolDecided, by: Redactor) -> ToolDecided:
    return _replace_changed(event, tool=by.redact(event.tool), rule=by.redact(event.rule))


def _redact_broadcast_heard(event: BroadcastHeard, by: Redactor) -> BroadcastHeard:
    return _replace_changed(event, heard=_redact_received_broadcast(event.heard, by))


def _redact_mail_taken(event: MailTaken, by: Redactor) -> MailTaken:
    return _replace_changed(event, heard=tuple(_redact_received_broadcast(each, by) for each in event.heard))


def _redact_child_returned(event: ChildReturned, by: Redactor) -> ChildReturned:
    return _replace_changed(
        event,
        text=by.redact(event.text),
        detail=by.redact(event.detail),
        memory=by.redact_value(event.memory),
        history=_redact_entries(event.history, by),
    )


def _redact_message_given(event: MessageGiven, by: Redactor) -> MessageGiven:
    return _replace_changed(event, body=by.redact_value(event.body))


def _redact_park_requested(event: ParkRequested, by: Redactor) -> ParkRequested:
    return _replace_changed(event, hindrance=by.redact(event.hindrance))


def _redact_drive_failed(event: DriveFailed, by: Redactor) -> DriveFailed:
    return _replace_changed(event, error=by.redact(event.error))


_REDACTORS: dict[type, Callable[[Any, Redactor], Any]] = {
    RunStarted: _redact_run_started,
    ModelReplied: _redact_model_replied,
    ModelFailed: _redact_model_failed,
    ToolReturned: _redact_tool_returned,
    RunResumed: _redact_run_resumed,
    CancelRequested: _redact_cancel_requested,
    ApprovalNeeded: _redact_approval_needed,
    ToolDecided: _redact_tool_decided,
    HooksDecided: _redact_hooks_decided,
    BroadcastHeard: _redact_broadcast_heard,
    MailTaken: _redact_mail_taken,
    ChildReturned: _redact_child_returned,
    MessageGiven: _redact_message_given,
    DriveFailed: _redact_drive_failed,
    ParkRequested: _redact_park_requested,
}
