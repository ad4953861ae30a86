"""Every text of every incoming event is redacted, unless it is an id, a name or a digest that is listed here."""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.engine import events
from interlock.engine.events import Entry
from interlock.messages.frames import Frame, Quoting
from interlock.runtime import redaction
from interlock.runtime.redaction import redact_event

SECRET = "canary-secret-0001"
KINDS: tuple[type[msgspec.Struct], ...] = typing.get_args(events.IncomingEvent)

# What is compared and must stay as it is. None of it is written by a model, a tool or a person.
KEPT = {
    *(f"{kind.__name__}.mail" for kind in KINDS),  # ids of agents
    *(f"RunStarted.{name}" for name in ("continues", "crew", "crew_sha", "entry", "path", "schedule", "way")),
    *(f"RunStarted.bounds.limits.{name}" for name in ("crew", "name", "scope", "then", "what", "window")),
    *("RunStarted.bounds.given.crew", "RunStarted.bounds.given.what"),
    *("RunStarted.frames.author", "RunStarted.frames.kind"),
    # Names of tools, providers and hooks of the host, and of the crews and agents whose outputs it checks.
    *(f"RunStarted.needs.{name}" for name in ("approvals", "functions", "hooks", "outputs", "providers")),
    *("HooksDecided.agent", "HooksDecided.call", "ModelReplied.original.digest"),
    *(
        f"{kind}.verdict.{name}"
        for kind in ("HooksDecided", "ModelReplied", "RunStarted", "ToolReturned")
        for name in ("decisions.hook", "point")
    ),
    *(f"RunStarted.messages.{name}" for name in ("from_", "schema", "to", "type")),  # types that the host registered
    *(f"Reserved.{name}" for name in ("agent", "alerts", "call", "exceeded", "refused", "then", "what")),
    *(f"ModelReplied.{name}" for name in ("agent", "call", "model", "purpose")),
    *(f"ModelFailed.{name}" for name in ("agent", "call", "model", "reason")),
    *("ModelCallLost.call", "ModelCallLost.agent", "ModelCallLost.model"),
    *("ToolReturned.call", "ToolOutcomeLost.call", "ApprovalNeeded.call", "TimerFired.timer"),
    *(f"ToolDecided.{name}" for name in ("approval", "by", "call", "verdict")),  # `by` was redacted when it was stored
    *("RunResumed.token", "InputExpired.token", "ParkRequested.by"),
    *("BroadcastHeard.agent", "MailTaken.agent", "MailTaken.call", "ChildContinues.call"),
    *("ChildReturned.call", "ChildReturned.reason", "ChildReturned.status"),
    *(f"ChildWaits.{name}" for name in ("call", "waits.agent", "waits.reason", "waits.token")),
    *("MessageGiven.key", "MessageGiven.kind", "MessageGiven.to"),  # refused where they hold a secret
    *(
        f"{place}.broadcast.{name}"  # refused where they hold a secret
        for place in ("RunStarted.heard", "BroadcastHeard.heard", "MailTaken.heard")
        for name in ("id", "source.id", "type")
    ),
    *(
        f"{place}.{name}"
        for place in ("RunStarted.history", "RunStarted.context.parent_history", "ChildReturned.history")
        for name in ("author", "frames.author", "frames.kind", "role", "run")
    ),
}


def value_of(info: inspect.Type) -> Any:
    """A value with the secret wherever there can be a text; keys of objects are plain."""
    match info:
        case inspect.DictType():
            return {"key": value_of(info.value_type)}
        case inspect.VarTupleType() | inspect.ListType():
            return (value_of(info.item_type),)
        case inspect.TupleType():
            return tuple(value_of(each) for each in info.item_types)
        case inspect.UnionType():
            return value_of(next(each for each in info.types if not isinstance(each, inspect.NoneType)))
        case inspect.StructType(cls=cls) if cls is Frame:
            return Frame(SECRET, SECRET, 4, 4 + len(SECRET))
        case inspect.StructType():
            return info.cls(**{field.name: value_of(field.type) for field in info.fields})
        case _:
            return plain(info)


def plain(info: inspect.Type) -> Any:
    match info:
        case inspect.StrType():
            return f"say {SECRET}."
        case inspect.AnyType():
            return {"deep": [f"say {SECRET}."]}
        case inspect.BoolType() | inspect.IntType() | inspect.FloatType():
            return 0
        case inspect.LiteralType():
            return info.values[0]
        case inspect.EnumType():
            return next(iter(info.cls))
        case _:
            raise AssertionError(f"say how a {info} is filled")


def texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text in a value, with the names of the fields that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each, path)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each, path)
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from texts(getattr(value, field.name), f"{path}.{field.name}")


def left_over(kind: type[msgspec.Struct]) -> set[str]:
    event: Any = value_of(inspect.type_info(kind))
    redacted = redact_event(event, KnownSecrets([SECRET]))
    return {path for path, text in texts(redacted, kind.__name__) if SECRET in text}


def test_every_text_of_every_incoming_event_is_redacted_or_kept_on_purpose() -> None:
    """A field that is new is on one side or the other, at any depth."""
    assert {path for kind in KINDS for path in left_over(kind)} == KEPT


@pytest.mark.parametrize("kind", redaction._REDACTORS)
def test_an_event_that_nobody_redacts_is_found(monkeypatch: pytest.MonkeyPatch, kind: type[msgspec.Struct]) -> None:
    """Planted."""
    monkeypatch.delitem(redaction._REDACTORS, kind)
    assert not left_over(kind) <= KEPT


def test_frames_stay_around_what_others_said() -> None:
    """A secret before a frame, and one inside it: the words of the other author stay inside, and nothing else."""
    quoting = Quoting().add(f"{SECRET} asked: ").quote("manager", "reply", f"use {SECRET} now").add(" - end")
    entry = Entry(role="user", author="interlock", text=quoting.text, turn=1, frames=quoting.frames)
    started = events.RunStarted(crew="c", input="x", rules=3, crew_sha="", history=(entry,))
    redacted = redact_event(started, KnownSecrets([SECRET]))
    assert isinstance(redacted, events.RunStarted)
    (kept,) = redacted.history
    assert isinstance(kept.frames, tuple)
    (frame,) = kept.frames
    assert kept.text == "[redacted] asked: use [redacted] now - end"
    assert kept.text[frame.start : frame.end] == "use [redacted] now"
    assert (frame.author, frame.kind) == ("manager", "reply")
