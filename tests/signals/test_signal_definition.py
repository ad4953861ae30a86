"""What a signal is: the format of its name, its fields, and what follows from them."""

from typing import Any

import pytest

from interlock.signals import (
    SignalBehavior,
    SignalDefinition,
    SignalError,
    SignalRegistry,
    SignalValidator,
    is_signal_name,
    load_default_signals,
)

BEHAVIORS = ["terminate", "route", "pause", "parallel", "broadcast", "external", "sub_crew"]


@pytest.mark.parametrize(
    "name",
    [
        "[A]",
        "[END]",
        "[end]",
        "[END_EXAM]",
        "[QUESTION_READY]",
        "[GO-ON]",
        "[KẾT_THÚC]",
        "[CÂU HỎI]",
        "[終了]",
        "[конец]",
        "[पूर्ण]",
        "[انتهى]",
        "[7]",
        "[٣]",
        "[_A]",
        "[-1-]",
        "[__END__]",
        "[KE\u0302\u0301T]",
        f"[{'X' * 198}]",
    ],
)
def test_letters_and_digits_of_any_script_make_a_name(name: str) -> None:
    assert is_signal_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "END_EXAM",
        "[END_EXAM",
        "END_EXAM]",
        "[]",
        "",
        "[",
        "]",
        "][",
        "[_]",
        "[-]",
        "[ ]",
        "[\u0301]",
        "[ END]",
        "[END ]",
        "[END  EXAM]",
        "[END\tEXAM]",
        "[END\nEXAM]",
        "[END\u00a0EXAM]",
        "[[END]]",
        "[E]ND]",
        "[E[ND]",
        "[END!]",
        "[END.]",
        "[*END*]",
        "[END\x00]",
        "[EN\u200bD]",
        "[END\ud800]",
        "[🚀]",
        " [END]",
        "[END]\n",
        f"[{'X' * 199}]",
    ],
)
def test_anything_else_is_no_name(name: str) -> None:
    assert not is_signal_name(name)


def test_a_definition_needs_no_more_than_a_name_and_routes() -> None:
    definition = SignalDefinition(name="[X]")
    assert definition.behavior == "route"
    assert definition.rank == 50
    assert definition.description == definition.default_target == definition.example == ""
    assert definition.valid_targets == []
    assert definition.max_occurs is None
    assert not definition.required


def test_a_behavior_is_a_plain_string() -> None:
    assert [str(behavior) for behavior in SignalBehavior] == BEHAVIORS
    assert SignalDefinition(name="[X]", behavior="pause").behavior == SignalBehavior.PAUSE


@pytest.mark.parametrize(("behavior", "rank"), list(zip(BEHAVIORS, [100, 50, 80, 60, 50, 50, 60], strict=True)))
def test_without_a_priority_the_behavior_gives_one(behavior: str, rank: int) -> None:
    assert SignalDefinition(name="[X]", behavior=behavior).rank == rank


@pytest.mark.parametrize("priority", [0, 1, 110, 1_000])
def test_a_stated_priority_is_the_one_in_force(priority: int) -> None:
    assert SignalDefinition(name="[X]", behavior="terminate", priority=priority).rank == priority


def test_every_agent_may_emit_by_default() -> None:
    definition = SignalDefinition(name="[X]")
    assert definition.allow_all_agents is True
    assert definition.may_be_emitted_by("anyone")


def test_only_the_listed_agents_may_emit() -> None:
    definition = SignalDefinition(name="[X]", allowed_agents=["teacher", "coordinator"])
    assert definition.allow_all_agents is False
    assert definition.may_be_emitted_by("coordinator")
    assert not definition.may_be_emitted_by("reporter")
    assert not definition.may_be_emitted_by("Teacher")
    assert not definition.may_be_emitted_by("")


def test_allowing_all_agents_outweighs_the_list() -> None:
    definition = SignalDefinition(name="[X]", allow_all_agents=True, allowed_agents=["teacher"])
    assert definition.may_be_emitted_by("reporter")


def test_a_definition_does_not_change_with_the_lists_it_was_made_from() -> None:
    agents, targets = ["teacher"], ["a"]
    definition = SignalDefinition(name="[X]", allowed_agents=agents, valid_targets=targets)
    agents.append("reporter")
    targets.clear()
    assert definition.allowed_agents == ["teacher"]
    assert definition.valid_targets == ["a"]


@pytest.mark.parametrize("field", ["allowed_agents", "valid_targets"])
def test_a_text_in_place_of_a_list_is_not_taken_letter_by_letter(field: str) -> None:
    with pytest.raises(SignalError, match=f"{field} must be a list of ids"):
        SignalDefinition(name="[X]", **{field: "teacher"})  # type: ignore[arg-type]


def test_a_definition_cannot_be_changed() -> None:
    definition = SignalDefinition(name="[X]")
    with pytest.raises(AttributeError):
        definition.priority = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"behavior": "jump"}, "behavior must be one of terminate, route, pause"),
        ({"behavior": "ROUTE"}, "behavior must be one of"),
        ({"behavior": ""}, "behavior must be one of"),
        ({"priority": -1}, "priority must be a whole number from 0 to 1000"),
        ({"priority": 1_001}, "priority must be a whole number from 0 to 1000"),
        ({"max_occurs": 0}, "max_occurs must be a whole number from 1"),
    ],
)
def test_a_field_that_cannot_hold_its_value_is_refused_on_registration(fields: dict[str, object], advice: str) -> None:
    with pytest.raises(SignalError, match=advice):
        SignalRegistry().register(SignalDefinition(name="[X]", **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "replacement"),
    [
        ("Use [NEW_SIGNAL] instead", "[NEW_SIGNAL]"),
        ("[NEW] or [NEWER]", "[NEW]"),
        ("[OLD] is gone, use [NEW]", "[NEW]"),
        ("see [1.2] and use [NEW]", "[NEW]"),
        ("[OLD] is gone", None),
        ("no longer used", None),
        ("", None),
    ],
)
def test_a_deprecated_signal_names_its_replacement(message: str, replacement: str | None) -> None:
    assert SignalDefinition(name="[OLD]", deprecated_msg=message).replacement == replacement


@pytest.mark.parametrize(
    "fields",
    [
        {"name": None},
        {"priority": "5"},
        {"priority": 1.5},
        {"priority": True},
        {"allowed_agents": None},
        {"valid_targets": 3},
        {"behavior": "terminate", "default_target": "a"},
    ],
)
def test_every_refusal_of_a_definition_is_a_signal_error(fields: dict[str, Any]) -> None:
    with pytest.raises(SignalError):
        SignalRegistry().register(SignalDefinition(**{"name": "[A]", "behavior": "route", **fields}))


def test_a_signal_that_is_no_text_is_refused_like_any_other() -> None:
    validator = SignalValidator(load_default_signals())
    with pytest.raises(SignalError):
        validator.validate_signal_emission(None, "a")  # type: ignore[arg-type]
    assert validator.validate_configuration({"a": None}, ["a"]) == []  # type: ignore[dict-item]
