"""Typed events: nothing of a public event is lost, and nothing is an exception."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from interlock import events
from interlock.engine import events as journal
from interlock.engine.to_plain import to_plain
from interlock.events import (
    TYPES,
    Event,
    HandoffEvent,
    ModelDeltaEvent,
    PublicStruct,
    RunFinishedEvent,
    RunStartedEvent,
    ToolProgressEvent,
    UnknownEvent,
    event_of,
)
from interlock.ports import Record
from interlock.runtime.watchers import PublicEvent, public_events
from tests.engine.test_scenarios import SCENARIOS, Story, steps
from tests.test_golden import JOURNALS, opened

# They are never stored, so no engine event is behind them.
PIECES = {"model.delta", "reasoning.delta", "tool.progress"}


def plain_json(shown: PublicEvent) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shown))


def require_lossless(shown: PublicEvent) -> None:
    event = event_of(shown)
    assert not isinstance(event, UnknownEvent), shown
    assert event.to_dict() == shown
    assert event.type == shown["type"]
    again = plain_json(shown)  # as a program that reads SSE has it
    assert event_of(again) == event
    below = {**shown, "path": ["team", "inner"]}
    assert event_of(below).to_dict() == below


@pytest.mark.parametrize("file", JOURNALS, ids=lambda file: file.stem)
def test_every_event_of_a_golden_journal_is_typed_without_loss(file: Path) -> None:
    found, _, records = opened(file)
    for record in records:
        for shown in public_events(found.row.run, record):
            require_lossless(shown)


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.txt")), ids=lambda file: file.stem)
def test_every_event_of_a_story_is_typed_without_loss(file: Path, tmp_path: Path) -> None:
    story = Story(tmp_path)
    for command, _ in steps(file.read_text("utf-8").partition("\n")[2]):
        story.tell(command)
        for event in newest_events(story):
            require_lossless(event)


def newest_events(story: Story) -> Iterator[PublicEvent]:
    """The events of the last step of the run that is told now."""
    if getattr(story, "events", ()):
        yield from public_events("r", Record(seq=1, at=7, events=(story.events[-1], *story.facts[-1])))


def test_every_stored_event_has_a_class_with_all_its_fields() -> None:
    stored = {str(kind.__struct_config__.tag): kind for kind in get_args(journal.Event)}
    assert set(TYPES) == set(stored) | PIECES
    for name, kind in stored.items():
        public = {field.encode_name for field in msgspec.structs.fields(kind)} - {"worked_ms", "mail"}
        assert public <= {field.encode_name for field in msgspec.structs.fields(TYPES[name])}, name


def test_the_union_has_every_class_and_nothing_else() -> None:
    assert set(get_args(Event)) == {*TYPES.values(), UnknownEvent}
    named = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, PublicStruct)}
    assert {each for each in named if isinstance(each.__struct_config__.tag, str)} >= set(TYPES.values())
    assert {kind.__name__ for kind in TYPES.values()} <= set(events.__all__)


def test_the_name_of_a_class_is_made_of_its_type() -> None:
    for name, kind in TYPES.items():
        words = name.replace("_", ".").split(".")
        assert kind.__name__ == "".join(word.capitalize() for word in words) + "Event"


def test_pieces_have_no_place_in_the_journal() -> None:
    delta = {"run": "r", "type": "model.delta", "agent": "a", "text": "Hel"}
    progress = {"run": "r", "type": "tool.progress", "agent": "a", "call": "c", "text": "half", "path": ["team"]}
    assert event_of(delta) == ModelDeltaEvent(run="r", agent="a", text="Hel")
    assert event_of(progress) == ToolProgressEvent(run="r", agent="a", call="c", text="half", path=("team",))
    assert [event_of(each).to_dict() for each in (delta, progress)] == [delta, progress]


def test_events_can_be_matched_and_are_frozen() -> None:
    handoff = event_of({"run": "r", "seq": 3, "at": 1, "type": "handoff", "from": "a", "to": "b", "signal": "[NEXT]"})
    match handoff:
        case HandoffEvent(from_=origin, to=target, signal="[NEXT]"):
            assert (origin, target) == ("a", "b")
        case _:
            pytest.fail("not matched")
    with pytest.raises(AttributeError):
        handoff.to = "c"  # type: ignore[misc]


def test_an_unknown_type_keeps_its_fields() -> None:
    shown = {"run": "r", "seq": 9, "at": 1, "type": "future.thing", "size": {"deep": [1]}}
    event = event_of(shown)
    assert isinstance(event, UnknownEvent)
    assert (event.type, event.run, event.fields["size"]) == ("future.thing", "r", {"deep": [1]})
    assert event.to_dict() == shown


@pytest.mark.parametrize(
    "shown",
    [
        {"run": "r", "seq": 1, "at": 1, "type": "stale", "about": "x", "more": 1},  # a field of a newer version
        {"run": "r", "seq": 1, "at": 1, "type": "stale"},  # a field is missing
        {"run": "r", "seq": "1", "at": 1, "type": "stale", "about": "x"},
        {"type": ["list"]},
        {},
    ],
)
def test_what_does_not_fit_its_class_is_kept_as_unknown(shown: dict[str, Any]) -> None:
    event = event_of(shown)
    assert isinstance(event, UnknownEvent)
    assert event.to_dict() == shown


def test_fields_that_most_events_do_not_have_are_left_out() -> None:
    started = journal.RunStarted(crew="c", input="hi", rules=3)
    (shown,) = public_events("r", Record(seq=1, at=5, events=(started,)))
    event = event_of(shown)
    assert isinstance(event, RunStartedEvent)
    assert (event.by, event.heard, event.context) == ("", None, {})
    assert not {"by", "heard", "context"} & set(event.to_dict())


def test_a_result_is_typed_inside_too() -> None:
    finished = journal.RunFinished(
        status="completed",
        reason="signal:[END]",
        agent="a",
        output="Bye [END]",
        text="Bye",
        usage=journal.Usage(calls=2),
    )
    (shown,) = public_events("r", Record(seq=1, at=5, events=(finished,)))
    event = event_of(shown)
    assert isinstance(event, RunFinishedEvent)
    assert event.usage.calls == 2
    assert to_plain(event.usage) == shown["usage"]
