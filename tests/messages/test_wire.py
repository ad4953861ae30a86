"""The six messages on the wire: exactly as the protocol writes them, and nothing else is taken."""

import json
from typing import Any

import pytest

from interlock.messages import (
    Answer,
    BadMessage,
    Delegate,
    Message,
    Query,
    Report,
    RequestUserInput,
    UserResponse,
    from_wire,
    to_wire,
)

# As seed 004 has them, with the placeholders filled.
SEED: list[dict[str, Any]] = [
    {
        "type": "DELEGATE",
        "from": "parent_agent_id",
        "to": "child_agent_id",
        "task": "Research flights from LAX to Italy",
        "context": {"budget": 900, "dates": ["2026-12-01"]},
        "message_id": "uuid",
        "requires_response": True,
    },
    {
        "type": "REPORT",
        "from": "child_agent_id",
        "to": "parent_agent_id",
        "result": "Found 3 flight options...",
        "status": "partial",
        "message_id": "uuid",
        "in_response_to": "parent_message_id",
    },
    {
        "type": "REQUEST_USER_INPUT",
        "from": "agent_id",
        "question": "What is your departure city?",
        "context": "I need this to search for flights",
        "message_id": "uuid",
        "awaiting_response": True,
    },
    {
        "type": "USER_RESPONSE",
        "to": "agent_id",
        "answer": "LAX",
        "message_id": "uuid",
        "in_response_to": "request_message_id",
    },
    {
        "type": "QUERY",
        "from": "child_agent_id",
        "to": "parent_agent_id",
        "question": "Should I prioritize price or convenience?",
        "message_id": "uuid",
        "requires_response": True,
    },
    {
        "type": "ANSWER",
        "from": "parent_agent_id",
        "to": "child_agent_id",
        "answer": "Prioritize price",
        "message_id": "uuid",
        "in_response_to": "query_message_id",
    },
]
CLASSES: dict[str, type[Message]] = {
    "DELEGATE": Delegate,
    "REPORT": Report,
    "REQUEST_USER_INPUT": RequestUserInput,
    "USER_RESPONSE": UserResponse,
    "QUERY": Query,
    "ANSWER": Answer,
}
by_type = pytest.mark.parametrize("wire", SEED, ids=lambda wire: wire["type"])


@by_type
def test_a_message_of_the_seed_survives_the_trip_key_by_key_in_its_order(wire: dict[str, Any]) -> None:
    message = from_wire(wire)
    assert message.__class__ is CLASSES[wire["type"]]
    assert message.to_wire() == to_wire(message) == wire
    assert list(message.to_wire()) == list(wire)


@by_type
def test_json_text_and_the_class_itself_read_the_same(wire: dict[str, Any]) -> None:
    cls = CLASSES[wire["type"]]
    assert (
        cls.from_wire(wire)
        == from_wire(json.dumps(wire))
        == from_wire(json.dumps(wire).encode())
        == Message.from_wire(wire)
    )


@by_type
def test_an_unknown_key_is_refused_by_its_name(wire: dict[str, Any]) -> None:
    with pytest.raises(BadMessage, match=r"priority.*its keys are type, "):
        from_wire({**wire, "priority": 1})


@by_type
def test_a_missing_key_is_named_unless_the_protocol_knows_what_it_is(wire: dict[str, Any]) -> None:
    optional = ("type", "context", "status", "requires_response", "awaiting_response")
    for key in wire:
        shorter = {name: value for name, value in wire.items() if name != key}
        if key in optional[1:]:
            assert list(from_wire(shorter).to_wire()) == list(wire)
        else:
            with pytest.raises(BadMessage, match=key):
                from_wire(shorter)


@by_type
def test_a_value_of_another_kind_is_refused(wire: dict[str, Any]) -> None:
    for key in wire:
        for value in (7, None, ["x"]):
            with pytest.raises(BadMessage):
                from_wire({**wire, key: value})


@by_type
def test_ids_names_tasks_and_questions_may_not_be_blank(wire: dict[str, Any]) -> None:
    for key in ("from", "to", "task", "question", "message_id", "in_response_to"):
        if key in wire:
            with pytest.raises(BadMessage, match=f"{wire['type']} needs '{key}'"):
                from_wire({**wire, key: " "})


def test_what_is_no_message_is_told_what_one_is() -> None:
    for odd, why in (
        ([], "an object"),
        ("[]", "an object"),
        ("{", "no JSON"),
        (b"\xff", "no JSON"),
        ({}, "needs 'type'"),
        ({"type": "DELEGAT"}, "did you mean 'DELEGATE'"),
        ({"type": ["REPORT"]}, "is no message"),
        ('{"a":' * 5000, "no JSON.*600 levels"),
        ('{"type":"QUERY","from":"a","to":"b","to":"c","question":"?","message_id":"1"}', "'to'.*more than once"),
        ({**SEED[0], "context": {"a": object()}}, "what JSON can say"),
        ({**SEED[0], "task": "\ud800"}, "what JSON can say"),
    ):
        with pytest.raises(BadMessage, match=why):
            from_wire(odd)  # type: ignore[arg-type]


def test_a_class_reads_its_own_type_alone() -> None:
    with pytest.raises(BadMessage, match="this is a REPORT, and a DELEGATE was expected"):
        Delegate.from_wire(SEED[1])


def test_a_status_that_is_none_is_refused_by_whoever_makes_the_report() -> None:
    with pytest.raises(BadMessage, match="completed, partial, needs_help"):
        Report(message_id="1", from_="c", to="p", result="x", status="done", in_response_to="0")  # type: ignore[arg-type]


def test_whoever_makes_a_message_is_told_what_its_fields_hold() -> None:
    with pytest.raises(BadMessage, match="REPORT needs 'result', a text, got 5"):
        Report(message_id="1", from_="c", to="p", result=5, in_response_to="0")  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match="DELEGATE needs 'context', an object, got 'x'"):
        Delegate(message_id="1", from_="p", to="c", task="x", context="x")  # type: ignore[arg-type]
    with pytest.raises(BadMessage, match="QUERY needs 'requires_response', true or false, got 1"):
        Query(message_id="1", from_="c", to="p", question="x", requires_response=1)  # type: ignore[arg-type]


def test_an_id_has_a_bound() -> None:
    Query(message_id="x" * 200, from_="c", to="p", question="q")
    with pytest.raises(BadMessage, match="200 characters"):
        Query(message_id="x" * 201, from_="c", to="p", question="q")


def test_people_are_the_user() -> None:
    asked, said = from_wire(SEED[2]), from_wire(SEED[3])
    assert (asked.sender, asked.addressee) == ("agent_id", "user")
    assert (said.sender, said.addressee, said.answers) == ("user", "agent_id", "request_message_id")
    assert asked.asks
    assert not said.asks
